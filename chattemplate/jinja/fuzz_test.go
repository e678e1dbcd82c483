package jinja

import (
	"context"
	"errors"
	"testing"
	"time"
)

// fuzzLimits keeps one fuzzing input cheap.
var fuzzLimits = Limits{Steps: 20_000, Output: 1 << 18, Memory: 1 << 20, Depth: 60, Range: 1000}

// FuzzTemplate parses and renders any template. It must not panic and must stay within its limits. The runs of the
// output must cover it exactly. Every failure is an *Error, and never of KindInternal.
func FuzzTemplate(f *testing.F) {
	g, vars, now := loadGolden(f)
	for _, c := range g.Cases {
		f.Add(c.Template)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 1<<14 {
			return
		}
		start := time.Now()
		tmpl, err := Parse(src, Options{Limits: fuzzLimits})
		var out Text
		if err == nil {
			out, err = tmpl.Render(context.Background(), vars, RenderOptions{Now: now})
		}
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || e.Kind == KindInternal || e.Line < 1 {
				t.Fatalf("%v", err)
			}
		}
		checkRuns(t, out)
		if out.Len() > fuzzLimits.Output {
			t.Fatalf("%d bytes of output", out.Len())
		}
		if d := time.Since(start); d > tooLong {
			t.Fatalf("took %v", d)
		}
	})
}

// FuzzFromJSON reads any text as JSON. A value that can be read must print and be written back without a fault.
func FuzzFromJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.5,null,true,"x"],"b":{}}`, `[`, `1e999`, `123456789012345678901234567890`,
		`"\ud83d"`, `{"a":1,"a":2}`, "[[[[[", `-0`} {
		f.Add(s)
	}
	tmpl, err := Parse("{{ v }}{{ v|tojson }}{{ v|string|upper }}", Options{Limits: fuzzLimits})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := FromJSON([]byte(s), Outside)
		if err != nil {
			return
		}
		out, err := tmpl.Render(context.Background(), map[string]Value{"v": v}, RenderOptions{})
		if k := kindOf(err); err != nil && k != KindLimit {
			t.Fatal(err)
		}
		checkRuns(t, out)
	})
}
