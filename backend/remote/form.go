package remote

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"

	"runner/backend"
)

// longestForm is the longest form that is handed to an engine, in bytes. Engines compile forms without limits.
const longestForm = 32 << 10

// formOf returns the form that begins with the next token, if the engine can follow it.
func (m *Model) formOf(in *backend.Input) *Form {
	c, ok := in.Constraint.(backend.Formed)
	if !ok || len(m.about.Forms) == 0 {
		return nil
	}
	f, ok := c.Form()
	if !ok || !slices.Contains(m.about.Forms, f.Kind) || len(f.Text) > longestForm || m.noForms.has(&f) {
		return nil
	}
	total := 0
	for _, s := range f.List {
		total += len(s)
	}
	if total > longestForm {
		return nil
	}
	return &f
}

// wantsForm reports whether a form begins at the next token that the open stream does not follow.
func (m *Model) wantsForm(q *sequence, in *backend.Input) bool {
	s := q.stream
	if s.allowed != nil || s.form != nil && s.formAt == len(q.tokens)+len(in.Tokens) {
		return false
	}
	return m.formOf(in) != nil
}

// follow tells the constraint of an input whether the engine follows its form.
func follow(in *backend.Input, s *stream) {
	if c, ok := in.Constraint.(backend.Formed); ok {
		c.Follow(s != nil && s.form != nil && !s.refused.Load())
	}
}

// formSet is a set of forms.
type formSet struct {
	mu  sync.Mutex
	set map[[sha256.Size]byte]bool
}

// mostForms is how many forms a set has at most. Then it starts again.
const mostForms = 4096

func keyOf(f *Form) [sha256.Size]byte { return sha256.Sum256(fmt.Appendf(nil, "%q", *f)) }

// add adds a form. It reports whether the form was there.
func (s *formSet) add(f *Form) (was bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil || len(s.set) >= mostForms {
		s.set = map[[sha256.Size]byte]bool{}
	}
	key := keyOf(f)
	was = s.set[key]
	s.set[key] = true
	return was
}

func (s *formSet) remove(f *Form) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.set) > 0 {
		delete(s.set, keyOf(f))
	}
}

func (s *formSet) has(f *Form) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.set) > 0 && s.set[keyOf(f)]
}
