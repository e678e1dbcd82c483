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

// StoreLimits limits what is kept of past responses. Above a limit the least recently used responses are removed; to
// continue a response counts as use. The zero value of each field means its default.
type StoreLimits struct {
	// Responses is the maximum number for each principal; 0 means 1,024.
	Responses int
	// Bytes is the approximate maximum size for each principal, and Total that for all; 0 means 64 MiB and 256 MiB.
	Bytes, Total int
	// Age is how long a response is kept after its creation; 0 means 24 hours.
	Age time.Duration
	// Events is the approximate maximum size of the events that are kept of each response in the background, the newest;
	// 0 means 1 MiB.
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

// record is a stored response. Once it is in the store, its fields are read and written under the store's lock, except
// run, which never changes. What the fields point to never changes either.
type record struct {
	id, principal string
	// previous is the id of the response that it continues, and root that of the first one of the chain, which may be
	// itself.
	previous, root string
	made           time.Time
	// response is what GET returns, with its reasoning sealed. input are the items of the request.
	response *Response
	input    []entry
	// thoughts is the reasoning of the run, sealed for home; empty if there is none.
	thoughts string
	// rationale has the response's decisions with their reasons, sealed; empty if there are none.
	rationale string
	home      seal.Scope
	// homeID is the id of the reasoning item to which the run's reasoning belongs, shown or not.
	homeID string
	// shown is how much of the reasoning the response shows. The API key may be allowed to see less by now.
	shown reasoning.Visibility
	size  int
	// run is the run in the background that makes it; nil if it is not in the background.
	run *run
}

// store keeps the responses of each principal in memory. Its methods may be called by several goroutines at once.
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
	// items has the response of each item, by the item's id.
	items map[string]*record
	bytes int
}

func newStore(limits StoreLimits, clock func() time.Time) *store {
	return &store{limits: limits.orDefaults(), clock: clock, shelves: map[string]*shelf{}}
}

// put adds a response and makes room for it. If it is too large, put keeps nothing and returns false.
func (s *store) put(r *record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.add(r)
}

// replace replaces an earlier state of a response, unless that was deleted. If the response is too large, replace keeps
// nothing and returns false.
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
		sh.items[idOf(item)] = r
	}
	sh.bytes += r.size
	s.bytes += r.size
	s.shrink(sh, r)
	return true
}

// items yields the items of a response's request and of its output.
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

// get returns a response and counts that as use. It returns nil if there is none or if it is too old.
func (s *store) get(principal, id string) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(principal, id)
}

// lookup returns a response and its shelf; el is nil if there is none.
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

// chain returns a response and those that it continues, the oldest first. If one of them does not exist, missing is its
// id.
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

// item returns a stored item and its response; nil if there is none.
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
		if idOf(item) == id {
			return item, r
		}
	}
	return nil, nil
}

// remove removes a response and returns it; nil if there is none.
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
		if sh.items[idOf(item)] == r {
			delete(sh.items, idOf(item))
		}
	}
	sh.bytes -= r.size
	s.bytes -= r.size
	if sh.order.Len() == 0 {
		delete(s.shelves, principal)
	}
	return r
}

// old reports whether a response is too old. An unfinished one never is.
func (s *store) old(r *record) bool {
	return s.clock().Sub(r.made) > s.limits.Age && !r.run.busy()
}

// sweep removes responses that are too old, from time to time.
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

// shrink removes responses until the limits hold again after r was put on a shelf: first those of its principal, then
// those of the principals with the most. Unfinished responses count but stay; there are few of them.
func (s *store) shrink(sh *shelf, r *record) {
	for (len(sh.records) > s.limits.Responses || sh.bytes > s.limits.Bytes) && s.dropFirst(sh, r) {
	}
	for s.bytes > s.limits.Total && s.dropLargest(r) {
	}
}

// dropLargest removes a response of the largest shelf.
func (s *store) dropLargest(except *record) bool {
	shelves := slices.SortedFunc(maps.Values(s.shelves), func(a, b *shelf) int { return cmp.Compare(b.bytes, a.bytes) })
	return slices.ContainsFunc(shelves, func(sh *shelf) bool { return s.dropFirst(sh, except) })
}

// dropFirst removes the least recently used response of a shelf that may be removed.
func (s *store) dropFirst(sh *shelf, except *record) bool {
	for el := sh.order.Front(); el != nil; el = el.Next() {
		if r := el.Value.(*record); r != except && !r.run.busy() {
			s.drop(r.principal, r.id)
			return true
		}
	}
	return false
}
