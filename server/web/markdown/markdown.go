// Package markdown turns a model's text into HTML that is safe to show in a page, and does so while the text grows.
//
// [HTML] renders a whole text. [Writer] renders a text that arrives in pieces: it divides it into blocks, renders each
// block again only while it is the last one, and never looks at earlier blocks. The package knows no server.
//
// Rules: The text is hostile. No element, attribute or address of it reaches the page unless the policy in this file
// lists it. Tags in the text show as text. Images are not loaded, but linked. Characters that change the direction of
// text, or that cannot be seen, show as their numbers. A block has at most [MaxBlock] bytes, so the cost of a piece
// does not depend on the length of the text.
package markdown

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/chroma/v2"
	format "github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/microcosm-cc/bluemonday"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extended "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// MaxBlock is the maximum length in bytes of the source of one block. Longer blocks are divided.
const MaxBlock = 8 << 10

// The limits of a block's structure. A block beyond them is shown as it was written.
const (
	// maxDepth is how deep quotes, lists and emphasis may be nested. Browsers are slow with deep trees.
	maxDepth = 32
	// maxMarks is the number of characters that can begin or end emphasis, links and code. Parsers may need quadratic
	// time for them.
	maxMarks = 1 << 10
)

var engine = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(
		extension.TableCellAlignAttribute)), extension.Strikethrough, extension.TaskList),
	goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(links{}, 100))),
	goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(safe{}, 100))),
)

// policy lists all that may be in a page.
var policy = func() *bluemonday.Policy {
	p := bluemonday.NewPolicy()
	p.AllowElements("p", "br", "hr", "em", "strong", "del", "code", "pre", "blockquote", "ul", "ol", "li", "h1", "h2",
		"h3", "h4", "h5", "h6", "table", "thead", "tbody", "tr", "th", "td", "span")
	p.AllowAttrs("class").Matching(regexp.MustCompile(`^[a-z][a-z0-9]{0,3}$|^(chroma|line|image|task)$`)).
		OnElements("span", "pre")
	p.AllowAttrs("align").Matching(regexp.MustCompile(`^(left|right|center)$`)).OnElements("th", "td")
	p.AllowAttrs("start").Matching(regexp.MustCompile(`^[0-9]{1,9}$`)).OnElements("ol")
	p.AllowAttrs("data-language").Matching(regexp.MustCompile(`^[\w+#.-]{1,32}$`)).OnElements("pre")
	p.AllowAttrs("title").OnElements("a")
	p.AllowAttrs("href").OnElements("a")
	p.AllowURLSchemes("http", "https", "mailto")
	p.AllowRelativeURLs(false)
	p.RequireParseableURLs(true)
	p.RequireNoFollowOnLinks(true)
	p.RequireNoReferrerOnLinks(true)
	p.AddTargetBlankToFullyQualifiedLinks(true)
	return p
}()

// HTML renders a whole text as Markdown.
func HTML(source string) string { return whole(&Writer{}, source) }

// JSON renders a whole text as JSON code.
func JSON(source string) string { return whole(&Writer{JSON: true}, source) }

func whole(w *Writer, source string) string {
	w.Write(source)
	w.End()
	var b strings.Builder
	for _, block := range w.Changed() {
		b.WriteString(block.HTML)
	}
	return b.String()
}

// render returns the HTML of a block.
func render(source []byte) string {
	source = reveal(source)
	if marks(source) > maxMarks {
		return plain(source)
	}
	root := engine.Parser().Parse(text.NewReader(source))
	if deeper(root, maxDepth) {
		return plain(source)
	}
	var out bytes.Buffer
	if engine.Renderer().Render(&out, source, root) != nil {
		return plain(source)
	}
	return string(reveal(policy.SanitizeBytes(out.Bytes()))) // again, because entities have become characters
}

// plain shows a source as it is.
func plain(source []byte) string { return "<pre>" + html.EscapeString(string(source)) + "</pre>" }

// marks counts the characters that parsers look at closely.
func marks(source []byte) (n int) {
	for _, c := range source {
		switch c {
		case '*', '_', '[', ']', '`', '~', '<', '!', '>':
			n++
		}
	}
	return n
}

// deeper reports whether a node has more than n levels below it.
func deeper(node ast.Node, n int) bool {
	for c := node.FirstChild(); c != nil; c = c.NextSibling() {
		if n == 0 || deeper(c, n-1) {
			return true
		}
	}
	return false
}

// reveal replaces characters that hide or reorder text by their numbers. Those that scripts need stay.
func reveal(source []byte) []byte {
	if !bytes.ContainsFunc(source, deceives) {
		return source
	}
	var b bytes.Buffer
	for _, r := range string(source) {
		if deceives(r) {
			fmt.Fprintf(&b, "\u27e6U+%04X\u27e7", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

// deceives reports whether a character changes the direction of what follows, or cannot be seen and has no use in a
// text.
func deceives(r rune) bool {
	switch {
	case r == '\n', r == '\r', r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r == 0x200b, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f, r == 0xfeff,
		r >= 0xe0000 && r <= 0xe007f, r >= 0xe0100 && r <= 0xe01ef:
		return true
	}
	return false
}

// links gives each link its address as the title. A title of the model's own could name another address.
type links struct{}

func (links) Transform(node *ast.Document, _ text.Reader, _ parser.Context) {
	_ = ast.Walk(node, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if l, ok := n.(*ast.Link); ok && entering {
			l.Title = l.Destination // readers see where it leads
		}
		return ast.WalkContinue, nil
	})
}

// safe renders what has to look different from goldmark's own rendering.
type safe struct{}

func (safe) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, rawHTML)
	r.Register(ast.KindHTMLBlock, htmlBlock)
	r.Register(ast.KindImage, image)
	r.Register(extended.KindTaskCheckBox, task)
	r.Register(ast.KindFencedCodeBlock, fenced)
	r.Register(ast.KindCodeBlock, indented)
}

func rawHTML(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		segments := n.(*ast.RawHTML).Segments
		for i := range segments.Len() {
			s := segments.At(i)
			_, _ = w.WriteString(html.EscapeString(string(s.Value(source))))
		}
	}
	return ast.WalkSkipChildren, nil
}

func htmlBlock(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		b := n.(*ast.HTMLBlock)
		var code bytes.Buffer
		code.Write(b.Lines().Value(source))
		if b.HasClosure() {
			code.Write(b.ClosureLine.Value(source))
		}
		writeCode(w, "", code.String())
	}
	return ast.WalkSkipChildren, nil
}

func task(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		mark := "\u2610"
		if n.(*extended.TaskCheckBox).IsChecked {
			mark = "\u2611"
		}
		_, _ = w.WriteString(`<span class="task">` + mark + `</span> `)
	}
	return ast.WalkContinue, nil
}

// image writes a link to the image, so that looking at an answer loads nothing.
func image(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	to := html.EscapeString(string(n.(*ast.Image).Destination))
	if entering {
		_, _ = fmt.Fprintf(w, `<span class="image">Image: <a href="%s" title="%s">`, to, to)
		if n.FirstChild() == nil {
			_, _ = w.WriteString(to)
		}
	} else {
		_, _ = w.WriteString("</a></span>")
	}
	return ast.WalkContinue, nil
}

func fenced(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		b := n.(*ast.FencedCodeBlock)
		writeCode(w, string(b.Language(source)), string(b.Lines().Value(source)))
	}
	return ast.WalkSkipChildren, nil
}

func indented(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
	if entering {
		writeCode(w, "", string(n.Lines().Value(source)))
	}
	return ast.WalkSkipChildren, nil
}

var formatter = format.New(format.WithClasses(true), format.PreventSurroundingPre(true))

// style has no colours, because the page's style sheet has them. Chroma's own styles would be read from XML whenever
// the program starts.
var style = chroma.MustNewStyle("page", chroma.StyleEntries{})

// known returns the lexers by their names. The registry's own search tries patterns of file names, which is slow.
var known = sync.OnceValue(func() map[string]chroma.Lexer {
	all := map[string]chroma.Lexer{}
	for _, lexer := range lexers.GlobalLexerRegistry.Lexers {
		for _, name := range append(lexer.Config().Aliases, lexer.Config().Name) {
			all[strings.ToLower(name)] = chroma.Coalesce(lexer)
		}
	}
	return all
})

// writeCode writes a code block, with classes for the colours if its language is known.
func writeCode(w util.BufWriter, language, code string) {
	_, _ = fmt.Fprintf(w, `<pre class="chroma" data-language="%s"><code>`, html.EscapeString(language))
	if out, ok := colour(language, code); ok {
		_, _ = w.Write(out)
	} else {
		_, _ = w.WriteString(html.EscapeString(code))
	}
	_, _ = w.WriteString("</code></pre>\n")
}

// colourTime is how long the search for a block's colours may take. Some patterns of lexers are slow for some texts.
// Tests whose results must not depend on time change it.
var colourTime = 50 * time.Millisecond

// colour returns code with classes for its colours. It reports false if its language is not known, or if that takes too
// long.
func colour(language, code string) ([]byte, bool) {
	lexer := known()[strings.ToLower(language)]
	if lexer == nil {
		return nil, false
	}
	next, err := lexer.Tokenise(nil, code)
	if err != nil {
		return nil, false
	}
	var tokens []chroma.Token
	for began, t := time.Now(), next(); t != chroma.EOF; t = next() {
		if tokens = append(tokens, t); time.Since(began) > colourTime {
			return nil, false
		}
	}
	var out bytes.Buffer
	err = formatter.Format(&out, style, chroma.Literator(tokens...))
	return out.Bytes(), err == nil
}
