// Package lark reads grammars in the notation of the Lark parser (https://lark-parser.readthedocs.io) and turns them
// into patterns of package regex.
//
//	start: greeting " " NAME "!"?
//	greeting: "Hello" | "Bye"
//	NAME: /[A-Z][a-z]+/
//
// The text that a grammar describes is what its rule start matches. Without recursion, a grammar describes a regular
// language, which a pattern expresses exactly. So rules and terminals may not refer to themselves. The parse tree does
// not matter here: aliases, priorities and the marks ? and ! are accepted and have no effect.
//
// Some features are refused by name, because a pattern cannot express them or this package does not know them:
// recursion, %ignore, %declare, %override, %extend, templates, imports from anything but common, and flags other than i
// on a string and s and u on a regular expression. A dot matches everything except a line feed, as in Python.
package lark

import (
	"fmt"
	"slices"
	"strings"

	"runner/grammar/notation"
	"runner/grammar/regex"
)

// MaxText is the maximum length of a grammar, in bytes. The pattern has the limits of package regex.
const MaxText = 64 << 10

// Pattern returns the pattern that matches exactly the texts of a grammar. It is one group. Errors are of type
// [*notation.Error], or of [*regex.Error] if the pattern is too large.
func Pattern(text string) (pattern string, err error) {
	p := &parser{}
	p.Syntax = notation.Syntax{
		MaxText: MaxText, Define: ":", Comments: []string{"//", "#"}, BarFirst: true,
		IsName: func(c byte) bool { return notation.IsAlphanumeric(c) || c == '_' },
		Item:   p.item, Bounds: p.bounds, Alternative: p.alias,
	}
	if err := p.Read(text, func() { pattern = p.file() }); err != nil {
		return "", err
	}
	if _, err := regex.Parse(pattern); err != nil {
		return "", err
	}
	return pattern, nil
}

// writer turns rules into patterns. It replaces references by their rules.
type writer struct {
	*parser
	// done holds the finished patterns. path are the rules under construction.
	done map[*notation.Rule]string
	path []string
}

// rule returns the pattern of a rule that is mentioned.
func (w *writer) rule(r *notation.Rule) string {
	if text, ok := w.done[r]; ok {
		return text
	}
	if r.Body == nil {
		w.Fail(r.Used, "", "%s is not defined", r.Name)
	}
	recursive := slices.Contains(w.path, r.Name)
	w.path = append(w.path, r.Name)
	if recursive {
		w.Fail(r.Defined, "", "recursion is not supported: %s", strings.Join(w.path, " -> "))
	}
	w.done[r] = w.write(r.Body)
	w.path = w.path[:len(w.path)-1]
	return w.done[r]
}

func (w *writer) write(n *notation.Node) string {
	parts := make([]string, len(n.Kids))
	for i, k := range n.Kids {
		parts[i] = w.write(k)
	}
	text := n.Text
	switch n.Op {
	case notation.Reference:
		return w.rule(n.Rule)
	case notation.Sequence:
		text = strings.Join(parts, "")
	case notation.Choice:
		text = "(?:" + strings.Join(parts, "|") + ")"
	case notation.Repeat:
		text = "(?:" + parts[0] + ")" + times(n.Min, n.Max)
	}
	if len(text) > regex.MaxPattern {
		w.Fail(0, "", "the grammar needs a pattern of more than %d bytes", regex.MaxPattern)
	}
	return text
}

// times returns the quantifier of a repetition.
func times(least, most int) string {
	switch {
	case least == 0 && most == 1:
		return "?"
	case least == 0 && most < 0:
		return "*"
	case least == 1 && most < 0:
		return "+"
	case most < 0:
		return fmt.Sprintf("{%d,}", least)
	}
	return fmt.Sprintf("{%d,%d}", least, most)
}
