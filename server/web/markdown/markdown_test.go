package markdown

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// hostile are texts of a model that wants to harm its reader.
var hostile = []string{
	"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<svg/onload=alert(1)>", "a <b onclick=x()>b</b>",
	"[a](javascript:alert(1))", "[a](JaVaScRiPt:alert(1))", "[a](java\nscript:alert(1))", "[a](&#106;avascript:alert(1))",
	"[a](data:text/html,<script>alert(1)</script>)", "[a](vbscript:x)", "[a](file:///etc/passwd)", "[a](/api/delete)",
	"[a](//evil.example)", "![a](https://evil.example/p.png)", "![a](javascript:alert(1))",
	"![](data:image/png;base64,xx)",
	"<https://example.org>", "<javascript:alert(1)>", "[a](https://x.example \"title' onmouseover='x\")",
	"```html\" onload=\"x\n<script>\n```", "```go\nfunc main() {}\n```", "<!-- -->", "<style>*{display:none}</style>",
	"\u202eevil\u202c", "a\U000E0041b", "<iframe src=//evil.example>", "<form action=//evil.example><input>",
	"<base href=//e>",
	"<a href=\"https://example.org\" style=\"position:fixed\">x</a>", "- [x] <b>", "|a|\n|:-:|\n|<script>|\n",
	"&lt;script&gt;",
	"[a]: javascript:alert(1)\n\n[a]", "<meta http-equiv=refresh content=0>", strings.Repeat(">", 300) + "deep",
	strings.Repeat("- ", 300) + "deep", strings.Repeat("[", 3000), strings.Repeat("*a_", 2000), "\x00\xff\xfe",
	"&#x202e;a &#1; `&#x202e;` [a](https://x.example/&#x202e;) &lrm;",
}

// tags are the elements of the policy, with the attributes that each may have.
var tags = map[string][]string{
	"p": nil, "br": nil, "hr": nil, "em": nil, "strong": nil, "del": nil, "code": nil, "pre": {"class", "data-language"},
	"blockquote": nil, "ul": nil, "ol": {"start"}, "li": nil, "h1": nil, "h2": nil, "h3": nil, "h4": nil, "h5": nil,
	"h6":    nil,
	"table": nil, "thead": nil, "tbody": nil, "tr": nil, "th": {"align"}, "td": {"align"}, "span": {"class"},
	"a": {"href", "title", "rel", "target"},
}

// harmless reads HTML as a browser does and returns what must not be in it.
func harmless(text string) error {
	root, err := html.ParseFragment(strings.NewReader(text),
		&html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div})
	if err != nil {
		return err
	}
	for _, r := range root {
		for n := range r.Descendants() {
			if err := check(n); err != nil {
				return err
			}
		}
		if err := check(r); err != nil {
			return err
		}
	}
	return nil
}

func check(n *html.Node) error {
	switch n.Type {
	case html.TextNode:
		if i := strings.IndexFunc(n.Data, deceives); i >= 0 {
			return fmt.Errorf("%q has a character that deceives", n.Data)
		}
		return nil
	case html.ElementNode:
	default:
		return fmt.Errorf("a node of type %d", n.Type)
	}
	allowed, ok := tags[n.Data]
	if !ok {
		return fmt.Errorf("an element <%s>", n.Data)
	}
	for _, a := range n.Attr {
		if !slices.Contains(allowed, a.Key) || strings.ContainsFunc(a.Val, deceives) {
			return fmt.Errorf("<%s> has %s=%q", n.Data, a.Key, a.Val)
		}
		if a.Key == "href" {
			u, err := url.Parse(a.Val)
			if err != nil || !slices.Contains([]string{"http", "https", "mailto"}, u.Scheme) {
				return fmt.Errorf("a link to %q", a.Val)
			}
		}
	}
	return nil
}

func TestHostileTextIsHarmless(t *testing.T) {
	for _, text := range hostile {
		for _, got := range []string{HTML(text), JSON(text)} {
			if err := harmless(got); err != nil {
				t.Errorf("%.80q: %v in %.300s", text, err, got)
			}
		}
	}
	all := strings.Join(hostile, "\n\n")
	if err := harmless(HTML(all)); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"<b>x</b>":             "&lt;b&gt;x&lt;/b&gt;",
		"![a](https://e.ex/p)": `<a href="https://e.ex/p"`,
		"a\u202eb":             "U+202E",
		"a\u200bb":             "U+200B",
		`[ok](https://evil.example "https://bank.example")`: `title="https://evil.example"`,
		"**a** `b`":             "<strong>a</strong> <code>b</code>",
		"```go\nvar x = 1\n```": `data-language="go"`,
		"- [x] done":            "\u2611",
		"|a|\n|-:|\n|1|":        `<td align="right">1</td>`,
	} {
		if got := HTML(text); !strings.Contains(got, want) {
			t.Errorf("%q gives %s, without %s", text, got, want)
		}
	}
}

// blocks writes a text in pieces and renders after each. It returns the last HTML of each block.
func blocks(text string, next func() int) (list []string) {
	var w Writer
	take := func() {
		for _, b := range w.Changed() {
			for len(list) <= b.Index {
				list = append(list, "")
			}
			list[b.Index] = b.HTML
		}
	}
	for len(text) > 0 {
		n := min(next(), len(text))
		w.Write(text[:n])
		text = text[n:]
		take()
	}
	w.End()
	take()
	return list
}

// sample is a text with every kind of block.
const sample = "# Head\n\nText with *emphasis*\nand a line.\n\n- a\n- b\n\n  more\n\n- c\n\n1. x\n2. y\n\n" +
	"> quote\n> more\n\n" +
	"```go\nfunc main() {\n\n\tprintln(1)\n}\n```\nafter\n\n    indented\n\n    code\n\n|a|b|\n|-|-|\n|1|2|\n\nend"

// However the text is cut into pieces, the blocks are the same in the end, and none that was closed changes.
func FuzzPieces(f *testing.F) {
	usual := colourTime
	f.Cleanup(func() { colourTime = usual })
	colourTime = time.Hour
	for i, text := range append(hostile, sample, strings.Repeat("word ", 4000), strings.Repeat("a\n", 9000),
		"```js\n"+strings.Repeat("let a = 1\n", 3000), "> ```\n> x\n"+strings.Repeat("> y\n", 5000)) {
		f.Add(text, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		if len(text) > 64<<10 {
			return
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		at := blocks(text, func() int { return 1 + rng.IntN(2000) })
		once := blocks(text, func() int { return len(text) })
		if !slices.Equal(at, once) {
			t.Fatalf("%.200q: in pieces %.500q, at once %.500q", text, at, once)
		}
		if err := harmless(strings.Join(at, "")); err != nil {
			t.Fatal(err)
		}
	})
}

// Dividing a text into blocks does not change how it looks.
func TestBlocksLookAsOneText(t *testing.T) {
	want := render([]byte(sample))
	got := HTML(sample)
	if squeeze(got) != squeeze(want) {
		t.Errorf("in blocks:\n%s\nas a whole:\n%s", got, want)
	}
}

func squeeze(text string) string { return strings.Join(strings.Fields(text), " ") }

// The time for a piece does not depend on how long the text is already, whatever the text is.
func TestLongTextsTakeLinearTime(t *testing.T) {
	size := 48 << 10
	if os.Getenv("RUNNER_LONG") != "" {
		size = 1 << 20
	}
	for _, part := range []string{"word ", "a", "*a_b`[", ">", "- x\n", "```\n", "<a>", "|a|b|\n", "{\"a\":[1,2]}\n",
		"[x](y) "} {
		began := time.Now()
		text := strings.Repeat(part, size/len(part))
		got := blocks(text, func() int { return 4 << 10 })
		took := time.Since(began)
		if most := time.Duration(size) * 40 * time.Microsecond; took > most {
			t.Errorf("%d bytes of %q took %v", size, part, took)
		}
		if err := harmless(strings.Join(got, "")); err != nil {
			t.Errorf("%q: %v", part, err)
		}
		t.Logf("%q: %v, %d blocks", part, took, len(got))
	}
}
