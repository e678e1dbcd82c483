package grammar

import (
	"slices"
	"sync"

	"runner/backend"
	"runner/grammar/expr"
)

// arena holds what is known about a grammar: its expressions and what its states admit. When it has grown too large,
// the grammar starts another, and the matchers move to it one by one.
type arena struct {
	mu   sync.Mutex
	set  *expr.Set
	root expr.ID
	base int // size when it was new
	// walker works on one task at a time. It finishes an open task before it starts another, whoever asks.
	walker walker
	// probe walks for callers without a task.
	probe walker

	// masks holds what states admit. plain is the part that depends only on the head of a state. bytes is the size of
	// both.
	masks map[expr.ID]*allowed
	plain map[expr.ID]*plain
	bytes int

	// covered says how an expression takes characters of plain text. opaque says before which byte it takes no plain
	// text.
	covered map[expr.ID]cover
	opaque  map[expr.ID]uint16
}

// cover says how an expression takes characters of plain text, see slice.
type cover uint8

const (
	someChars   cover = 1 + iota
	everyChar         // every one of them is a text of it
	exactlyChar       // and nothing can follow it
)

func newArena(build func(*expr.Set) expr.ID) *arena {
	a := &arena{
		set: expr.NewSet(), masks: map[expr.ID]*allowed{}, plain: map[expr.ID]*plain{},
		covered: map[expr.ID]cover{}, opaque: map[expr.ID]uint16{},
	}
	a.root = build(a.set)
	a.walker, a.probe = walker{arena: a, set: a.set}, walker{arena: a, set: a.set}
	a.base = a.size()
	return a
}

// full reports whether it is time for a new arena.
func (a *arena) full() bool { return a.size()-a.base > maxArena }

// room returns how many bytes the expressions may use.
func (a *arena) room() int { return a.base + maxArena - a.bytes }

// size returns the approximate size of the arena, in bytes.
func (a *arena) size() int { return a.set.Bytes() + a.bytes }

// admits returns what may follow in state id. It finishes the open task first.
func (a *arena) admits(v *Vocabulary, id expr.ID) *allowed {
	id = a.set.Clamp(id)
	for {
		if m, ok := a.masks[id]; ok {
			return m
		}
		if a.walker.id == expr.Empty {
			a.walker.task = task{id: id}
			a.walker.at, a.walker.more, a.walker.fewer = 0, a.walker.more[:0], a.walker.fewer[:0]
		}
		m := a.walker.take(v)
		if a.bytes > maxMaskBytes {
			clear(a.masks)
			clear(a.plain)
			a.bytes = 0
		}
		a.masks[a.walker.id] = m
		a.bytes += m.bytes()
		a.walker.task = task{}
	}
}

// isOpaque reports whether id takes no plain text.
func (a *arena) isOpaque(id expr.ID) bool {
	from := a.opaque[id]
	b := from
	for ; b < 0x100; b++ {
		if b&15 == 0 {
			a.opaque[id] = b // the next derivative may be the last for now
		}
		if isPlain(byte(b)) && a.set.Derive(id, byte(b)) != expr.Empty {
			break
		}
	}
	if b != from {
		a.opaque[id] = b
	}
	return b == 0x100
}

// run returns how many characters of plain text, whatever they are, certainly may follow in state id. It also reports
// whether no longer plain text may follow.
func (a *arena) run(id expr.ID) (n int, exact bool) {
	r := a.set.Run(id, a.covers)
	if !r.Alone {
		return int(r.Times), false
	}
	_, tail := a.set.Split(id)
	return int(r.Times), a.cover(r.Part) == exactlyChar && a.isOpaque(tail)
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

// covers reports whether x takes every character of plain text.
func (a *arena) covers(x expr.ID) bool { return a.cover(x) >= everyChar }

func (a *arena) cover(x expr.ID) cover {
	c, ok := a.covered[x]
	if !ok {
		c = a.findCover(x)
		a.covered[x] = c
	}
	return c
}

// utf8Ranges are the valid byte sequences of characters beyond ASCII (Unicode Standard, table 3-7).
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

func (a *arena) findCover(x expr.ID) cover {
	found := exactlyChar
	note := func(after expr.ID) {
		switch {
		case !a.set.Nullable(after):
			found = someChars
		case after != expr.Epsilon:
			found = min(found, everyChar)
		}
	}
	for b := byte(0x20); b < 0x80; b++ {
		if isPlain(b) {
			note(a.set.Derive(x, b))
		}
	}
	for _, ranges := range utf8Ranges {
		now := []expr.ID{x}
		for _, r := range ranges {
			var later []expr.ID
			for _, id := range now {
				for b := int(r[0]); b <= int(r[1]); b++ {
					if d := a.set.Derive(id, byte(b)); !slices.Contains(later, d) {
						later = append(later, d)
					}
				}
			}
			now = later
		}
		for _, id := range now {
			note(id)
		}
	}
	return found
}
