package grammar

import (
	"errors"
	"slices"

	"runner/backend"
)

// Choice admits exactly one of a list of token sequences. It is not safe for concurrent use.
//
// If one choice is a prefix of another, Done reports true after the shorter one, and the longer one may still follow.
type Choice struct {
	choices [][]backend.Token
	live    []bool
	pos     int
}

// NewChoice returns a constraint to one of the choices. No choice may be empty.
func NewChoice(choices ...[]backend.Token) (*Choice, error) {
	if len(choices) == 0 {
		return nil, errors.New("grammar: no choices")
	}
	for _, c := range choices {
		if len(c) == 0 {
			return nil, errors.New("grammar: empty choice")
		}
	}
	c := &Choice{choices: choices, live: make([]bool, len(choices))}
	c.Reset()
	return c, nil
}

// Reset goes back to the start.
func (c *Choice) Reset() {
	c.pos = 0
	for i := range c.live {
		c.live[i] = true
	}
}

// Allows reports whether t continues one of the choices.
func (c *Choice) Allows(t backend.Token) bool {
	for i, ch := range c.choices {
		if c.live[i] && c.pos < len(ch) && ch[c.pos] == t {
			return true
		}
	}
	return false
}

// Fill sets the bits of the tokens that continue one of the choices and clears all others.
func (c *Choice) Fill(m backend.Mask) {
	m.Clear()
	c.Add(m)
}

// Add sets the bits of the tokens that continue one of the choices.
func (c *Choice) Add(m backend.Mask) {
	for i, ch := range c.choices {
		if c.live[i] && c.pos < len(ch) {
			m.Set(ch[c.pos])
		}
	}
}

// Len returns how many different tokens continue one of the choices.
func (c *Choice) Len() int {
	var next []backend.Token
	for i, ch := range c.choices {
		if c.live[i] && c.pos < len(ch) && !slices.Contains(next, ch[c.pos]) {
			next = append(next, ch[c.pos])
		}
	}
	return len(next)
}

// Accept advances by t and reports whether t was allowed. If not, nothing changes.
func (c *Choice) Accept(t backend.Token) bool {
	if !c.Allows(t) {
		return false
	}
	for i, ch := range c.choices {
		c.live[i] = c.live[i] && c.pos < len(ch) && ch[c.pos] == t
	}
	c.pos++
	return true
}

// Forced returns the only token that may come next. It reports false if there are several or none.
func (c *Choice) Forced() (backend.Token, bool) {
	only := backend.NoToken
	for i, ch := range c.choices {
		if c.live[i] && c.pos < len(ch) {
			if only != backend.NoToken && only != ch[c.pos] {
				return backend.NoToken, false
			}
			only = ch[c.pos]
		}
	}
	return only, only != backend.NoToken
}

// Done reports whether one of the choices is complete.
func (c *Choice) Done() bool {
	for i, ch := range c.choices {
		if c.live[i] && c.pos == len(ch) {
			return true
		}
	}
	return false
}
