// Package lark reads grammars in the notation of the Lark parser (https://lark-parser.readthedocs.io) and turns them
// into patterns of package regex.
//
//	start: greeting " " NAME "!"?
//	greeting: "Hello" | "Bye"
//	NAME: /[A-Z][a-z]+/
//
// The text that a grammar describes is what its rule start matches. A grammar without recursion describes a regular
// language, which a pattern can say exactly. So rules and terminals may not refer to themselves. What a parser would
// make of a text does not matter here: aliases, priorities and the marks ? and ! are read and change nothing.
//
// Refused with its name is what a pattern cannot say or this package does not know: recursion, %ignore, %declare,
// %override, %extend, templates, imports other than from common, and flags other than i of a string and s and u of a
// regular expression. A dot matches everything but a line feed, as in Python.
package lark

import (
	"errors"
	"fmt"
	"strings"

	"runner/grammar/regex"
)

// MaxText is the longest grammar, in bytes. The pattern has the limits of package regex.
const MaxText = 64 << 10

// Pattern returns the pattern of the texts that a grammar describes as a whole.
func Pattern(text string) (string, error) {
	if len(text) > MaxText {
		return "", fmt.Errorf("the grammar has %d bytes; at most %d are allowed", len(text), MaxText)
	}
	tokens, err := scan(text)
	if err != nil {
		return "", err
	}
	p := &parser{tokens: tokens, rules: map[string]*node{}}
	if err := p.file(); err != nil {
		return "", err
	}
	w := &writer{rules: p.rules, open: map[string]bool{}, done: map[string]string{}}
	pattern, err := w.rule("start")
	if err != nil {
		return "", err
	}
	if _, err := regex.Parse(pattern); err != nil {
		return "", err
	}
	return pattern, nil
}

// op is the kind of a node.
type op uint8

const (
	sequence op = iota
	choice
	repeat
	reference
	// pattern is a part of a pattern as it stands.
	pattern
)

// node is a part of a rule.
type node struct {
	op   op
	kids []*node
	// text is the name of a reference, or a pattern.
	text string
	// min and max bound a repetition; a negative max is no bound.
	min, max int
}

// writer makes patterns of rules. Rules are put in the place of their references.
type writer struct {
	rules map[string]*node
	// open are the rules that are being written, and done the patterns of those that are written.
	open map[string]bool
	done map[string]string
	path []string
}

func (w *writer) rule(name string) (string, error) {
	if text, ok := w.done[name]; ok {
		return text, nil
	}
	body, known := w.rules[name]
	w.path = append(w.path, name)
	defer func() { w.path = w.path[:len(w.path)-1] }()
	switch {
	case w.open[name]:
		return "", fmt.Errorf("recursion is not supported: %s", strings.Join(w.path, " -> "))
	case !known && name == "start":
		return "", errors.New("there is no rule named start")
	case !known:
		return "", fmt.Errorf("%s is not defined", name)
	}
	w.open[name] = true
	defer delete(w.open, name)
	text, err := w.write(body)
	if err == nil {
		w.done[name] = text
	}
	return text, err
}

func (w *writer) write(n *node) (string, error) {
	var b strings.Builder
	parts := make([]string, len(n.kids))
	for i, k := range n.kids {
		var err error
		if parts[i], err = w.write(k); err != nil {
			return "", err
		}
	}
	switch n.op {
	case pattern:
		return n.text, nil
	case reference:
		return w.rule(n.text)
	case sequence:
		b.WriteString(strings.Join(parts, ""))
	case choice:
		b.WriteString("(?:" + strings.Join(parts, "|") + ")")
	case repeat:
		b.WriteString("(?:" + parts[0] + ")" + times(n.min, n.max))
	}
	if b.Len() > regex.MaxPattern {
		return "", fmt.Errorf("the grammar comes to a pattern of more than %d bytes", regex.MaxPattern)
	}
	return b.String(), nil
}

// times is the quantifier of a repetition.
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
