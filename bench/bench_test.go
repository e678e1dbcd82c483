package bench

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/bench/machine"
)

// named returns a model as a subject.
func named(name string, m backend.Model) []Subject { return []Subject{{m, Row{Subject: name}}} }

func TestNames(t *testing.T) {
	for _, c := range []struct {
		test Test
		want string
	}{
		{Test{Prompt: 512}, "pp512"}, {Test{Generate: 128}, "tg128"},
		{Test{Prompt: 512, Generate: 128}, "pp512+tg128"}, {Test{Generate: 32, Depth: 4096}, "tg32 @ d4096"},
	} {
		if got := c.test.Name(); got != c.want {
			t.Errorf("%+v is called %q, want %q", c.test, got, c.want)
		}
	}
}

// TestTimes: in a time that is not real, each test takes exactly what its steps take, and what comes before the clock
// starts does not count.
func TestTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := fake.New(fake.Config{Delay: func(tokens int) time.Duration {
			return time.Duration(10+tokens) * time.Millisecond
		}})
		defer m.Close()
		tests := []Test{{Prompt: 20}, {Generate: 8}, {Prompt: 20, Generate: 8}, {Generate: 8, Depth: 30}}
		rows, err := Run(t.Context(), named("slow", m), tests, Options{Repeat: 3})
		if err != nil {
			t.Fatal(err)
		}
		want := []time.Duration{30, 8 * 11, 30 + 8*11, 8 * 11}
		for i, r := range rows {
			if len(r.samples) != 3 {
				t.Fatalf("%s has %d samples, want 3", r.Test(), len(r.Samples))
			}
			for _, s := range r.samples {
				if s.Took != want[i]*time.Millisecond {
					t.Errorf("%s took %v, want %v", r.Test(), s.Took, want[i]*time.Millisecond)
				}
				if r.Prompt > 0 && s.First != 30*time.Millisecond {
					t.Errorf("%s: first token after %v, want 30ms", r.Test(), s.First)
				}
				if len(s.Gaps) != r.Generate || slices.ContainsFunc(s.Gaps, func(g time.Duration) bool {
					return g != 11*time.Millisecond
				}) {
					t.Errorf("%s: gaps %v, want %d of 11ms", r.Test(), s.Gaps, r.Generate)
				}
			}
		}
		if got, want := rows[1].Samples[0], 8/0.088; math.Abs(got-want) > 1e-9 {
			t.Errorf("%v tokens a second, want %v", got, want)
		}
		if got := rows[3].Gap95NS; got != 11e6 {
			t.Errorf("95%% of the gaps are below %d ns, want 11000000", got)
		}
	})
}

// TestRunsAreInterleaved: each round measures every subject, and every second one goes backwards.
func TestRunsAreInterleaved(t *testing.T) {
	var log []string
	noting := func(name string) *fake.Model {
		return fake.New(fake.Config{Fail: func(_ int, in []backend.Input) error {
			if len(in[0].Sequence.Tokens()) == 0 {
				log = append(log, name)
			}
			return nil
		}})
	}
	a, b := noting("a"), noting("b")
	defer a.Close()
	defer b.Close()
	subjects := slices.Concat(named("a", a), named("b", b))
	_, err := Run(t.Context(), subjects, []Test{{Prompt: 4}}, Options{Repeat: 3, NoWarmUp: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(log, ""); got != "abbaab" {
		t.Errorf("measured %s, want abbaab", got)
	}
}

// TestBandwidth: the bandwidth is measured before and after each run that generates and counts, and no other.
func TestBandwidth(t *testing.T) {
	m := fake.New(fake.Config{})
	defer m.Close()
	calls := 0
	rows, err := Run(t.Context(), named("a", m), []Test{{Prompt: 4}, {Generate: 2}}, Options{Repeat: 3,
		Bandwidth: func() float64 { calls++; return float64(calls) }})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]float64{{0, 0, 0}, {1.5, 3.5, 5.5}} {
		for k, s := range rows[i].samples {
			if s.Bandwidth != want[k] {
				t.Errorf("%s, run %d: bandwidth %v, want %v", rows[i].Test(), k, s.Bandwidth, want[k])
			}
		}
	}
}

// TestMachine: the state of the machine is read directly before and after what counts of a run, which is not the depth.
// The bandwidth is measured beyond that.
func TestMachine(t *testing.T) {
	calls := 0.0
	m := fake.New(fake.Config{Fail: func(_ int, in []backend.Input) error {
		if len(in[0].Sequence.Tokens()) == 0 {
			calls += 1000
		}
		return nil
	}})
	defer m.Close()
	state := func() machine.State { calls++; return machine.State{Clock: calls} }
	o := Options{Repeat: 2, Settle: func(context.Context) bool { calls += 100; return true },
		Bandwidth: func() float64 { calls += 10; return 1 }, Before: state, After: state}
	rows, err := Run(t.Context(), named("a", m), []Test{{Generate: 2, Depth: 3}}, o)
	if err != nil {
		t.Fatal(err)
	}
	// The run that does not count settles once and has no bandwidth: 1102. The others settle twice.
	for k, want := range [][2]float64{{2213, 2214}, {3435, 3436}} {
		s := rows[0].samples[k]
		if s.Before.Clock != want[0] || s.After.Clock != want[1] {
			t.Errorf("run %d: states %v and %v, want %v", k, s.Before.Clock, s.After.Clock, want)
		}
	}
}

// TestSettle: no run and no measurement of the bandwidth begins while an engine computes. A bandwidth that was measured
// beside one does not count.
func TestSettle(t *testing.T) {
	var log strings.Builder
	m := fake.New(fake.Config{Fail: func(_ int, in []backend.Input) error {
		if len(in[0].Sequence.Tokens()) == 0 {
			log.WriteString("r")
		}
		return nil
	}})
	defer m.Close()
	busy := map[int]bool{7: true, 9: true} // before the second run that generates, and after the third
	settled := 0
	o := Options{Repeat: 4, NoWarmUp: true, Bandwidth: func() float64 { log.WriteString("b"); return 1 },
		Settle: func(context.Context) bool { log.WriteString("s"); settled++; return !busy[settled] }}
	rows, err := Run(t.Context(), named("a", m), []Test{{Prompt: 4}, {Generate: 2}}, o)
	if err != nil {
		t.Fatal(err)
	}
	// The four runs of the prompt settle first.
	if got, want := log.String(), "srsrsrsr"+"sbrsb"+"sbr"+"sbrs"+"sbrsb"; got != want {
		t.Errorf("the order is %q, want %q", got, want)
	}
	for k, want := range []float64{1, 0, 0, 1} {
		if got := rows[1].samples[k].Bandwidth; got != want {
			t.Errorf("run %d: bandwidth %v, want %v", k, got, want)
		}
	}
}

func TestErrorsOfEngines(t *testing.T) {
	failed := errors.New("no current")
	m := fake.New(fake.Config{Fail: func(int, []backend.Input) error { return failed }})
	defer m.Close()
	_, err := Run(t.Context(), named("a", m), []Test{{Prompt: 4}}, Options{})
	if !errors.Is(err, failed) || !strings.Contains(err.Error(), "pp4 of a") {
		t.Errorf("the error is %v", err)
	}
	// What was measured before an error is there.
	steps := 0
	late := fake.New(fake.Config{Fail: func(int, []backend.Input) error {
		if steps++; steps > 3 {
			return failed
		}
		return nil
	}})
	defer late.Close()
	rows, err := Run(t.Context(), named("a", late), []Test{{Prompt: 4}, {Prompt: 8}}, Options{Repeat: 2})
	if !errors.Is(err, failed) || len(rows) != 2 || len(rows[0].Samples) != 2 || len(rows[1].Samples) != 0 {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestIntervals: in 400 experiments with 9 samples each, the interval of the median contains the true one about as
// often as it should. With few samples a bootstrap interval is somewhat too narrow.
func TestIntervals(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	hit, found, chance := 0, 0, 0
	const all = 400
	for range all {
		var a, b, c []float64
		for range 9 {
			a, b, c = append(a, 100+5*r.NormFloat64()), append(b, 112+5*r.NormFloat64()), append(c, 100+5*r.NormFloat64())
		}
		if s := Summarize(a); s.Low <= 100 && 100 <= s.High {
			hit++
		}
		if d := Compare(a, b); d.Significant() && d.Low <= d.Ratio && d.Ratio <= d.High {
			found++
		}
		if d := Compare(a, c); d.Significant() {
			chance++
		}
	}
	if hit < all*88/100 {
		t.Errorf("%d of %d intervals contain the true median", hit, all)
	}
	if found < all*95/100 {
		t.Errorf("a difference of 12%% was found in %d of %d experiments", found, all)
	}
	if chance > all*8/100 {
		t.Errorf("a difference that is not there was found in %d of %d experiments", chance, all)
	}
}

func TestOneSample(t *testing.T) {
	if s := Summarize([]float64{7}); s != (Summary{Median: 7, Low: 7, High: 7, Mean: 7}) {
		t.Errorf("one sample gives %+v", s)
	}
	for _, c := range []struct{ a, b int }{{1, 1}, {3, 3}, {2, 5}} {
		if !Compare(make([]float64, c.a), make([]float64, c.b)).TooFew {
			t.Errorf("%d and %d samples can show a difference", c.a, c.b)
		}
	}
	if Compare([]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}).TooFew {
		t.Error("twice four samples are too few")
	}
	if c := Compare([]float64{2, 2}, []float64{2, 2}); c.Ratio != 1 || c.Significant() {
		t.Errorf("equal samples give %+v", c)
	}
}
