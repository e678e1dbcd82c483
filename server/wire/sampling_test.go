package wire

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
)

// paramOf returns the field that an error names, or "" without an error.
func paramOf(t *testing.T, err error) string {
	t.Helper()
	var e *Error
	if err != nil && (!errors.As(err, &e) || e.Status != 400 || e.Param == "") {
		t.Errorf("%v", err)
	}
	if e == nil {
		return ""
	}
	return e.Param
}

func TestReadSeed(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "7": 7, "-1": math.MaxUint64, "18446744073709551615": math.MaxUint64,
		"-9223372036854775808": 1 << 63} {
		if got, err := ReadSeed("seed", json.RawMessage(text)); err != nil || got == nil || *got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "null"} {
		if got, err := ReadSeed("seed", json.RawMessage(text)); err != nil || got != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"1.5", "1e3", `"1"`, "true", "18446744073709551616", "-9223372036854775809"} {
		if _, err := ReadSeed("seed", json.RawMessage(text)); paramOf(t, err) != "seed" {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestSetStops(t *testing.T) {
	long := strings.Repeat("x", maxStop)
	for _, c := range []struct {
		stops []string
		param string
	}{
		{nil, ""}, {[]string{"a", long}, ""}, {make([]string, maxStops+1), "stop"}, {[]string{"a", ""}, "stop[1]"},
		{[]string{long + "x"}, "stop[0]"},
	} {
		if param := paramOf(t, SetStops("stop", c.stops, new([]string))); param != c.param {
			t.Errorf("%d stops: an error about %q, want %q", len(c.stops), param, c.param)
		}
	}
}
