package gbnf

import (
	"runner/grammar/notation"
	"runner/grammar/regex"
)

// parser adds to a reader what is GBNF's own.
type parser struct{ notation.Reader }

const (
	escapes       = "n\nr\rt\t\\\\\"\"[[]]"
	advicePlaces  = `let a line that goes on end with |, or put the alternatives in parentheses`
	adviceBounds  = "a repetition is {m}, {m,} or {m,n}"
	problemLetter = "names consist of letters, digits and dashes"
)

func (p *parser) rule() {
	start := p.Pos
	name := p.Word(p.IsName)
	if name == "" {
		advice := "a rule is: name ::= what it matches"
		if p.Peek() == '|' {
			advice = advicePlaces
		}
		p.Fail(start, advice, "expected the name of a rule, found %s", p.Found())
	}
	if p.Peek() == '_' {
		p.Fail(p.Pos, "use a dash", problemLetter)
	}
	rule := p.New(name, start)
	p.Blanks(false)
	p.Need(p.Define, "the name of the rule "+notation.Quoted(name))
	p.Blanks(true)
	p.Body(rule)
}

// item reads a literal, class, dot, group or reference. It returns nil if none begins here.
func (p *parser) item() *notation.Node {
	switch c := p.Peek(); {
	case c == '"':
		text := p.Literal(escapes)
		p.Skip(0)
		return p.Add(&notation.Node{Op: notation.Literal, Text: text})
	case c == '[':
		return p.class()
	case c == '.':
		p.Skip(1)
		return p.Add(&notation.Node{Op: notation.Class, Chars: regex.CharsOf().Negated()})
	case c == '(':
		return p.Group(')')
	case c == '<' || c == '!':
		p.Fail(p.Pos, "write the text that the token stands for as a literal", "token references are not supported")
	case c == '*' || c == '+' || c == '?' || c == '{':
		p.Fail(p.Pos, "", "there is nothing before %s to repeat", p.Found())
	case c == '_':
		p.Fail(p.Pos, "use a dash", problemLetter)
	case p.IsName(c):
		return p.Refer()
	}
	return nil
}

// bounds reads {m}, {m,} or {m,n}.
func (p *parser) bounds() (least, most int, ok bool) {
	start := p.Pos
	if !p.Takes("{") {
		return 0, 0, false
	}
	least = p.Count(MaxRepetition, adviceBounds)
	most = least
	if p.Takes(",") {
		most = -1
		if p.Peek() != '}' {
			most = p.Count(MaxRepetition, adviceBounds)
			p.Range(start, least, most)
		}
	}
	if !p.Takes("}") {
		p.Fail(p.Pos, adviceBounds, "expected } after the bounds of a repetition, found %s", p.Found())
	}
	return least, most, true
}

func (p *parser) class() *notation.Node {
	start := p.Pos
	p.Pos++
	negated := p.Peek() == '^'
	if negated {
		p.Pos++
	}
	var ranges [][2]rune
	for p.Peek() != ']' {
		if p.Pos == len(p.Text) {
			p.Fail(start, "", "the character class is not closed")
		}
		at := p.Pos
		lo := p.Char(escapes)
		hi := lo
		// A dash before the closing bracket stands for itself.
		if p.Peek() == '-' && p.Pos+1 < len(p.Text) && p.Text[p.Pos+1] != ']' {
			p.Pos++
			hi = p.Char(escapes)
		}
		if hi < lo {
			p.Fail(at, "", "the range's ends are swapped: U+%04X is above U+%04X", lo, hi)
		}
		ranges = append(ranges, [2]rune{lo, hi})
	}
	if len(ranges) == 0 {
		p.Fail(start, `any character is .; write \] for a bracket`, "the character class is empty")
	}
	p.AddSymbols(len(ranges))
	chars := regex.CharsOf(ranges...)
	if negated {
		chars = chars.Negated()
	}
	if chars.IsEmpty() {
		p.Fail(start, "", "no character is in the class")
	}
	p.Skip(1)
	return p.Add(&notation.Node{Op: notation.Class, Chars: chars})
}
