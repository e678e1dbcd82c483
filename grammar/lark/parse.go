package lark

import (
	"fmt"
	"strings"

	"runner/grammar/notation"
	"runner/grammar/regex"
)

// parser adds to a reader what is Lark's own.
type parser struct{ notation.Reader }

const (
	escapes     = "a\ab\bf\fn\nr\rt\tv\v\\\\\"\""
	adviceCount = "a repetition is ~m or ~m..n"
)

// file reads all rules, terminals and directives. It returns the pattern of the rule start.
func (p *parser) file() string {
	p.Blanks(true)
	for p.Pos < len(p.Text) {
		if p.Peek() == '%' {
			p.directive()
		} else {
			p.rule()
		}
		p.Blanks(true)
	}
	start := p.Lookup("start")
	if start == nil || start.Body == nil {
		p.Fail(0, "the text starts at the rule start", "there is no rule named start")
	}
	w := &writer{parser: p, done: map[*notation.Rule]string{}}
	return "(?:" + w.rule(start) + ")"
}

// name reads a name. what says what it is, for errors.
func (p *parser) name(what string) string {
	start := p.Pos
	name := p.Word(p.IsName)
	if name == "" || notation.IsDigit(name[0]) {
		p.Fail(start, "", "expected %s, found %s", what, p.Found())
	}
	p.Skip(0)
	return name
}

// directive reads %import and refuses all others.
func (p *parser) directive() {
	start := p.Pos
	p.Pos++
	if d := p.name("a directive"); d != "import" {
		p.Fail(start, "", "%%%s is not supported", d)
	}
	if p.name("common") != "common" {
		p.Fail(start, "", "%%import is only supported from common")
	}
	if !p.Takes("(") {
		p.Need(".", "common")
		p.imported(true)
		return
	}
	for !p.Takes(")") {
		p.imported(false)
		if !p.Takes(",") && p.Peek() != ')' {
			p.Need(")", "the imported names")
		}
	}
}

// imported reads a terminal of common. The import may rename it.
func (p *parser) imported(renamed bool) {
	start := p.Pos
	name := p.name("a name")
	body, ok := common[name]
	if !ok {
		p.Fail(start, "", "common has no terminal %s", notation.Quoted(name))
	}
	if renamed && p.Takes("->") {
		name = p.name("a name")
	}
	p.New(name, start).Define(p.Add(&notation.Node{Op: notation.Pattern, Text: body}))
}

// rule reads a rule or a terminal.
func (p *parser) rule() {
	for p.Takes("?") || p.Takes("!") {
		continue
	}
	start := p.Pos
	name := p.name("the name of a rule")
	p.refuseTemplate(name)
	rule := p.New(name, start)
	if p.Takes(".") { // a priority
		p.Takes("-")
		p.Count(1<<20, "a priority is a number")
	}
	p.Need(p.Define, "the name of the rule "+notation.Quoted(name))
	p.Body(rule)
}

func (p *parser) refuseTemplate(name string) {
	if p.Peek() == '{' {
		p.Fail(p.Pos, "", "templates are not supported: %s", name)
	}
}

// alias reads the name that an alternative may have.
func (p *parser) alias() {
	if p.Takes("->") {
		p.name("an alias")
	}
}

// item reads one part of a sequence. It returns nil if there is none.
func (p *parser) item() *notation.Node {
	start := p.Pos
	switch c := p.Peek(); {
	case c == '"':
		return p.literal()
	case c == '/':
		return p.pattern(p.python())
	case c == '(':
		return p.Group(')')
	case c == '[':
		return p.Add(&notation.Node{Op: notation.Repeat, Kids: []*notation.Node{p.Group(']')}, Max: 1})
	case p.IsName(c) && !notation.IsDigit(c):
		n := p.Refer()
		p.refuseTemplate(p.Text[start:p.Pos])
		return n
	}
	return nil
}

func (p *parser) pattern(text string) *notation.Node {
	p.Skip(0)
	return p.Add(&notation.Node{Op: notation.Pattern, Text: text})
}

// bounds reads ~m or ~m..n.
func (p *parser) bounds() (least, most int, ok bool) {
	start := p.Pos
	if !p.Takes("~") {
		return 0, 0, false
	}
	least = p.Count(regex.MaxRepeat, adviceCount)
	most = least
	if p.Takes("..") {
		most = p.Count(regex.MaxRepeat, adviceCount)
		p.Range(start, least, most)
	}
	return least, most, true
}

// flags reads the flags after a string or a regular expression, which may be those of allowed.
func (p *parser) flags(allowed string) string {
	start := p.Pos
	flags := p.Word(func(c byte) bool { return strings.IndexByte("imslux", c) >= 0 })
	if strings.Trim(flags, allowed) != "" {
		p.Fail(start, "", "the flags %s are not supported here", flags)
	}
	return flags
}

// literal reads a string with its flag, or a range from one character to another.
func (p *parser) literal() *notation.Node {
	start := p.Pos
	text := p.Literal(escapes)
	folds := p.flags("i") != ""
	p.Skip(0)
	if !p.Takes("..") {
		return p.pattern(p.exactly(start, text, folds))
	}
	from, to := []rune(text), []rune(nil)
	if p.Peek() == '"' {
		to = []rune(p.Literal(escapes))
	}
	if len(from) != 1 || len(to) != 1 || from[0] > to[0] || folds || p.flags("i") != "" {
		p.Fail(start, "", "a range goes from one character to a later one")
	}
	return p.pattern("[" + escape(from[0]) + "-" + escape(to[0]) + "]")
}

// exactly returns the pattern of a string. folds says that the case of its letters does not matter.
func (p *parser) exactly(start int, text string, folds bool) string {
	var b strings.Builder
	for _, r := range text {
		lower, upper := strings.ToLower(string(r)), strings.ToUpper(string(r))
		switch {
		case !folds || lower == upper:
			b.WriteString(escape(r))
		case r > 'z':
			p.Fail(start, "", "the flag i is only supported for letters from a to z")
		default:
			b.WriteString("[" + lower + upper + "]")
		}
	}
	return b.String()
}

// escape returns the pattern of one character. It is valid inside a class, too.
func escape(r rune) string {
	switch {
	case strings.ContainsRune(`\^$.|?*+()[]{}/-`, r):
		return `\` + string(r)
	case r < ' ' || r == 0x7F:
		return fmt.Sprintf(`\x%02x`, r)
	}
	return string(r)
}

// python reads a Python regular expression between slashes and returns its pattern. Its dot is everything except a line
// feed.
func (p *parser) python() string {
	start := p.Pos
	p.Pos++
	for p.Peek() != '/' {
		if p.AtEnd() {
			p.Fail(start, "", "the / is not closed")
		}
		if p.Peek() == '\\' {
			p.Pos++
		}
		p.Pos++
	}
	text := p.Text[start+1 : p.Pos]
	p.Pos++
	dot := `[^\n]`
	if strings.Contains(p.flags("su"), "s") {
		dot = `[\s\S]`
	}
	var b strings.Builder
	class := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			b.WriteString(text[i : i+2])
			i++
		case c == '.' && !class:
			b.WriteString(dot)
		default:
			class = c == '[' || class && c != ']'
			b.WriteByte(c)
		}
	}
	if _, err := regex.Parse(b.String()); err != nil {
		p.Fail(start, "", "%v", err)
	}
	return "(?:" + b.String() + ")"
}

// common holds the patterns of the terminals that can be imported.
var common = map[string]string{
	"DIGIT": `[0-9]`, "HEXDIGIT": `[a-fA-F0-9]`, "INT": `[0-9]+`, "SIGNED_INT": `[\+\-]?[0-9]+`,
	"DECIMAL": decimal, "FLOAT": float, "SIGNED_FLOAT": `[\+\-]?` + float,
	"NUMBER": `(?:` + float + `|[0-9]+)`, "SIGNED_NUMBER": `[\+\-]?(?:` + float + `|[0-9]+)`,
	"ESCAPED_STRING": `"(?:[^"\\\n]|\\[^\n])*"`,
	"LCASE_LETTER":   `[a-z]`, "UCASE_LETTER": `[A-Z]`, "LETTER": `[a-zA-Z]`, "WORD": `[a-zA-Z]+`,
	"CNAME":     `[a-zA-Z_][a-zA-Z_0-9]*`,
	"WS_INLINE": `[ \t]+`, "WS": `[ \t\f\r\n]+`, "CR": `\r`, "LF": `\n`, "NEWLINE": `(?:\r?\n)+`,
	"SH_COMMENT": `#[^\n]*`, "CPP_COMMENT": `\/\/[^\n]*`, "SQL_COMMENT": `\-\-[^\n]*`,
}

const (
	decimal = `(?:[0-9]+\.(?:[0-9]+)?|\.[0-9]+)`
	float   = `(?:[0-9]+[eE][\+\-]?[0-9]+|` + decimal + `(?:[eE][\+\-]?[0-9]+)?)`
)
