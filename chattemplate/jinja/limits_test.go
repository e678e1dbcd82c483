package jinja

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// tooLong separates code that should end at once from code that grows faster than its input, which takes many minutes.
// It holds on a busy machine with the race detector, too.
const tooLong = time.Minute

func kindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return 0
}

// TestLimits runs templates that would never end, or would take all memory, and expects a clear error soon.
func TestLimits(t *testing.T) {
	deep := strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000)
	loops := strings.Repeat("{% for a in range(100000) %}", 4) + strings.Repeat("{% endfor %}", 4)
	grow := func(body string) string {
		return "{% set ns = namespace(x='abcdefgh', l=[1, 2]) %}{% for i in range(1000) %}" + body + "{% endfor %}"
	}
	for name, src := range map[string]string{
		"loops":     loops,
		"recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"mutual": "{% macro f() %}{% call g() %}{% endcall %}{% endmacro %}{% macro g() %}{{ caller() }}{{ f() " +
			"}}{% endmacro %}{{ f() }}",
		"times":        "{{ 'abc' * 1000000000 }}",
		"times list":   "{{ [1] * 1000000000000 }}",
		"double text":  grow("{% set ns.x = ns.x + ns.x %}"),
		"double tilde": grow("{% set ns.x = ns.x ~ ns.x %}"),
		"double list":  grow("{% set ns.l = ns.l + ns.l %}"),
		"double block": grow("{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}"),
		"join":         grow("{% set ns.x = [ns.x, ns.x]|join(ns.x) %}"),
		"replace":      grow("{% set ns.x = ns.x|replace('', ns.x) %}"),
		"json":         grow("{% set ns.x = [ns.x, ns.x]|tojson %}"),
		"repr":         grow("{% set ns.x = [ns.x, ns.x]|string %}"),
		"indent":       "{{ 'a\nb'|indent(99999999999) }}",
		"json indent":  "{{ [[1]]|tojson(indent=99999999999) }}",
		"power":        "{{ 10 ** (10 ** 10) }}",
		"square":       "{% set ns = namespace(x=3) %}{% for i in range(100) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
		"range":        "{{ range(10 ** 9)|list }}",
		"nested value": "{% set ns = namespace(x=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ " +
			"ns.x }}",
		"nested equal": "{% set ns = namespace(x=[], y=[]) %}{% for i in range(5000) %}{% set ns.x = [ns.x] %}{% set " +
			"ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
		"cycle":         "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}",
		"output":        "{% for i in range(100000) %}{% for j in range(100) %}{{ 'x' * 1000 }}{% endfor %}{% endfor %}",
		"deep brackets": "{{ " + deep + " }}",
		"deep not":      "{{ " + strings.Repeat("not ", 5000) + "1 }}",
		"deep minus":    "{{ " + strings.Repeat("- ", 5000) + "1 }}",
		"deep if":       strings.Repeat("{% if 1 %}", 5000) + strings.Repeat("{% endif %}", 5000),
		"long sum":      "{{ 1" + strings.Repeat(" + 1", 50000) + " }}",
		"long filters":  "{{ 1" + strings.Repeat("|abs", 50000) + " }}",
		"long dots":     "{{ a" + strings.Repeat(".a", 50000) + " }}",
		"long cond":     "{{ 1" + strings.Repeat(" if 1 else 1", 5000) + " }}",
		"long cond 2":   "{{ 1" + strings.Repeat(" if 1", 5000) + " }}",
		"long block":    "{% filter upper" + strings.Repeat("|upper", 5000) + " %}{% endfilter %}",
		"deep dict":     "{{ " + strings.Repeat("{1:", 5000) + "1" + strings.Repeat("}", 5000) + " }}",
		"nested calls":  "{{ " + strings.Repeat("range(", 5000) + "1" + strings.Repeat(")", 5000) + " }}",
		"lazy chain": "{% set ns = namespace(x=[1]) %}{% for i in range(100000) %}{% set ns.x = ns.x|map('string') " +
			"%}{% endfor %}{{ ns.x|list }}",
		"source": strings.Repeat("x", 2<<20),
	} {
		start := time.Now()
		tmpl, err := Parse(src, Options{Limits: Limits{Steps: 500_000, Memory: 64 << 20, Output: 8 << 20}})
		if err == nil {
			_, err = tmpl.Render(context.Background(), nil, RenderOptions{})
		}
		if k := kindOf(err); k != KindLimit {
			t.Errorf("%s: %v; want a limit", name, err)
		}
		if d := time.Since(start); d > tooLong {
			t.Errorf("%s: took %v", name, d)
		}
	}
}

// TestParseTime parses large templates of shapes that could take more than linear time.
func TestParseTime(t *testing.T) {
	many := func(n int, f string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(f, "#", strconv.Itoa(i)))
		}
		return b.String()
	}
	deep := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	body := many(30000, "{{ a + b + c# }}")
	for name, src := range map[string]string{
		"ifs":     many(20000, "{{ a# }}") + many(20000, "{% if a %}{% set x = 1 %}{% endif %}"),
		"elifs":   "{% if a %}" + many(25000, "{% elif a %}{% set x# = 1 %}") + "{% endif %}",
		"fors":    deep(95, "{% for a in b %}", body, "{% endfor %}"),
		"macros":  deep(95, "{% macro a() %}", body, "{% endmacro %}"),
		"conds":   "{{ " + deep(200, "1 if (", "["+many(200000, "1,")+"]", ") else 1") + " }}",
		"raw":     many(150000, "{% raw"),
		"endraw":  "{% raw %}" + many(100000, "{% endraw"),
		"comment": many(500000, "{#"),
		"brace":   many(1000000, "{"),
		"strings": "{{ " + many(200000, "'a' ") + "}}",
		"params":  "{% macro f(" + many(90000, "a#, ") + "b) %}{% endmacro %}",
		"keyword": "{{ f(" + many(80000, "a#=1, ") + ") }}",
		"space":   strings.Repeat("{%"+strings.Repeat(" ", 100), 9000),
	} {
		start := time.Now()
		_, err := Parse(src, Options{})
		if d := time.Since(start); d > tooLong {
			t.Errorf("%s: took %v for %d bytes (%v)", name, d, len(src), err)
		}
	}
}

func TestCancel(t *testing.T) {
	tmpl, err := Parse("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
		Options{Limits: Limits{Steps: 1 << 60}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = tmpl.Render(ctx, nil, RenderOptions{})
	if !errors.Is(err, context.DeadlineExceeded) || kindOf(err) != KindCanceled {
		t.Fatalf("error %v", err)
	}
}

// TestErrorsAreDiscreet checks that error texts show no outside text, but do show text of the template.
func TestErrorsAreDiscreet(t *testing.T) {
	const secret = "SECRET"
	vars := map[string]Value{
		"u": String(NewText(secret, Outside)),
		"d": Dict(Outside, Entry{secret, Int(1)}),
	}
	for _, src := range []string{
		"{{ {}[u].x }}", "{{ raise_exception('bad role: ' + u) }}", "{{ 1|map(u)|list }}",
		"{{ [1]|select(u)|list }}",
		"{{ u % 1 }}", "{{ ('%(' ~ u ~ ')s') % {} }}",
		"{{ dict(**d)[u].y.z }}", "{{ 'a'.upper(**d) }}", "{% macro f() %}{% endmacro %}{{ f(**d) }}", "{{ u|int + u }}",
		"{{ [u].index('x') }}",
		"{{ u.nope.x }}", "{{ u() }}",
		"{{ [1]|map(**d)|list }}",
		"{{ [1]|map('string', **d)|list }}", "{{ u|abs }}", "{{ u is divisibleby u }}", "{{ u.index('x') }}",
		"{{ u < 1 }}",
	} {
		tmpl, err := Parse(src, Options{})
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		_, err = tmpl.Render(context.Background(), vars, RenderOptions{})
		if err == nil {
			t.Errorf("%s: no error", src)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells outside text: %v", src, err)
		}
	}
	tmpl, _ := Parse("\n\n{{ raise_exception('bad role: ' + u) }}", Options{})
	_, err := tmpl.Render(context.Background(), vars, RenderOptions{})
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindRaised || e.Line != 3 || e.Message != "bad role: …" ||
		e.Raised.String() != "bad role: "+secret {
		t.Errorf("raised: %#v", err)
	}
}

// TestErrorLines checks the line of errors deep in a template.
func TestErrorLines(t *testing.T) {
	for src, line := range map[string]int{
		"a\nb\n{{ nope.x }}": 3,
		"{% macro f() %}\n\n{{ 1 + 'a' }}{% endmacro %}\n{{ f() }}":  3,
		"{% macro f(x) %}\n{{ x }}{% endmacro %}\n\n{{ f(1) + 1 }}":  4,
		"{% for x in [1]\n%}\n{% if x.y.z %}{% endif %}{% endfor %}": 3,
		"{#\n\n#}{{ [1\n,\n2] + 1 }}":                                5,
		"{{ 'a\nb' }}{{\n nope.x }}":                                 3,
		"{% set x = 1 %}\n\n{% set x = x / 0 %}":                     3,
		"\n\n{{ 1 +* 2 }}":                                           3,
		"\n{% if x %}\n\n":                                           2,
		"{% raw %}\n\n{% endraw %}\n{% foo %}":                       4,
	} {
		tmpl, err := Parse(src, Options{})
		if err == nil {
			_, err = tmpl.Render(context.Background(), nil, RenderOptions{})
		}
		var e *Error
		if !errors.As(err, &e) || e.Line != line {
			t.Errorf("%q: %v; want line %d", src, err, line)
		}
	}
}

// TestConcurrent renders one template with one set of values many times at once.
func TestConcurrent(t *testing.T) {
	g, vars, now := loadGolden(t)
	var templates []*Template
	var want []string
	for _, c := range g.Cases {
		if c.Output == nil {
			continue
		}
		tmpl, err := Parse(c.Template, Options{})
		if err != nil {
			t.Fatal(err)
		}
		templates, want = append(templates, tmpl), append(want, *c.Output)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i, tmpl := range templates {
				out, err := tmpl.Render(context.Background(), vars, RenderOptions{Now: now})
				if err != nil || out.String() != want[i] {
					t.Errorf("a render at the same time as others differs: %v", err)
				}
			}
		}()
	}
	wg.Wait()
}

// TestUnknownNames checks that a filter, test or method that the package leaves out is an error that names it, and in a
// branch only once the branch runs.
func TestUnknownNames(t *testing.T) {
	render := func(src string) error {
		tmpl, err := Parse(src, Options{})
		if err == nil {
			_, err = tmpl.Render(context.Background(), map[string]Value{"s": String(NewText("x", Outside))},
				RenderOptions{Now: time.Unix(0, 0)})
		}
		return err
	}
	for _, name := range []string{
		"pprint", "urlize", "random", "wordwrap", "xmlattr", "striptags", "urlencode", "slice", "truncate", "batch",
		"groupby", "attr", "ljust", "zfill", "isnumeric", "format", "round", "min", "max", "sum",
	} {
		for src, kind := range map[string]Kind{
			"{{ s|# }}": KindSyntax, "{% if s %}{{ s|# }}{% endif %}": KindRuntime, "{{ [s]|map('#')|list }}": KindRuntime,
			"{{ s is # }}": KindSyntax, "{{ s.#() }}": KindUndefined, "{% if not s %}{{ s|# }}{% endif %}": 0,
		} {
			err := render(strings.ReplaceAll(src, "#", name))
			if kindOf(err) != kind || err != nil && !strings.Contains(err.Error(), "'"+name+"'") {
				t.Errorf("%s with %s: %v", src, name, err)
			}
		}
	}
	for _, src := range []string{
		"{{ '{}'.format(s) }}", "{{ '%s' % s }}", "{{ '%d' % 1 }}", "{{ '%(a)s' % {'a': 1} }}", "{{ s % (5, 4) }}",
		"{% macro f() %}{{ varargs }}{% endmacro %}", "{% macro f() %}{{ kwargs }}{% endmacro %}", "{{ strftime_now('%U') }}",
		"{{ {(1, 2): 3} }}",
		"{% for x in s recursive %}{{ loop(x) }}{% endfor %}", "{% block s %}{% endblock %}", "{% print s %}",
		"{% autoescape false %}{% endautoescape %}", "{{ cycler(1).next() }}",
		"{% for x in s %}{{ loop.depth + 1 }}{% endfor %}", "{{ [{}]|sort(attribute='a,b') }}",
		"{{ '1'|int(0, 2) }}",
	} {
		if err := render(src); err == nil {
			t.Errorf("%s: no error", src)
		}
	}
}
