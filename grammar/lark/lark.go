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
	"errors"
	"fmt"
	"strings"

	"runner/grammar/regex"
)

// MaxText is the maximum length of a grammar, in bytes. The pattern has the limits of package regex.
const MaxText = 64 << 10

// Pattern returns the pattern that matches exactly the texts of a grammar.
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
	// pattern is a finished part of a pattern.
	pattern
)

// node is a part of a rule.
type node struct {
	op   op
	kids []*node
	// text is the name of a reference, or a pattern.
	text string
	// min and max are the limits of a repetition. A negative max means no limit.
	min, max int
}

// writer turns rules into patterns. It replaces references by their rules.
type writer struct {
	rules map[string]*node
	// open are the rules under construction. done holds the finished patterns.
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
		return "", fmt.Errorf("the grammar needs a pattern of more than %d bytes", regex.MaxPattern)
	}
	return b.String(), nil
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
