package jsonschema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"runner/grammar/suitetest"
)

// TestMaskbench compiles real schemas. A schema passes if it compiles and every instance is classified correctly.
func TestMaskbench(t *testing.T) {
	list := suitetest.MaskBench(t)
	var lines []string
	passed, instances, moved := 0, 0, 0
	refused := map[string]int{}
	for _, r := range list {
		s, err := compileForTest(t, r.Schema)
		if err != nil {
			e := new(Error)
			errors.As(err, &e)
			refused[fmt.Sprintf("%s %s", e.Class, e.Keyword)]++
			lines = append(lines, fmt.Sprintf("%s: %s %s", r.Name, e.Class, e.Keyword))
			t.Logf("%s: %v", r.Name, err)
			continue
		}
		right := true
		for i, test := range r.Instances {
			instances++
			j := newJudge(s)
			v := instance(t, test.Data)
			arranged, accepted := j.arrange(v)
			if accepted && arranged != v {
				moved++
			}
			switch {
			case accepted && !test.Valid:
				t.Errorf("%s: instance %d is invalid but accepted", r.Name, i)
				right = false
			case !accepted && test.Valid:
				lines = append(lines, fmt.Sprintf("%s: instance %d is valid but not accepted", r.Name, i))
				right = false
			}
		}
		if right {
			passed++
		}
	}
	for _, key := range slices.Sorted(maps.Keys(refused)) {
		t.Logf("%4d %s", refused[key], key)
	}
	t.Logf("%d of %d schemas pass (%.1f%%); %d instances, %d of them with keys moved", passed, len(list),
		100*float64(passed)/float64(len(list)), instances, moved)
	if passed*10 < len(list)*9 {
		t.Errorf("fewer than 90%% pass")
	}
	ratchet(t, "maskbench.txt", lines)
}

// BenchmarkCompile compiles all schemas of the sample and builds the root expression.
func BenchmarkCompile(b *testing.B) {
	list := suitetest.MaskBench(b)
	var times []time.Duration
	for b.Loop() {
		times = times[:0]
		for _, r := range list {
			start := time.Now()
			s, err := Compile(b.Context(), r.Schema, Options{})
			if err == nil {
				newJudge(s)
				s.Expr(newJudge(s).set)
			}
			times = append(times, time.Since(start))
		}
	}
	slices.Sort(times)
	at := func(q float64) float64 { return float64(times[int(q*float64(len(times)-1))].Microseconds()) }
	b.ReportMetric(at(0.5), "p50-us")
	b.ReportMetric(at(0.99), "p99-us")
	b.ReportMetric(at(1), "max-us")
}
