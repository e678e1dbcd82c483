package grammar

import (
	"context"
	"errors"

	"runner/grammar/expr"
	"runner/grammar/regex"
)

// Sequence is the form of a text of each part, in order.
func Sequence(parts ...Source) Source { return composed(sequenceSource, parts) }

// AnyOf is the form of a text of any one part.
func AnyOf(parts ...Source) Source { return composed(anySource, parts) }

// Repeat is the form of any number of texts of a part in a row, including none.
func Repeat(part Source) Source { return composed(repeatSource, []Source{part}) }

// Optional is the form of one text of a part, or nothing.
func Optional(part Source) Source { return composed(optionalSource, []Source{part}) }

// Without is the form of any UTF-8 text that does not contain stop.
func Without(stop string) Source { return Source{kind: withoutSource, text: stop} }

// Except is the form of the texts of a part that do not contain stop. Every beginning of a text of the part must have a
// continuation without stop.
func Except(part Source, stop string) Source {
	return composed(exceptSource, []Source{part, Without(stop)})
}

func composed(kind sourceKind, parts []Source) Source {
	s := Source{kind: kind}
	for _, p := range parts {
		s.fields = append(s.fields, Field{Value: p})
	}
	return s
}

// compileComposed checks a form that is made of other forms.
func (s Source) compileComposed(ctx context.Context) (front, error) {
	if len(s.fields) == 0 {
		return front{}, errors.New("a combined form needs at least one part")
	}
	parts, total := make([]front, len(s.fields)), 0
	for i, f := range s.fields {
		var err error
		if parts[i], err = f.Value.compile(ctx); err != nil {
			return front{}, err
		}
		total += parts[i].bytes
	}
	return front{func(set *expr.Set) expr.ID {
		ids := make([]expr.ID, len(parts))
		for i, p := range parts {
			ids[i] = p.build(set)
		}
		switch s.kind {
		case exceptSource:
			return set.And(ids...)
		case sequenceSource:
			return set.Concat(ids...)
		case anySource:
			return set.Union(ids...)
		case optionalSource:
			return set.Optional(ids[0])
		}
		return set.Star(ids[0])
	}, total}, nil
}

// maxStopStates limits the automaton for texts without a stop.
const maxStopStates = 4096

func (s Source) compileWithout(ctx context.Context) (front, error) {
	if s.text == "" {
		return front{}, errors.New("the excluded text is empty")
	}
	text, err := regex.Parse(`[\s\S]*`)
	if err != nil {
		return front{}, err
	}
	a, err := expr.Determinize(ctx, func(set *expr.Set) expr.ID {
		all := text.Full(set, regex.UTF8)
		return set.And(all, set.Not(set.Concat(all, set.Literal(s.text), all)))
	}, maxStopStates)
	if err != nil {
		return front{}, err
	}
	return front{func(set *expr.Set) expr.ID { return set.Automaton(a) }, 64 * a.States()}, nil
}

// AllowsText reports whether these bytes may come next, however they are split into tokens.
func (m *Matcher) AllowsText(text string) bool {
	a := m.settled()
	defer a.mu.Unlock()
	return a.feedText(m.at, text) != expr.Empty
}

// ForcedByte returns the only byte that may come next. It reports false if there are several or none, or if the search
// takes too long.
func (m *Matcher) ForcedByte() (b byte, ok bool) {
	if m.unfed != "" {
		return 0, false
	}
	a := m.lock()
	defer a.mu.Unlock()
	a.set.Within(forcedWork, a.room(), func() { b, ok = a.set.Forced(m.at) })
	return b, ok
}
