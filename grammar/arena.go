package grammar

import (
	"sync"

	"runner/backend"
	"runner/grammar/expr"
)

// arena holds what has been worked out about a grammar: its expressions and what its states admit. When it has grown too
// large the grammar starts another, and the matchers move to it one by one.
type arena struct {
	mu      sync.Mutex
	set     *expr.Set
	root    expr.ID
	masks   map[expr.ID]*allowed
	bytes   int // of masks
	base    int // size when it was new
	walker  walker
	covered map[expr.ID]bool
}

func newArena(build func(*expr.Set) expr.ID, horizon int) *arena {
	a := &arena{set: expr.NewSet(), masks: map[expr.ID]*allowed{}, covered: map[expr.ID]bool{}}
	a.set.SetHorizon(horizon)
	a.root = build(a.set)
	a.walker = walker{arena: a, set: a.set}
	a.base = a.size()
	return a
}

// full reports whether it is time for another arena.
func (a *arena) full() bool { return a.size()-a.base > maxArena }

// size returns about how many bytes the arena takes.
func (a *arena) size() int { return a.set.Bytes() + a.bytes }

// admits returns what may follow in state id.
func (a *arena) admits(v *Vocabulary, id expr.ID) *allowed {
	id = a.set.Clamp(id)
	if m, ok := a.masks[id]; ok {
		return m
	}
	if a.bytes > maxMaskBytes {
		clear(a.masks)
		a.bytes = 0
	}
	m := a.walker.admit(v, id)
	a.masks[id] = m
	a.bytes += m.bytes()
	return m
}

// feed returns the state after t, or Empty if t is not allowed.
func (a *arena) feed(v *Vocabulary, id expr.ID, t backend.Token) expr.ID {
	if !v.vocab.Valid(t) || !isText(v.vocab, t) {
		return expr.Empty
	}
	return a.feedText(id, v.vocab.Piece(t))
}

func (a *arena) feedText(id expr.ID, text string) expr.ID {
	for i := 0; i < len(text) && id != expr.Empty; i++ {
		id = a.set.Derive(id, text[i])
	}
	return id
}

// plain reports whether x matches every character of plain text as a whole, see slice.
func (a *arena) plain(x expr.ID) bool {
	covers, ok := a.covered[x]
	if !ok {
		covers = a.covers(x)
		a.covered[x] = covers
	}
	return covers
}

// utf8Ranges are the well-formed byte sequences of characters beyond ASCII (Unicode Standard, table 3-7).
var utf8Ranges = [][][2]byte{
	{{0xC2, 0xDF}, {0x80, 0xBF}},
	{{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}},
	{{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}},
	{{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}},
}

func (a *arena) covers(x expr.ID) bool {
	for b := byte(0x20); b < 0x80; b++ {
		if b != '"' && b != '\\' && !a.set.Nullable(a.set.Derive(x, b)) {
			return false
		}
	}
	for _, ranges := range utf8Ranges {
		now := map[expr.ID]bool{x: true}
		for _, r := range ranges {
			later := map[expr.ID]bool{}
			for id := range now {
				for b := int(r[0]); b <= int(r[1]); b++ {
					later[a.set.Derive(id, byte(b))] = true
				}
			}
			now = later
		}
		for id := range now {
			if !a.set.Nullable(id) {
				return false
			}
		}
	}
	return true
}
