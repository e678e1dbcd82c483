package jinja

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"runner/chattemplate/jinja/origin"
	"runner/conformance"
)

func renderText(t testing.TB, src string, vars map[string]Value) Text {
	t.Helper()
	tmpl, err := Parse(src, Options{})
	if err != nil {
		t.Fatalf("%q: %v", src, err)
	}
	out, err := tmpl.Render(context.Background(), vars, RenderOptions{Now: time.Date(2026, 1, 15, 12, 30, 0, 0, time.UTC)})
	if err != nil {
		t.Fatalf("%q: %v", src, err)
	}
	checkRuns(t, out)
	return out
}

// marked puts outside text in brackets.
func marked(x Text) string {
	var b strings.Builder
	for s, o := range x.Runs() {
		if o == Outside {
			s = "[" + s + "]"
		}
		b.WriteString(s)
	}
	return b.String()
}

// TestOrigin checks for each operation which bytes of its result are outside.
func TestOrigin(t *testing.T) {
	vars := map[string]Value{
		"u":   String(NewText("uSeR x", Outside)),
		"bos": String(NewText("<s>", Trusted)),
		"l":   List(String(NewText("p", Outside)), String(NewText("q", Outside))),
		"d":   Dict(Outside, Entry{"k", String(NewText("v", Outside))}),
	}
	for src, want := range map[string]string{
		"a{{ u }}b":                                                     "a[uSeR x]b",
		"{{ bos }}{{ 'lit' }}":                                          "<s>lit",
		"{{ '<' + u + '>' }}":                                           "<[uSeR x]>",
		"{{ '<' ~ u ~ '>' ~ 1 }}":                                       "<[uSeR x]>[1]",
		"{{ ('a' + u + 'b')[0:3] }}":                                    "a[uS]",
		"{{ ('a' + u + 'b')[::-1] }}":                                   "b[x ReSu]a",
		"{{ ('a' + u + 'b')[-1] }}":                                     "b",
		"{{ ('a' + u)|upper }}":                                         "A[USER X]",
		"{{ ('a' + u).lower() }}":                                       "a[user x]",
		"{{ ('ß' + u).upper() }}":                                       "SS[USER X]",
		"{{ ('a' + u)|title }}":                                         "A[user X]",
		"{{ ('a ' + u + ' b')|replace(' ', '_') }}":                     "a_[uSeR_x]_b",
		"{{ ('aa' + u)|replace('a', '<x>') }}":                          "<x><x>[uSeR x]",
		"{{ u|replace('S', '<|im_end|>') }}":                            "[u<|im_end|>eR x]",
		"{{ 'a|b'|replace('|', u) }}":                                   "a[uSeR x]b",
		"{{ ('a ' + u)|trim }}":                                         "a [uSeR x]",
		"{{ ('a-' + u).split('-')[1] }}":                                "[uSeR x]",
		"{{ ('a-' + u).split('-')|join('+') }}":                         "a+[uSeR x]",
		"{{ l|join('<sep>') }}":                                         "[p]<sep>[q]",
		"{{ '<sep>'.join(l) }}":                                         "[p]<sep>[q]",
		"{{ 'a'|join(u) }}":                                             "a",
		"{{ 'ab'|join(u) }}":                                            "a[uSeR x]b",
		"{{ 't|' ~ u }}{{ 5 ~ '%' }}":                                   "t|[uSeR x5]%",
		"{{ {'a': u}|tojson }}":                                         `[{"]a[": "uSeR x"}]`,
		"{{ d|tojson }}":                                                `[{"k": "v"}]`,
		"{{ ['t', u] }}":                                                "[[']t[', 'uSeR x']]",
		"{{ 5 }}{{ none }}{{ true }}{{ 1.5 }}":                          "[5NoneTrue1.5]",
		"{% set x %}a{{ u }}b{% endset %}{{ x }}":                       "a[uSeR x]b",
		"{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(u) }}{{ f('t') }}": "<[uSeR x]><t>",
		"{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}c{{ u }}{% endcall %}": "<c[uSeR x]>",
		"{% filter upper %}a{{ u }}{% endfilter %}":                                        "A[USER X]",
		"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}":                           "[k]=[v]",
		"{% for c in 'a' + u[:1] %}({{ c }}){% endfor %}":                                  "(a)([u])",
		"{{ u|default('d') }}{{ nope|default('d') }}":                                      "[uSeR x]d",
		"{{ 'yes' if u else 'no' }}{{ 'same' if u == 'uSeR x' }}":                          "yessame",
		"{{ u or 't' }}{{ '' or 't' }}":                                                    "[uSeR x]t",
		"{{ strftime_now('%Y!') }}":                                                        "2026!",
		"{{ strftime_now(u) }}":                                                            "[uSeR x]",
		"{{ ('a\nb' + u)|indent(1) }}":                                                     "a[\n ]b[uSeR x]",
		"{{ 'a\nb'|indent(1) }}":                                                           "a\n b",
		"{{ (u ~ '<')|e }}":                                                                "[uSeR x]&lt;",
		"{{ ('t' + u)|list|join }}":                                                        "t[uSeR x]",
		"{{ ('t' + u)|reverse }}":                                                          "[x ReSu]t",
		"{{ l|map('upper')|join }}{{ l|first }}{{ l|last }}{{ l|sort|join }}":              "[PQpqpq]",
		"{{ dict(a=u).a }}{{ namespace(x='t', y=u).y }}{{ namespace(x='t').x }}":           "[uSeR xuSeR x]t",
		"{{ {u: 't'}[u] }}{% for k in {u: 1} %}{{ k }}{% endfor %}":                        "t[uSeR x]",
		"{{ u.partition('R')|join('|') }}{{ u.splitlines()|join }}":                        "[uSe]|[R]|[ xuSeR x]",
		"{{ (u * 2)[:8] }}{{ ('t' + u[:1]) * 2 }}":                                         "[uSeR xuS]t[u]t[u]",
		"{{ u|string }}{{ u|safe }}{{ ('a' + u)|capitalize }}":                             "[uSeR xuSeR x]A[user x]",
	} {
		if got := marked(renderText(t, src, vars)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", src, got, want)
		}
	}
}

// TestCharactersKeepTheirOrigin takes text of each origin apart into characters and puts it together again.
func TestCharactersKeepTheirOrigin(t *testing.T) {
	for _, o := range []Origin{Outside, Trusted, Unseen} {
		out := renderText(t, "{% for c in x %}{{ c }}{% endfor %}{{ x[0] }}{{ x|first }}{{ x|list|join }}",
			map[string]Value{"x": String(NewText("aé", o))})
		if out.String() != "aéaaaé" || out.OriginAt(0) != o || out.OriginAt(out.Len()-1) != o {
			t.Errorf("origin %d: %q of origin %d", o, out.String(), out.OriginAt(0))
		}
	}
}

// private maps text to private-use characters, so that its traces in an output can be found. ASCII letters and digits
// become characters without case.
func private(s string) string {
	return strings.Map(func(c rune) rune {
		if c > 0x20 && c < 0x7f {
			return 0xe000 + c
		}
		return c
	}, s)
}

// TestUserTextIsOutside renders all the shared templates. The text of users, tools and clients consists of characters
// that occur in no template. None of them may ever be trusted. Reasoning that is unseen stays so, and nothing else is.
func TestUserTextIsOutside(t *testing.T) {
	dir := conformance.Dir(t, "chat_templates")
	convs, now := loadConversations(t, dir)
	files, _ := filepath.Glob(filepath.Join(dir, "*.jinja"))
	seen, unseen := 0, 0
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := Parse(string(src), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for name := range convs.Conversations {
			vars := convs.variables(t, name)
			for _, v := range []string{"messages", "tools"} {
				vars[v] = obscure(vars[v])
			}
			out, err := tmpl.Render(context.Background(), vars, RenderOptions{Now: now})
			if err != nil {
				continue
			}
			checkRuns(t, out)
			for s, o := range out.Runs() {
				reasons := strings.ContainsFunc(s, func(c rune) bool { return c >= unseenRange && c < unseenRange+0x80 })
				if reasons != (o == Unseen) {
					t.Errorf("%s, %s: the origin of %q is %d", filepath.Base(file), name, s, o)
				}
				if reasons {
					unseen++
				}
				if i := strings.IndexFunc(s, func(c rune) bool { return c >= 0xe000 && c < 0xf000 }); i >= 0 {
					seen++
					if o == Trusted {
						t.Errorf("%s, %s: user text is trusted: %q", filepath.Base(file), name, s)
					}
				}
			}
		}
	}
	if seen < 1000 || unseen < 5 {
		t.Errorf("only %d runs of user text and %d of reasoning were seen", seen, unseen)
	}
}

// unseenRange begins the characters that stand for reasoning.
const unseenRange = 0xf000

// obscure makes content, names, descriptions and arguments private, and reasoning unseen. It keeps roles and types,
// because templates check them.
func obscure(v Value) Value {
	switch v := v.(type) {
	case *listValue:
		out := make([]Value, len(v.items))
		for i, it := range v.items {
			out[i] = obscure(it)
		}
		return List(out...)
	case *dictValue:
		d := newDict(v.len())
		for i, k := range v.keys {
			val := v.vals[i]
			if s, ok := val.(*strValue); ok && (k.(*strValue).String() == "reasoning_content" ||
				k.(*strValue).String() == "thinking") {
				val = str(strings.Map(func(c rune) rune { return unseenRange + c%0x80 }, s.String()), Unseen)
			} else if ok && k.(*strValue).String() != "role" && k.(*strValue).String() != "type" &&
				k.(*strValue).String() != "id" {
				val = str(private(s.String()), Outside)
			} else {
				val = obscure(val)
			}
			d.set(k, val)
		}
		return d
	}
	return v
}

// TestTextRandom compares slices and concatenations with a text that stores one origin per byte.
func TestTextRandom(t *testing.T) {
	seed := uint32(1)
	next := func(n int) int {
		seed = seed*1664525 + 1013904223
		return int(seed>>8) % n
	}
	for range 3000 {
		var x Text
		var want []Origin
		for range 1 + next(6) {
			o, n := Origin(next(3)), next(4)
			x = origin.Concat(x, NewText("abcd"[:n], o))
			for range n {
				want = append(want, o)
			}
		}
		i := next(len(want) + 1)
		j := i + next(len(want)-i+1)
		y := x.Slice(i, j)
		checkRuns(t, x)
		checkRuns(t, y)
		for k := i; k < j; k++ {
			if y.OriginAt(k-i) != want[k] {
				t.Fatalf("byte %d of [%d:%d] of %v has origin %d", k, i, j, want, y.OriginAt(k-i))
			}
		}
		trusted := true
		for _, o := range want[i:j] {
			trusted = trusted && o == Trusted
		}
		if x.Trusted(i, j) != trusted {
			t.Fatalf("Trusted(%d, %d) of %v is %v", i, j, want, !trusted)
		}
	}
}

// FuzzUserText passes a text through many operations of a template. Bytes that occur only in the text must never be
// trusted.
func FuzzUserText(f *testing.F) {
	for _, s := range []string{"", "x", "<|im_end|>", "{{ 'a' }}", "a\nb\r\n", "é😀\xff", "'\"\\", "%s %d {} {0}",
		"a,b c\td", "ß İ Σ"} {
		f.Add(s)
	}
	tmpl, err := Parse(`{{ t }}|{{ t|upper }}|{{ t|lower }}|{{ t|title }}|{{ t|trim }}|{{ t|tojson }}|
{{- [t] }}|
{{- t|replace('a', 'b') }}|{{ t|replace(' ', '<|x|>') }}|{{ t.split()|join('-') }}|{{ t[::-1] }}|{{ t[1:-1] }}|
{{- '%s' % t }}|
{{- '%10r' % t }}|{{ t|e }}|{{ t|indent }}|
{{- t|list }}|
{{- '%20s' % t }}|{{ t.partition('a')|join }}|{{ {t: t}|dictsort }}|
{{- t|tojson(true, 2) }}|
{{- t.splitlines()|join('+') }}|{{ t|capitalize }}|{{ t ~ t }}|
{{- t * 2 }}|{{ t|first }}`, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 1<<12 {
			return
		}
		out, err := tmpl.Render(context.Background(), map[string]Value{"t": String(NewText(private(s), Outside))},
			RenderOptions{})
		if err != nil {
			return
		}
		checkRuns(t, out)
		for run, o := range out.Runs() {
			if o != Trusted {
				continue
			}
			for _, c := range run {
				if c >= utf8.RuneSelf && c != unicode.ReplacementChar || strings.ContainsRune("\x00\xff", c) {
					t.Fatalf("trusted: %q", run)
				}
			}
		}
	})
}
