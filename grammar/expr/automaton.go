package expr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
)

// ErrTooComplex says that a language needs more states than allowed.
var ErrTooComplex = errors.New("too many states")

// MaxCounted is the largest lower limit that [Set.Counted] takes, in characters.
const MaxCounted = 4096

// Automaton is a deterministic automaton over bytes without dead states: every state leads to an accepting one. It is
// immutable, and any number of sets may share it.
type Automaton struct {
	class   [256]uint8
	classes int
	next    []int32 // state*classes + class; -1 if there is none
	accept  []bool
	end     []bool // a character ends on entering the state
	loose   []bool // an edge leaves the state
	start   int32
	// longest[q] is the maximum number of characters that complete a text from q, or endless. It is nil if characters
	// are not counted.
	longest []int32
	// lengths is computed when first needed, and again when more of it is needed.
	lengths atomic.Pointer[lengths]
}

// endless means that there is no maximum number of characters.
const endless = 1 << 30

// lengths says how many characters can complete a text. Row q has bit k set if k characters can, for k up to limit.
type lengths struct {
	limit int
	rows  [][]uint64
}

// IsEmpty reports whether no text is accepted.
func (a *Automaton) IsEmpty() bool { return len(a.accept) == 0 }

// States returns the number of states.
func (a *Automaton) States() int { return len(a.accept) }

func (a *Automaton) step(q int32, b byte) int32 {
	return a.next[int(q)*a.classes+int(a.class[b])]
}

func (a *Automaton) accepts(q int32) bool { return a.accept[q] }

func (a *Automaton) ends(q int32) bool { return a.end != nil && a.end[q] }

// final reports whether q accepts and nothing can follow.
func (a *Automaton) final(q int32) bool { return a.accept[q] && !a.loose[q] }

// reaches reports whether lo to hi more characters can complete a text from q. A negative hi means no limit. measure
// must have run for these limits or wider ones.
func (a *Automaton) reaches(q, lo, hi int32) bool {
	if a.longest[q] < lo {
		return false
	}
	if hi < 0 {
		return true
	}
	hi = min(hi, a.far(lo))
	row := a.lengths.Load().rows[q]
	for w := lo / 64; w <= hi/64 && int(w) < len(row); w++ {
		bits := row[w]
		if w == lo/64 {
			bits &= ^uint64(0) << (lo % 64)
		}
		if w == hi/64 && hi%64 != 63 {
			bits &= 1<<(hi%64+1) - 1
		}
		if bits != 0 {
			return true
		}
	}
	return false
}

// far is how far to look for a number of at least lo characters. A longer text goes through a cycle that can be left
// out.
func (a *Automaton) far(lo int32) int32 { return lo + int32(a.States()) }

// LengthRange returns the minimum and maximum number of characters of a text. The maximum is -1 if there is no limit.
// Both are 0 if characters are not counted, and for the empty language.
func (a *Automaton) LengthRange() (least, most int) {
	if a.IsEmpty() || a.end == nil {
		return 0, 0
	}
	if most = int(a.longest[a.start]); most >= endless {
		most = -1
	}
	// Breadth first, one character at a time.
	seen := make([]bool, a.States())
	now, later := []int32{a.start}, []int32(nil)
	for ; ; least++ {
		for i := 0; i < len(now); i++ {
			q := now[i]
			if seen[q] {
				continue
			}
			seen[q] = true
			if a.accept[q] {
				return least, most
			}
			for _, to := range a.next[int(q)*a.classes : (int(q)+1)*a.classes] {
				switch {
				case to < 0 || seen[to]:
				case a.end[to]:
					later = append(later, to)
				default:
					now = append(now, to)
				}
			}
		}
		now, later = later, now[:0]
	}
}

// Determinize explores the expression that build returns, which may contain And and Not. It returns the automaton of
// its language without dead states. It fails with [ErrTooComplex] if there are more than maxStates states, dead ones
// included.
func Determinize(ctx context.Context, build func(*Set) ID, maxStates int) (*Automaton, error) {
	return determinize(ctx, build, nil, maxStates)
}

// DeterminizeText is Determinize for texts made of characters. char is the expression of one character, and no
// character may be the beginning of another. Texts that are not made of characters are not in the language. The
// automaton can be used with [Set.Counted].
func DeterminizeText(ctx context.Context, build, char func(*Set) ID, maxStates int) (*Automaton, error) {
	return determinize(ctx, build, char, maxStates)
}

// pair is a state during the exploration: the rest of the text and the rest of the character.
type pair struct{ text, chars ID }

func determinize(ctx context.Context, build, char func(*Set) ID, maxStates int) (*Automaton, error) {
	s := NewSet()
	root := pair{text: build(s), chars: Epsilon}
	if char != nil {
		root.chars = s.Star(char(s))
	}
	a := &Automaton{}
	classes, err := s.byteClasses(ctx, a, root)
	if err != nil {
		return nil, err
	}
	index := map[pair]int32{root: 0}
	states := []pair{root}
	if root.text == Empty {
		return a, nil
	}
	for i := 0; i < len(states); i++ {
		if i%64 == 0 {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		from := states[i]
		for _, b := range classes {
			to := pair{text: s.Derive(from.text, b), chars: Epsilon}
			if char != nil {
				to.chars = s.Derive(from.chars, b)
			}
			if to.text == Empty || to.chars == Empty {
				a.next = append(a.next, -1)
				continue
			}
			j, ok := index[to]
			if !ok {
				if len(states) >= maxStates {
					return nil, fmt.Errorf("%w: more than %d", ErrTooComplex, maxStates)
				}
				j = int32(len(states))
				index[to] = j
				states = append(states, to)
			}
			a.next = append(a.next, j)
		}
	}
	for _, p := range states {
		whole := char == nil || p.chars == root.chars
		a.accept = append(a.accept, whole && s.Nullable(p.text))
		if char != nil {
			a.end = append(a.end, whole)
		}
	}
	a.trim()
	a.findLongest()
	return a, nil
}

// byteClasses groups bytes that every expression reachable from root treats alike. It returns one byte of each class.
// The error is the context's.
func (s *Set) byteClasses(ctx context.Context, a *Automaton, root pair) ([]byte, error) {
	seen := map[ID]bool{}
	var err error
	var walk func(ID)
	a.classes = 1
	var single ByteSet
	walk = func(id ID) {
		if seen[id] || err != nil {
			return
		}
		if seen[id] = true; len(seen)%64 == 0 {
			err = ctx.Err() // rules are expanded here
		}
		n := s.nodes[id]
		switch n.kind {
		case byteKind:
			a.splitClasses(&s.sets[n.a])
		case concatKind:
			walk(ID(n.a))
			walk(ID(n.b))
		case unionKind, andKind:
			for i := n.a; i < n.a+n.b; i++ {
				walk(s.lists[i])
			}
		case repeatKind, notKind:
			walk(ID(n.a))
		case wordsKind:
			for _, w := range s.words[n.a].list[n.lo:n.hi] {
				for i := range len(w) {
					single.Add(w[i])
				}
			}
		case ruleKind:
			walk(s.body(n.a))
		case dfaKind, countedKind:
			b := s.automata[n.a]
			for c := range b.classes {
				var set ByteSet
				for i := range 256 {
					if b.class[i] == uint8(c) {
						set.Add(byte(i))
					}
				}
				a.splitClasses(&set)
			}
		}
	}
	walk(root.text)
	walk(root.chars)
	if err != nil {
		return nil, err
	}
	for i := range 256 {
		if single.Has(byte(i)) {
			one := ByteRange(byte(i), byte(i))
			a.splitClasses(&one)
		}
	}
	first := make([]byte, a.classes)
	for i := 255; i >= 0; i-- {
		first[a.class[i]] = byte(i)
	}
	return first, nil
}

// splitClasses splits each class into its bytes that are in b and those that are not.
func (a *Automaton) splitClasses(b *ByteSet) {
	split := map[uint8]uint8{}
	for i := range 256 {
		if !b.Has(byte(i)) {
			continue
		}
		c := a.class[i]
		to, ok := split[c]
		if !ok {
			to = uint8(a.classes)
			a.classes++
			split[c] = to
		}
		a.class[i] = to
	}
	// A class that lost all its bytes leaves its number unused, so renumber.
	var number [256]int
	a.classes = 0
	for i := range 256 {
		if c := a.class[i]; number[c] == 0 {
			a.classes++
			number[c] = a.classes
		}
	}
	for i := range 256 {
		a.class[i] = uint8(number[a.class[i]] - 1)
	}
}

// trim drops the states that lead to no accepting state.
func (a *Automaton) trim() {
	n := len(a.accept)
	back := make([][]int32, n)
	for q := range n {
		for _, to := range a.next[q*a.classes : (q+1)*a.classes] {
			if to >= 0 {
				back[to] = append(back[to], int32(q))
			}
		}
	}
	number := make([]int32, n)
	var queue []int32
	for q := range n {
		number[q] = -1
		if a.accept[q] {
			number[q] = 0
			queue = append(queue, int32(q))
		}
	}
	for len(queue) > 0 {
		q := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		for _, p := range back[q] {
			if number[p] < 0 {
				number[p] = 0
				queue = append(queue, p)
			}
		}
	}
	kept := int32(0)
	for q := range n {
		if number[q] >= 0 {
			number[q] = kept
			kept++
		}
	}
	if n == 0 || number[0] < 0 {
		a.next, a.accept, a.end, a.loose = nil, nil, nil, nil
		return
	}
	next := make([]int32, 0, int(kept)*a.classes)
	var accept, end, loose []bool
	for q := range n {
		if number[q] < 0 {
			continue
		}
		open := false
		for _, to := range a.next[q*a.classes : (q+1)*a.classes] {
			if to >= 0 {
				to = number[to]
			}
			open = open || to >= 0
			next = append(next, to)
		}
		accept = append(accept, a.accept[q])
		loose = append(loose, open)
		if a.end != nil {
			end = append(end, a.end[q])
		}
	}
	a.next, a.accept, a.end, a.loose, a.start = next, accept, end, loose, 0
}

type edge struct {
	from  int32
	count bool // a character ends
}

// edgesInto returns the edges that lead into each state, without repetitions.
func (a *Automaton) edgesInto() [][]edge {
	back := make([][]edge, a.States())
	for q := range back {
		for _, to := range a.next[q*a.classes : (q+1)*a.classes] {
			if e := (edge{int32(q), to >= 0 && a.end[to]}); to >= 0 && !slices.Contains(back[to], e) {
				back[to] = append(back[to], e)
			}
		}
	}
	return back
}

// findLongest computes longest. It takes the states that reach no cycle in reverse topological order.
func (a *Automaton) findLongest() {
	if a.end == nil || a.IsEmpty() {
		return
	}
	n := a.States()
	back := a.edgesInto()
	a.longest = make([]int32, n)
	open := make([]int, n) // edges to states that are not done
	for q := range n {
		a.longest[q] = endless
		for _, e := range back[q] {
			open[e.from]++
		}
	}
	var done []int32
	for q := range n {
		if open[q] == 0 {
			a.longest[q] = 0
			done = append(done, int32(q))
		}
	}
	best := make([]int32, n)
	for i := 0; i < len(done); i++ {
		q := done[i]
		for _, e := range back[q] {
			length := a.longest[q]
			if e.count {
				length++
			}
			best[e.from] = max(best[e.from], length)
			if open[e.from]--; open[e.from] == 0 {
				a.longest[e.from] = best[e.from]
				done = append(done, e.from)
			}
		}
	}
}

// measure computes lengths as far as the limits need them.
func (a *Automaton) measure(lo, hi int32) {
	if hi < 0 {
		return // longest says enough
	}
	n, limit := a.States(), int(min(hi, a.far(lo)))
	if l := a.lengths.Load(); l != nil && l.limit >= limit {
		return
	}
	back := a.edgesInto()
	rows := make([][]uint64, n)
	reached := make([]int, n) // the last length noted, plus 1
	var now, later []int32
	for q := range n {
		if a.accept[q] {
			now = append(now, int32(q))
			reached[q] = 1
		}
	}
	for k := 0; k <= limit && len(now) > 0; k++ {
		later = later[:0]
		for i := 0; i < len(now); i++ {
			q := now[i]
			for len(rows[q]) <= k/64 {
				rows[q] = append(rows[q], 0)
			}
			rows[q][k/64] |= 1 << (k % 64)
			for _, e := range back[q] {
				if e.count {
					later = append(later, e.from)
				} else if reached[e.from] != k+1 {
					reached[e.from] = k + 1
					now = append(now, e.from)
				}
			}
		}
		now = now[:0]
		for _, q := range later {
			if reached[q] != k+2 {
				reached[q] = k + 2
				now = append(now, q)
			}
		}
	}
	a.lengths.Store(&lengths{limit: limit, rows: rows})
}
