package backend_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
)

// TestOffIsOff writes in each way that settings are off.
func TestOffIsOff(t *testing.T) {
	base := backend.Sampling{Temperature: 1, Seed: 7, TopLogprobs: 2}
	want := base.Plain()
	for _, off := range backendtest.Off {
		s := base
		off.Write(&s)
		before := s
		before.Bias = slices.Clone(s.Bias)
		got := s.Plain()
		if !reflect.DeepEqual(s, before) {
			t.Errorf("%s: the sampling was changed", off.Name)
		}
		if len(got.Bias) == 0 {
			got.Bias = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", off.Name, got, want)
		}
		if again := got.Plain(); !reflect.DeepEqual(again, got) {
			t.Errorf("%s: %+v, and then %+v", off.Name, got, again)
		}
		if s.Penalises() || !s.Same(&base) || !base.Same(&s) {
			t.Errorf("%s has an effect", off.Name)
		}
	}
}

// TestPlainKeepsWhatActs sets each setting to a value that acts, with all others on, and expects it to stay. A new
// setting needs a value here, and a look at Plain and Same.
func TestPlainKeepsWhatActs(t *testing.T) {
	on := backend.Sampling{Temperature: 0.5, TopK: 3, TopP: 0.5, MinP: 0.1, TypicalP: 0.5, RepetitionPenalty: 1.1,
		PresencePenalty: 0.1, FrequencyPenalty: 0.1, Seen: []backend.Token{1}, PenaltyWindow: 2,
		Bias: []backend.TokenBias{{Token: 1, Bias: 1}}, Seed: 1, TopLogprobs: 1}
	if got := on.Plain(); !reflect.DeepEqual(got, on) {
		t.Errorf("%+v became %+v", on, got)
	}
	fields := reflect.ValueOf(on)
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Name
		if fields.Field(i).IsZero() {
			t.Errorf("%s is not set", name)
		}
		other := on
		reflect.ValueOf(&other).Elem().Field(i).SetZero()
		same := name == "Seen" || name == "TopLogprobs" // these do not say how a token is drawn
		if on.Same(&other) != same || other.Same(&on) != same {
			t.Errorf("without %s it is the same: %t, want %t", name, !same, same)
		}
	}
	for _, s := range []backend.Sampling{{RepetitionPenalty: 1.0000001}, {PresencePenalty: -0.1},
		{FrequencyPenalty: 0.1}} {
		if !s.Penalises() {
			t.Errorf("%+v penalises nothing", s)
		}
	}
}

// TestSettingsHaveAllNumbers compares the list of settings with the fields.
func TestSettingsHaveAllNumbers(t *testing.T) {
	var s backend.Sampling
	fields, n := reflect.ValueOf(&s).Elem(), 0
	for i := range fields.NumField() {
		f := fields.Type().Field(i)
		if k := f.Type.Kind(); k != reflect.Int && k != reflect.Float32 {
			continue
		}
		settings := s.Settings()
		at := slices.IndexFunc(settings[:], func(x backend.Setting) bool { return x.Field == f.Name })
		if at < 0 {
			t.Errorf("%s is not in the list", f.Name)
			continue
		}
		x := settings[at]
		n++
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "-" && x.Name != name {
			t.Errorf("%s, %s in JSON, has the setting %s, %s", f.Name, name, x.Field, x.Name)
		}
		to := fields.Field(i).Addr().Interface()
		if x.Int != nil && to != x.Int || x.Float != nil && to != x.Float || (x.Int == nil) == (x.Float == nil) {
			t.Errorf("%s is another field", x.Field)
		}
		if x.Off < x.Min || x.Off > x.Max || x.Off != 0 && x.Float == nil {
			t.Errorf("%s cannot be off: %+v", x.Field, x)
		}
	}
	if n != backend.NumSettings {
		t.Errorf("%d numbers, and %d settings", n, backend.NumSettings)
	}
}
