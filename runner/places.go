package runner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"runner/backend"
)

// This file shares places and cache between principals.
//
// A run that is computed holds a place. Over time each principal that wants places gets an equal share of them. What a
// principal does not want is shared by the others. So a run is paused only if another principal waits that holds fewer
// places: at once if it holds fewer by two or more, and otherwise when the run's slice is over. The runs of a principal
// that were begun take turns in its share.
//
// A paused run keeps its sequence. It gives it up if another lane needs it and feeding it again changes no text, or if
// the cache is full.

const (
	// sliceTime is how long a run keeps its place before one of a principal with about as many places gets it.
	sliceTime = 250 * time.Millisecond
	// sliceWorth is for a run that has to compute again what it gave up. It keeps its place afterwards, for this many
	// times as long as that took.
	sliceWorth = 4
	// lookTime is how long it takes to notice that a slice is over.
	lookTime = 20 * time.Millisecond
	// orderTime is how long the order in which principals were served counts.
	orderTime = time.Minute
)

// places knows what each principal holds. It belongs to the scheduler's goroutine.
type places struct {
	// most is the maximum number of runs at a time.
	most int
	// repeats means that tokens that are fed again give the same text. If not, a paused lane keeps its sequence as long as
	// the cache has room.
	repeats bool
	// served says when principals last got a place, or had a text embedded. Those of more than orderTime ago are equal
	// to those that never did.
	served map[string]service
	// gave has the principals whose runs were paused since admit was called.
	gave map[string]bool

	// changed means that a lane came or went, or may be paused now. looked is when it was last looked who goes on.
	changed bool
	looked  time.Time
	// paused counts the waiting runs that were paused.
	paused int

	// What follows is counted again by weigh. tokens is what the lanes that run will hold at least.
	shares              map[string]share
	runs, texts, tokens int
	// foremost is the run that gives its place first, of the principals with the most places.
	foremost *lane
}

// service is when a principal got something, and the value of ages then.
type service struct {
	age uint64
	at  time.Time
}

// share is what a principal holds.
type share struct {
	runs, texts int
	// tokens is how much of the cache its lanes take, or will take soon.
	tokens int
	// first is the run that gives its place first; nil if none has one.
	first *lane
	// full means that one of its lanes waits for room in the cache.
	full bool
}

func newPlaces(model backend.Model, cfg *Config) places {
	p := places{most: cfg.Parallel, served: map[string]service{}, gave: map[string]bool{}, shares: map[string]share{}}
	if p.most <= 0 {
		p.most = model.Info().Sequences
	}
	can := model.Capabilities()
	p.repeats = can.ExactTruncate && can.Drafts
	return p
}

// admit lets waiting lanes go on, and pauses runs for them. There are never more lanes than tokens in a step, so that
// each lane can decode in every step.
func (s *scheduler) admit() {
	if len(s.waiting) == 0 {
		return
	}
	now := time.Now()
	if !s.places.changed && len(s.active) > 0 && now.Sub(s.places.looked) < lookTime {
		return
	}
	s.places.changed, s.places.looked = false, now
	clear(s.places.gave)
	scarce := false // only lanes that have a sequence can go on
	for {
		l, gives := s.next(now, scarce)
		if l == nil {
			return
		}
		if gives != nil && s.places.repeats {
			s.pause(gives, now) // its sequence may be needed
		}
		seq, err := s.sequenceFor(l)
		switch {
		case errors.Is(err, backend.ErrNoSequence) && !scarce && s.holders() > 0:
			scarce = true
			continue
		case s.breaks(err):
			s.failAll(err)
			return
		case err != nil:
			s.fail(l, fmt.Errorf("starting a sequence: %w", err))
			continue
		}
		if gives != nil && gives.running {
			s.pause(gives, now)
		}
		s.goOn(l, seq, now)
		if gives == nil || gives.principal != l.principal {
			s.serve(l, now)
		}
	}
}

// goOn puts a waiting lane into the steps.
func (s *scheduler) goOn(l *lane, seq backend.Sequence, now time.Time) {
	s.waiting = slices.DeleteFunc(s.waiting, func(other *lane) bool { return other == l })
	s.active = append(s.active, l)
	kept := l.seq != nil
	l.seq, l.fed, l.running = seq, len(seq.Tokens()), true
	if l.yielded = false; l.fed >= l.again {
		l.again = 0
	}
	l.since, l.until = now, now.Add(sliceTime)
	if l.paused {
		s.resumed(l)
	}
	if !kept {
		l.owner.started(l, l.fed)
	}
}

// serve notes that a lane's principal got a place. It begins a slice for all runs of the principal, so that the place
// is not lost at once because the slice of an older run is over.
func (s *scheduler) serve(l *lane, now time.Time) {
	if !l.isRun() && !l.embeds() {
		return
	}
	s.ages++
	s.places.served[l.principal] = service{s.ages, now}
	maps.DeleteFunc(s.places.served, func(_ string, last service) bool { return now.Sub(last.at) > orderTime })
	end := now.Add(sliceTime)
	for _, other := range s.active {
		if other.principal == l.principal && other.until.Before(end) {
			other.until = end
		}
	}
}

// sequenceFor returns a sequence for a lane: the one that it kept, or another one. That may hold a prefix of the lane's
// tokens, unless the lane embeds: such a text must be read whole.
func (s *scheduler) sequenceFor(l *lane) (backend.Sequence, error) {
	for {
		seq, err := l.seq, error(nil)
		switch {
		case seq != nil:
		case l.embeds():
			seq, err = s.cache.fresh()
		default:
			l.apart = false
			seq, err = s.cache.acquire(l, s.active)
		}
		if !errors.Is(err, backend.ErrNoSequence) || !s.places.repeats || !s.takeBack() {
			return seq, err
		}
	}
}

// takeBack takes a sequence back from a paused lane: the one with the least to compute again. It reports whether there
// was one.
func (s *scheduler) takeBack() bool {
	var least *lane
	for _, l := range s.waiting {
		if l.seq != nil && (least == nil || l.fed < least.fed) {
			least = l
		}
	}
	if least != nil {
		s.giveUp(least)
	}
	return least != nil
}

// holders counts the lanes that have a sequence.
func (s *scheduler) holders() int {
	n := len(s.active)
	for _, l := range s.waiting {
		if l.seq != nil {
			n++
		}
	}
	return n
}

// next returns the waiting lane to go on next, and the run to pause for it, or nil if none may go on. Lanes that belong
// to a run with a place go first. Then the principal with the fewest runs goes first. Among equals it is the one that
// was served longest ago. Within a principal, runs that were begun go first, and then the one that has waited longest.
//
// A text to embed takes no run's place. Each principal has at most one text under way.
func (s *scheduler) next(now time.Time, scarce bool) (l, gives *lane) {
	s.weigh()
	p := &s.places
	room := len(s.active) < s.info.BatchSize
	var run, text *lane
	for _, l := range s.waiting {
		of := p.shares[l.principal]
		switch {
		case scarce && l.seq == nil:
		case !l.embeds() && !l.isRun():
			if room && !l.yielded && (l.beside == nil || l.beside.running) {
				return l, nil
			}
		case l.yielded, of.full && !l.begun: // there is no room for it in the cache
		case l.embeds():
			if of.texts == 0 && s.before(l, text) {
				text = l
			}
		case s.before(l, run):
			run = l
		}
	}
	switch {
	case run != nil && room && p.runs < p.most:
		return run, nil
	case run != nil && s.mayTake(run, p.foremost, now):
		return run, p.foremost
	case text != nil && room && p.texts < p.most:
		return text, nil
	}
	for _, l := range s.waiting {
		of := p.shares[l.principal]
		if l.begun && l.isRun() && !l.yielded && of.first != nil && of.first.over(now) && !l.since.Equal(now) &&
			!(scarce && l.seq == nil) {
			return l, of.first
		}
	}
	return nil, nil
}

// before reports whether l goes on before other, which may be nil.
func (s *scheduler) before(l, other *lane) bool {
	switch {
	case other == nil:
		return true
	case l.principal == other.principal:
		return l.begun && !other.begun
	}
	p := &s.places
	mine, its := p.shares[l.principal].runs, p.shares[other.principal].runs
	return mine < its || mine == its && p.served[l.principal].age < p.served[other.principal].age
}

// mayTake reports whether a waiting run gets the place of another one.
func (s *scheduler) mayTake(l, from *lane, now time.Time) bool {
	if from == nil {
		return false
	}
	mine, its := s.places.shares[l.principal].runs, s.places.shares[from.principal].runs
	return its > mine+1 || its > mine && from.over(now) && !s.places.gave[l.principal]
}

// over reports whether others may have a run's place.
func (l *lane) over(now time.Time) bool { return l.again == 0 && !now.Before(l.until) }

// givesBefore reports whether a run gives its place before other, which may be nil.
func (l *lane) givesBefore(other *lane) bool {
	switch {
	case other == nil:
		return true
	case (l.again > 0) != (other.again > 0):
		return other.again > 0
	case !l.until.Equal(other.until):
		return l.until.Before(other.until)
	}
	return l.age > other.age
}

// weigh counts what each principal holds.
func (s *scheduler) weigh() {
	p := &s.places
	clear(p.shares)
	p.runs, p.texts, p.tokens, p.foremost = 0, 0, 0, nil
	for _, l := range s.active {
		of := p.shares[l.principal]
		of.tokens += len(l.tokens)
		p.tokens += len(l.tokens)
		switch {
		case l.embeds():
			of.texts++
			p.texts++
		case l.isRun():
			of.runs++
			p.runs++
			if l.givesBefore(of.first) {
				of.first = l
			}
		}
		p.shares[l.principal] = of
	}
	for _, l := range s.waiting {
		if l.seq == nil && !l.yielded {
			continue
		}
		of := p.shares[l.principal]
		if l.seq != nil {
			of.tokens += l.fed
		}
		if l.yielded && s.fits(l) {
			l.yielded = false
		}
		of.full = of.full || l.yielded
		p.shares[l.principal] = of
	}
	for _, l := range s.active {
		of := p.shares[l.principal]
		if of.first != l {
			continue
		}
		if p.foremost == nil || of.runs > p.shares[p.foremost.principal].runs ||
			of.runs == p.shares[p.foremost.principal].runs && l.givesBefore(p.foremost) {
			p.foremost = l
		}
	}
}

// fits reports whether the cache has room for a lane that gave its sequence up, and for half as much again, so that it
// does not soon have to give it up once more.
func (s *scheduler) fits(l *lane) bool {
	need := len(l.tokens) + len(l.tokens)/2
	if s.places.tokens > 0 && s.places.tokens+need > s.info.CacheTokens {
		return false
	}
	s.places.tokens += need
	return true
}

// underWay counts the runs and the texts to embed that are in the steps.
func (s *scheduler) underWay() (runs, texts int) {
	for _, l := range s.active {
		switch {
		case l.embeds():
			texts++
		case l.isRun():
			runs++
		}
	}
	return runs, texts
}

// pause takes a lane out of the steps, with the lane that belongs to it. They keep their sequences.
func (s *scheduler) pause(l *lane, now time.Time) {
	if l.isRun() {
		s.counts.pauses.Add(1)
		s.places.gave[l.principal] = true
		s.places.paused++
		if l.paused = true; l.pauses != nil {
			l.pauses(true)
		}
	}
	from := len(s.waiting)
	s.active = slices.DeleteFunc(s.active, func(other *lane) bool {
		if other != l && other.beside != l {
			return false
		}
		s.waiting = append(s.waiting, other)
		return true
	})
	for _, l := range s.waiting[from:] {
		l.running, l.begun, l.since = false, true, now
		s.stepping.pause(l)
	}
	s.places.changed = true
}

// resumed says that a paused run goes on, or ends.
func (s *scheduler) resumed(l *lane) {
	s.places.paused--
	if l.paused = false; l.pauses != nil {
		l.pauses(false)
	}
}

// caughtUp says that a lane has computed again what it had given up. Its slice begins now.
func (s *scheduler) caughtUp(l *lane) {
	now := time.Now()
	l.again, l.until = 0, now.Add(max(sliceTime, sliceWorth*now.Sub(l.since)))
	s.places.changed = true
}

// giveUp closes the sequence of a waiting lane, which computes its tokens again later.
func (s *scheduler) giveUp(l *lane) {
	s.cache.stray(l, true)
	s.cache.remember(l.principal, l.seq.Tokens(), l.origins, 0)
	l.seq.Close()
	l.again = max(l.again, l.fed)
	l.seq, l.fed = nil, 0
	clear(l.hidden)
}

// makeRoom frees cache. It evicts an idle sequence if there is one. Otherwise a lane of the principal with the most
// tokens gives its sequence up and computes it again later: one that is paused, or embeds, or else the youngest. A lane
// that is alone has reached its end.
func (s *scheduler) makeRoom() {
	if s.cache.evict() {
		return
	}
	s.weigh()
	var yields *lane
	for _, list := range [2][]*lane{s.waiting, s.active} {
		for _, l := range list {
			if l.seq != nil && s.yieldsBefore(l, yields) {
				yields = l
			}
		}
	}
	if s.holders() == 1 {
		yields.owner.full(yields)
		s.remove(yields)
		return
	}
	if yields.running {
		s.pause(yields, time.Now())
	}
	s.giveUp(yields)
	yields.yielded = true
}

// yieldsBefore reports whether a lane gives its sequence up before other, which may be nil.
func (s *scheduler) yieldsBefore(l, other *lane) bool {
	if other == nil {
		return true
	}
	mine, its := s.places.shares[l.principal].tokens, s.places.shares[other.principal].tokens
	switch {
	case mine != its:
		return mine > its
	case l.running != other.running:
		return other.running
	case l.embeds() != other.embeds():
		return l.embeds()
	}
	return l.age > other.age
}
