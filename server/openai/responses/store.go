package responses

import (
	"cmp"
	"container/list"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"runner/reasoning"
	"runner/reasoning/seal"
)

// StoreLimits bounds what is kept of past responses. What is over a limit goes, the least recently used first:
// being gone on from counts as use. The zero value of each field is its default.
type StoreLimits struct {
	// Responses is how many are kept for each principal; 0 means 1,024.
	Responses int
	// Bytes is about how much is kept for each principal, and Total for all together; 0 means 64 MiB and 256 MiB.
	Bytes, Total int
	// Age is how long one is kept after it was made; 0 means 24 hours.
	Age time.Duration
	// Events is about how many bytes of events are kept of each response in the background, the newest; 0 means 1 MiB.
	Events int
}

func (l StoreLimits) orDefaults() StoreLimits {
	for _, f := range []struct {
		value    *int
		standard int
	}{{&l.Responses, 1024}, {&l.Bytes, 64 << 20}, {&l.Total, 256 << 20}, {&l.Events, 1 << 20}} {
		if *f.value <= 0 {
			*f.value = f.standard
		}
	}
	if l.Age <= 0 {
		l.Age = 24 * time.Hour
	}
	return l
}

// record is what is kept of a response. Once it is in the store its fields are read and written under the store's
// lock, except run, which never changes; what the fields point to is not changed at all.
type record struct {
	id, principal string
	// previous is the response that it goes on from, and root the first of that chain, which may be itself.
	previous, root string
	made           time.Time
	// response is what GET answers; its reasoning is sealed. input are the items that the request brought.
	response *Response
	input    []entry
	// thoughts is the reasoning of the run, sealed for home; empty without any.
	thoughts string
	// rationale is the response's decisions with their reasons, sealed; empty without any.
	rationale string
	home      seal.Scope
	// homeID is the id of the reasoning item that the run's reasoning belongs to, shown or not.
	homeID string
	// shown is how much of the reasoning the response shows. An API key's permission may have become less since it
	// was made.
	shown reasoning.Visibility
	size  int
	// run is the run in the background that makes it; nil for others.
	run *run
}

// store keeps responses in memory, each for its principal. Its methods may be called by several goroutines at once.
type store struct {
	limits StoreLimits
	clock  func() time.Time

	mu      sync.Mutex
	shelves map[string]*shelf
	bytes   int
	swept   time.Time
}

// shelf holds the responses of one principal, the least recently used first.
type shelf struct {
	order   *list.List // of *record
	records map[string]*list.Element
	// items finds the response that has an item with an id.
	items map[string]*record
	bytes int
}

func newStore(limits StoreLimits, clock func() time.Time) *store {
	return &store{limits: limits.orDefaults(), clock: clock, shelves: map[string]*shelf{}}
}

// put adds a response and makes room for it. It reports false, and keeps nothing, if it is too large.
func (s *store) put(r *record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(r)
}

// replace puts a response in the place of what was kept of it so far, unless that has been deleted. It reports
// false, and keeps nothing, if it is too large.
func (s *store) replace(old, r *record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, el := s.lookup(old.principal, old.id); el == nil || el.Value != any(old) {
		return true
	}
	s.drop(old.principal, old.id)
	return s.add(r)
}

func (s *store) add(r *record) bool {
	s.sweep()
	if r.size > s.limits.Bytes || r.size > s.limits.Total {
		return false
	}
	sh := s.shelves[r.principal]
	if sh == nil {
		sh = &shelf{order: list.New(), records: map[string]*list.Element{}, items: map[string]*record{}}
		s.shelves[r.principal] = sh
	}
	sh.records[r.id] = sh.order.PushBack(r)
	for item := range r.items() {
		sh.items[item.ItemID()] = r
	}
	sh.bytes += r.size
	s.bytes += r.size
	s.shrink(sh, r)
	return true
}

// items yields a response's own items: what the request brought and what came out.
func (r *record) items() iter.Seq[Item] {
	return func(yield func(Item) bool) {
		for i := range r.input {
			if !yield(r.input[i].item) {
				return
			}
		}
		for _, item := range r.response.Output {
			if !yield(item) {
				return
			}
		}
	}
}

// get returns a response that is not too old, and counts it as used; nil when there is none.
func (s *store) get(principal, id string) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(principal, id)
}

// lookup returns a response and its shelf; el is nil when there is none.
func (s *store) lookup(principal, id string) (sh *shelf, el *list.Element) {
	if sh = s.shelves[principal]; sh != nil {
		el = sh.records[id]
	}
	return sh, el
}

func (s *store) find(principal, id string) *record {
	sh, el := s.lookup(principal, id)
	if el == nil {
		return nil
	}
	r := el.Value.(*record)
	if s.old(r) {
		s.drop(principal, id)
		return nil
	}
	sh.order.MoveToBack(el)
	return r
}

// chain returns a response and those that it goes on from, the first one first; missing is the id of one that is
// not there.
func (s *store) chain(principal, id string) (chain []*record, missing string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id != "" {
		r := s.find(principal, id)
		if r == nil {
			return nil, id
		}
		chain = append(chain, r)
		id = r.previous
	}
	slices.Reverse(chain)
	return chain, ""
}

// item returns a stored item and the response that it belongs to; nil when there is none.
func (s *store) item(principal, id string) (Item, *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sh := s.shelves[principal]
	if sh == nil {
		return nil, nil
	}
	r := sh.items[id]
	if r == nil || s.find(principal, r.id) == nil {
		return nil, nil
	}
	for item := range r.items() {
		if item.ItemID() == id {
			return item, r
		}
	}
	return nil, nil
}

// remove forgets a response and returns it; nil when there is none.
func (s *store) remove(principal, id string) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.find(principal, id) == nil {
		return nil
	}
	return s.drop(principal, id)
}

func (s *store) drop(principal, id string) *record {
	sh, el := s.lookup(principal, id)
	if el == nil {
		return nil
	}
	r := sh.order.Remove(el).(*record)
	delete(sh.records, id)
	for item := range r.items() {
		if sh.items[item.ItemID()] == r {
			delete(sh.items, item.ItemID())
		}
	}
	sh.bytes -= r.size
	s.bytes -= r.size
	if sh.order.Len() == 0 {
		delete(s.shelves, principal)
	}
	return r
}

// old reports whether a response is past its age. One that is still being made is not.
func (s *store) old(r *record) bool {
	return s.clock().Sub(r.made) > s.limits.Age && !r.run.busy()
}

// sweep forgets what is too old, now and then, so that nobody has to ask for it.
func (s *store) sweep() {
	now := s.clock()
	if now.Sub(s.swept) < min(s.limits.Age, time.Minute) {
		return
	}
	s.swept = now
	for principal, sh := range s.shelves {
		for id, el := range sh.records {
			if s.old(el.Value.(*record)) {
				s.drop(principal, id)
			}
		}
	}
}

// shrink forgets what is over the limits after r was put on a shelf: first of its principal, then of those who keep
// the most. What is still being made counts but stays; there is little of it.
func (s *store) shrink(sh *shelf, r *record) {
	for (len(sh.records) > s.limits.Responses || sh.bytes > s.limits.Bytes) && s.dropFirst(sh, r) {
	}
	for s.bytes > s.limits.Total && s.dropLargest(r) {
	}
}

// dropLargest forgets a response of the shelf that holds the most.
func (s *store) dropLargest(except *record) bool {
	shelves := slices.SortedFunc(maps.Values(s.shelves), func(a, b *shelf) int { return cmp.Compare(b.bytes, a.bytes) })
	return slices.ContainsFunc(shelves, func(sh *shelf) bool { return s.dropFirst(sh, except) })
}

// dropFirst forgets the least recently used response of a shelf that may go.
func (s *store) dropFirst(sh *shelf, except *record) bool {
	for el := sh.order.Front(); el != nil; el = el.Next() {
		if r := el.Value.(*record); r != except && !r.run.busy() {
			s.drop(r.principal, r.id)
			return true
		}
	}
	return false
}
