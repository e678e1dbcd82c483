package expr

import (
	"math"
	"slices"
)

// ID is an expression of one Set.
type ID int32

const (
	// Empty matches no text. A match that reaches it has failed.
	Empty ID = 0
	// Epsilon matches only the empty text.
	Epsilon ID = 1
)

// Rule is a nonterminal. Its address is its identity, so a front end makes and keeps one for each nonterminal. Expand
// builds its body in the given set. It is called at most once per set, when the rule is first reached. A rule must not
// reach itself before it consumes a byte.
type Rule struct {
	// Name is for people.
	Name string
	// Expand returns the body.
	Expand func(*Set) ID
}

type kind uint8

const (
	emptyKind    kind = iota
	epsilonKind       // the empty text
	byteKind          // a: index of the byte set
	concatKind        // a, then b; a is no concatenation
	unionKind         // lists[a:a+b], ascending
	repeatKind        // a, lo to hi times; hi < 0 means no limit
	wordsKind         // words[a][lo:hi], of whose bytes b are consumed
	ruleKind          // rules[a]
	dfaKind           // automata[a] from state b
	countedKind       // automata[a] from state b with lo to hi characters to come
	andKind           // lists[a:a+b], ascending
	notKind           // all texts but those of a
	unplacedKind      // a, then b, where a is a concatenation or a union; clamped is the concatenation
	unmergedKind      // lists[a:a+b]: a union before alternatives were merged; clamped is the union
)

// node is an expression.
type node struct {
	kind     kind
	nullable truth
	asked    uint8 // number of requests for derivatives, until they are kept
	calls    bool  // a rule is part of it
	a, b     int32
	lo, hi   int32
	clamped  ID // 0 until requested
	lastB    byte
	lastD    ID
}

type truth uint8

const (
	unknown truth = iota
	yes
	no
	asking // being computed
)

// unset marks a derivative that is not known yet. rowAfter is the number of requests after which a node gets a row.
const (
	unset    = -1
	rowAfter = 3
	// maxRows limits the rows of derivatives. A row takes 1 KiB.
	maxRows = 2048
)

type rule struct {
	def  *Rule
	body ID // unset until it is expanded
}

// Set holds expressions. It is not safe for concurrent use.
type Set struct {
	nodes []node
	table []ID // open addressing; 0 is free, because Empty is never looked up
	lists []ID
	row   []int32 // by node: the place of its derivatives in rows, by byte; 0 is an empty row
	rows  []ID
	stack []ID  // of lists under construction
	runs  []Run // by node, as far as they were requested; otherwise Times is unset

	sets     []ByteSet
	words    []*Words
	automata []*Automaton
	rules    []rule

	setIndex     map[ByteSet]int32
	literalIndex map[string]int32
	wordsIndex   map[*Words]int32
	dfaIndex     map[*Automaton]int32
	ruleIndex    map[*Rule]int32

	longest  int32 // Clamp does not distinguish counts above it
	inserted int

	// work is the work that is left and room the memory limit in bytes, see Within.
	work int
	room int
	// mark and marked belong to subsume: an expression was seen in this round if it has the number of the round.
	mark   []int32
	marked int32
}

// NewSet returns a set with Empty and Epsilon.
func NewSet() *Set {
	s := &Set{
		table: make([]ID, 256), longest: 256, work: math.MaxInt, room: math.MaxInt,
		setIndex: map[ByteSet]int32{}, literalIndex: map[string]int32{}, wordsIndex: map[*Words]int32{},
		dfaIndex: map[*Automaton]int32{}, ruleIndex: map[*Rule]int32{},
	}
	s.nodes = append(s.nodes, node{kind: emptyKind, nullable: no},
		node{kind: epsilonKind, nullable: yes, clamped: Epsilon})
	s.row = make([]int32, len(s.nodes))
	s.rows = make([]ID, 256, 4*256)
	for i := range s.rows {
		s.rows[i] = unset
	}
	return s
}

// Len returns the number of expressions.
func (s *Set) Len() int { return len(s.nodes) }

// Bytes returns the approximate memory of the set, in bytes.
func (s *Set) Bytes() int {
	return len(s.nodes)*(32+4) + len(s.table)*4 + len(s.lists)*4 + len(s.runs)*12 + cap(s.rows)*4 + len(s.sets)*40
}

// intern returns the id of a node. It adds the node if no equal one exists. list is the content of a union or an And.
func (s *Set) intern(n node, list []ID) ID {
	if s.inserted*4 >= len(s.table)*3 {
		s.grow()
	}
	h := s.hash(&n, list)
	mask := uint64(len(s.table) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		id := s.table[i]
		if id == 0 {
			if list != nil {
				n.a, n.b = int32(len(s.lists)), int32(len(list))
				s.lists = append(s.lists, list...)
			}
			id = ID(len(s.nodes))
			n.lastD, n.calls = unset, s.callsRule(&n, list)
			s.nodes = append(s.nodes, n)
			s.row = append(s.row, 0)
			s.table[i] = id
			s.inserted++
			return id
		}
		if s.same(&s.nodes[id], &n, list) {
			return id
		}
	}
}

// callsRule reports whether a rule is a part of n.
func (s *Set) callsRule(n *node, list []ID) bool {
	switch n.kind {
	case ruleKind:
		return true
	case concatKind:
		return s.nodes[n.a].calls || s.nodes[n.b].calls
	case repeatKind:
		return s.nodes[n.a].calls
	case notKind:
		return s.nodes[n.a].calls
	case unionKind, andKind:
		return slices.ContainsFunc(list, func(id ID) bool { return s.nodes[id].calls })
	}
	return false
}

func (s *Set) same(m, n *node, list []ID) bool {
	if m.kind != n.kind || m.lo != n.lo || m.hi != n.hi {
		return false
	}
	if list != nil {
		return slices.Equal(s.list(m), list)
	}
	return m.a == n.a && m.b == n.b
}

func (s *Set) list(n *node) []ID { return s.lists[n.a : n.a+n.b] }

func (s *Set) hash(n *node, list []ID) uint64 {
	h := uint64(n.kind)*0x9e3779b97f4a7c15 ^ uint64(uint32(n.lo))<<32 ^ uint64(uint32(n.hi))
	mix := func(v uint64) {
		h ^= v
		h *= 0xff51afd7ed558ccd
		h ^= h >> 32
	}
	if list == nil {
		mix(uint64(uint32(n.a))<<32 | uint64(uint32(n.b)))
	}
	for _, id := range list {
		mix(uint64(id) + 0x632be59bd9b4e019)
	}
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>29
}

func (s *Set) grow() {
	old := s.table
	s.table = make([]ID, 2*len(old))
	mask := uint64(len(s.table) - 1)
	for _, id := range old {
		if id == 0 {
			continue
		}
		n := &s.nodes[id]
		var list []ID
		if n.kind == unionKind || n.kind == andKind || n.kind == unmergedKind {
			list = s.list(n)
		}
		i := s.hash(n, list) & mask
		for s.table[i] != 0 {
			i = (i + 1) & mask
		}
		s.table[i] = id
	}
}

// Byte returns the expression of any one byte of b.
func (s *Set) Byte(b ByteSet) ID {
	if b.IsEmpty() {
		return Empty
	}
	i, ok := s.setIndex[b]
	if !ok {
		i = int32(len(s.sets))
		s.sets = append(s.sets, b)
		s.setIndex[b] = i
	}
	return s.intern(node{kind: byteKind, nullable: no, a: i}, nil)
}

// Literal returns the expression of exactly text.
func (s *Set) Literal(text string) ID {
	if text == "" {
		return Epsilon
	}
	i, ok := s.literalIndex[text]
	if !ok {
		i = s.addWords(&Words{list: []string{text}})
		s.literalIndex[text] = i
	}
	return s.intern(node{kind: wordsKind, a: i, lo: 0, hi: 1}, nil)
}

// Words returns the expression of any one of w.
func (s *Set) Words(w *Words) ID {
	if w.Len() == 0 {
		return Empty
	}
	i, ok := s.wordsIndex[w]
	if w.Len() == 1 {
		return s.Literal(w.list[0])
	}
	if !ok {
		i = s.addWords(w)
		s.wordsIndex[w] = i
	}
	return s.wordsAt(i, 0, int32(w.Len()), 0)
}

func (s *Set) addWords(w *Words) int32 {
	s.words = append(s.words, w)
	return int32(len(s.words) - 1)
}

// wordsAt returns the rest of the words [lo, hi) after depth bytes.
func (s *Set) wordsAt(words, lo, hi, depth int32) ID {
	if lo >= hi {
		return Empty
	}
	if hi-lo == 1 && int(depth) == len(s.words[words].list[lo]) {
		return Epsilon
	}
	return s.intern(node{kind: wordsKind, a: words, b: depth, lo: lo, hi: hi}, nil)
}

// Rule returns the expression of r, without expanding it.
func (s *Set) Rule(r *Rule) ID {
	i, ok := s.ruleIndex[r]
	if !ok {
		i = int32(len(s.rules))
		s.rules = append(s.rules, rule{def: r, body: unset})
		s.ruleIndex[r] = i
	}
	return s.intern(node{kind: ruleKind, a: i}, nil)
}

func (s *Set) body(i int32) ID {
	if s.rules[i].body == unset {
		work, room, before := s.work, s.room, len(s.nodes)
		s.work, s.room = math.MaxInt, math.MaxInt // it must not be cut off
		body := s.rules[i].def.Expand(s)          // may add rules
		s.rules[i].body = body
		s.work, s.room = work-(len(s.nodes)-before), room
	}
	return s.rules[i].body
}

// Concat returns the expression of the parts in order.
func (s *Set) Concat(parts ...ID) ID {
	id := Epsilon
	for i := len(parts) - 1; i >= 0; i-- {
		id = s.concat(parts[i], id)
	}
	return id
}

func (s *Set) concat(a, b ID) ID {
	switch {
	case a == Empty || b == Empty:
		return Empty
	case a == Epsilon:
		return b
	case b == Epsilon:
		return a
	}
	n := s.nodes[a]
	if n.kind != concatKind && (n.kind != unionKind || !n.calls) {
		return s.intern(node{kind: concatKind, a: int32(a), b: int32(b)}, nil)
	}
	raw := s.intern(node{kind: unplacedKind, a: int32(a), b: int32(b)}, nil)
	id := s.nodes[raw].clamped
	if id != 0 {
		return id
	}
	if n.kind == concatKind {
		id = s.concat(ID(n.a), s.concat(ID(n.b), b))
	} else {
		base := len(s.stack)
		for i := n.a; i < n.a+n.b; i++ {
			s.pushUnion(s.concat(s.lists[i], b))
		}
		id = s.popUnion(base)
	}
	s.nodes[raw].clamped = id
	return id
}

// Repeat returns the expression of min to max times a. A negative max means no limit.
func (s *Set) Repeat(a ID, lo, hi int) ID {
	const most = 1 << 30
	lo = min(max(lo, 0), most)
	hi = min(hi, most)
	switch {
	case hi >= 0 && hi < lo:
		return Empty
	case hi == 0 || a == Epsilon:
		return Epsilon
	case a == Empty && lo == 0:
		return Epsilon
	case a == Empty:
		return Empty
	case lo == 1 && hi == 1:
		return a
	}
	if hi < 0 {
		hi = -1
	}
	t := unknown
	if lo == 0 {
		t = yes
	}
	return s.intern(node{kind: repeatKind, nullable: t, a: int32(a), lo: int32(lo), hi: int32(hi)}, nil)
}

// Star returns the expression of a any number of times.
func (s *Set) Star(a ID) ID { return s.Repeat(a, 0, -1) }

// Optional returns the expression of a or nothing.
func (s *Set) Optional(a ID) ID { return s.Repeat(a, 0, 1) }

// Automaton returns the expression of a's language.
func (s *Set) Automaton(a *Automaton) ID {
	if a.IsEmpty() {
		return Empty
	}
	return s.dfaAt(s.automaton(a), a.start)
}

func (s *Set) automaton(a *Automaton) int32 {
	i, ok := s.dfaIndex[a]
	if !ok {
		i = int32(len(s.automata))
		s.automata = append(s.automata, a)
		s.dfaIndex[a] = i
	}
	return i
}

func (s *Set) dfaAt(i, state int32) ID {
	if state < 0 {
		return Empty
	}
	if s.automata[i].final(state) {
		return Epsilon
	}
	return s.intern(node{kind: dfaKind, a: i, b: state}, nil)
}

// Counted returns the expression of the texts of a with lo to hi characters, as [DeterminizeText] counts them. A
// negative hi means no limit. lo must be at most [MaxCounted].
func (s *Set) Counted(a *Automaton, lo, hi int) ID {
	if lo > MaxCounted || a.IsEmpty() {
		return Empty
	}
	if a.end == nil {
		panic("expr: Counted of an automaton without characters")
	}
	lo, hi = max(lo, 0), min(hi, 1<<30)
	a.measure(int32(lo), int32(hi))
	return s.countedAt(s.automaton(a), a.start, int32(lo), int32(hi))
}

func (s *Set) countedAt(i, state, lo, hi int32) ID {
	if lo <= 0 && hi < 0 {
		return s.dfaAt(i, state)
	}
	lo = max(lo, 0)
	if state < 0 || !s.automata[i].reaches(state, lo, hi) {
		return Empty
	}
	if s.automata[i].final(state) {
		return Epsilon
	}
	return s.intern(node{kind: countedKind, a: i, b: state, lo: lo, hi: hi}, nil)
}
