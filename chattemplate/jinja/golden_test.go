package jinja

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

type goldenFile struct {
	Now   string
	Vars  map[string]json.RawMessage
	Cases []struct {
		Template  string
		Output    *string
		Kind      string
		Error     string
		Line      int
		Variables []string
	}
}

var goldenKinds = map[string]Kind{
	"syntax": KindSyntax, "runtime": KindRuntime, "undefined": KindUndefined, "security": KindSecurity,
	"raised": KindRaised,
	"limit":  KindLimit,
}

func loadGolden(t testing.TB) (g goldenFile, vars map[string]Value, now time.Time) {
	path := "testdata/golden.json"
	if p := os.Getenv("JINJA_GOLDEN"); p != "" {
		path = p
	}
	readJSON(t, path, &g)
	now, err := time.Parse("2006-01-02T15:04:05", g.Now)
	if err != nil {
		t.Fatal(err)
	}
	vars = map[string]Value{}
	for k, v := range g.Vars {
		vars[k] = mustJSON(t, v, Outside)
	}
	return g, vars, now
}

// TestGolden compares with jinja2's results for the templates of scripts/jinja_golden/cases.txt: the output, or the
// kind and line of the error. JINJA_GOLDEN names another file to compare with.
func TestGolden(t *testing.T) {
	g, vars, now := loadGolden(t)
	for _, c := range g.Cases {
		tmpl, err := Parse(c.Template, Options{})
		var out Text
		if err == nil {
			if c.Variables != nil && !slices.Equal(tmpl.Variables(), c.Variables) && len(c.Variables)+len(tmpl.Variables()) > 0 {
				t.Errorf("%q: variables %v; want %v", c.Template, tmpl.Variables(), c.Variables)
			}
			out, err = tmpl.Render(context.Background(), vars, RenderOptions{Now: now})
			checkRuns(t, out)
		}
		var e *Error
		switch {
		case c.Output != nil && err != nil:
			t.Errorf("%q: %v", c.Template, err)
		case c.Output != nil && out.String() != *c.Output:
			t.Errorf("%q:\n got %q\nwant %q", c.Template, out.String(), *c.Output)
		case c.Output != nil:
		case err == nil:
			t.Errorf("%q: %q; want error %s", c.Template, out.String(), c.Error)
		case !errors.As(err, &e):
			t.Errorf("%q: error of type %T", c.Template, err)
		case e.Kind != goldenKinds[c.Kind] || c.Line > 0 && e.Line != c.Line:
			t.Errorf("%q: %v; want %s %s in line %d", c.Template, err, c.Kind, c.Error, c.Line)
		case e.Message != c.Error && !strings.Contains(e.Message, "…"):
			t.Logf("%q: says %q; jinja2 %q", c.Template, e.Message, c.Error)
		}
	}
}
