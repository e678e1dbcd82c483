package grammar

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"runner/grammar/expr"
	"runner/grammar/jsontext"
)

// MaxMembers is the maximum number of fields of [Members]. One name has at most maxMemberName bytes, and all names
// together at most maxMemberNames.
const (
	MaxMembers     = 128
	maxMemberName  = 256
	maxMemberNames = 16 << 10
)

// Members is the form of a JSON object with exactly these fields, each once and in any order. Their names must differ.
func Members(fields ...Field) Source { return Source{kind: membersSource, fields: fields} }

func (s Source) compileMembers(ctx context.Context) (front, error) {
	if len(s.fields) > MaxMembers {
		return front{}, fmt.Errorf("an object has %d fields in any order; at most %d are allowed", len(s.fields), MaxMembers)
	}
	values, total, err := s.compileValues(ctx)
	if err != nil {
		return front{}, err
	}
	m := &membersForm{}
	seen := map[string]bool{}
	names := 0
	for i, f := range s.fields {
		if names += len(f.Name); len(f.Name) > maxMemberName || names > maxMemberNames {
			return front{}, errors.New("the names of fields in any order are too long")
		}
		if seen[f.Name] {
			return front{}, fmt.Errorf("two fields of an object have the name %s", f.Name)
		}
		seen[f.Name] = true
		name, value := jsontext.LiteralString(f.Name), values[i].build
		m.fields = append(m.fields, &expr.Rule{Name: "member", Expand: func(set *expr.Set) expr.ID {
			return set.Concat(name(set), set.Literal(":"), set.Optional(set.Literal(" ")), value(set))
		}})
		if !f.Optional {
			m.required.add(i)
		}
		total += 256 + 2*len(f.Name)
	}
	return front{m.expr, total}, nil
}

// memberSet records which fields of an object are written.
type memberSet [MaxMembers / 64]uint64

func (s *memberSet) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s *memberSet) has(i int) bool { return s[i/64]&(1<<(i%64)) != 0 }

func (s *memberSet) holds(other *memberSet) bool {
	for i, bits := range other {
		if bits&^s[i] != 0 {
			return false
		}
	}
	return true
}

type membersForm struct {
	fields   []*expr.Rule // each is made once, even if many rules lead to it
	required memberSet

	mu    sync.Mutex
	rules map[memberSet]*expr.Rule
}

// maxMemberRules limits the rules that are kept. A rule that is made again is new to the sets but admits the same
// texts.
const maxMemberRules = 1 << 12

func (m *membersForm) expr(set *expr.Set) expr.ID {
	return set.Concat(set.Literal("{"), set.Rule(m.rule(memberSet{})))
}

// rule is what comes after the fields already written. There is one rule for every set of fields that a text reaches,
// because all sets would be too many.
func (m *membersForm) rule(written memberSet) *expr.Rule {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.rules[written]
	if r == nil {
		if m.rules == nil || len(m.rules) >= maxMemberRules {
			m.rules = map[memberSet]*expr.Rule{}
		}
		r = &expr.Rule{Name: "members", Expand: func(set *expr.Set) expr.ID { return m.rest(set, written) }}
		m.rules[written] = r
	}
	return r
}

// rest is what comes after the fields already written, up to the end of the object.
func (m *membersForm) rest(set *expr.Set, written memberSet) expr.ID {
	var next []expr.ID
	for i, field := range m.fields {
		if written.has(i) {
			continue
		}
		after := written
		after.add(i)
		next = append(next, set.Concat(set.Rule(field), set.Rule(m.rule(after))))
	}
	more, end := set.Union(next...), expr.Empty
	if written != (memberSet{}) {
		more = set.Concat(set.Literal(","), set.Optional(set.Literal(" ")), more)
	}
	if written.holds(&m.required) {
		end = set.Literal("}")
	}
	return set.Union(more, end)
}
