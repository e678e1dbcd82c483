package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/generation"
)

// smallRun is the maximum number of pending tokens that count as decoding: a sampled token with the tokens that a
// format forces after it.
const smallRun = 16

// scheduler steps the model for all lanes. Except for inbox and the atomic fields, everything in it belongs to the
// goroutine that runs loop.
type scheduler struct {
	model        backend.Model
	info         backend.Info
	prefillChunk int
	log          *slog.Logger
	counts       counts

	// inbox receives work to do between two steps, such as admissions.
	inbox chan func()
	stop  context.Context
	// stepping is how the model's steps go. sampled is the longest input after which a token can be sampled.
	stepping stepping
	sampled  int

	cache   prefixCache
	active  []*lane
	waiting []*lane
	places  places
	ages    uint64
	turn    int
	// pieces counts the pieces of texts that were embedded. pace decides when there is time for the next.
	pieces uint64
	pace   pace
	broken error
	// lost is broken, for other goroutines to read.
	lost atomic.Pointer[error]
	// bad counts the runs with unusable logits since the last good token.
	bad     int
	guesser guesser
	lengths lengths
	readers readers

	// targets is the number of prompt tokens and guesses that the next step can still score.
	targets int
	inputs  []backend.Input
	outputs []backend.Output
	inStep  []*lane

	// toSignal are the streams with events whose readers were not woken yet, and signalled is when that was last done.
	// wakeTime is how long a reader may wait for that while there are steps.
	toSignal  []*stream
	signalled time.Time
	wakeTime  time.Duration
}

func newScheduler(stop context.Context, model backend.Model, cfg *Config) *scheduler {
	info := model.Info()
	s := &scheduler{
		model: model, info: info, prefillChunk: min(cfg.PrefillChunk, info.BatchSize), log: cfg.Logger,
		inbox: make(chan func()), stop: stop, stepping: batched{}, sampled: info.BatchSize,
		cache:   prefixCache{model: model},
		places:  newPlaces(model, cfg),
		lengths: lengths{of: map[string]stretch{}},
		readers: readers{debts: map[string]float64{}},
		guesser: newGuesser(model, cfg),
		inputs:  make([]backend.Input, 0, info.Sequences),
		outputs: make([]backend.Output, info.Sequences),
	}
	if p, ok := model.(backend.Paced); ok && model.Capabilities().Paced {
		s.stepping, s.sampled, s.wakeTime = newPaced(p), smallRun, pacedWakeTime
		s.prefillChunk, s.cache.gone, s.cache.mixes = info.BatchSize, cfg.Crossings, model.Capabilities().MixesOwners
		if s.cache.gone == nil {
			s.cache.gone = NewCrossings()
		}
	}
	return s
}

// loop runs until stop ends. Then it fails the remaining lanes and frees all sequences.
func (s *scheduler) loop() {
	for {
		if len(s.active) == 0 && len(s.waiting) == 0 {
			s.wakeReaders()
			select {
			case f := <-s.inbox:
				f()
			case <-s.stop.Done():
			}
		}
		for drained := false; !drained; {
			select {
			case f := <-s.inbox:
				f()
			default:
				drained = true
			}
		}
		if s.stop.Err() != nil {
			s.failAll(generation.ErrClosed)
			s.wakeReaders()
			s.cache.close()
			return
		}
		if s.stepping.look() {
			s.dropCancelled()
		}
		s.admit()
		if time.Since(s.signalled) >= s.wakeTime {
			s.wakeReaders() // the step may take long
		}
		s.step()
		s.counts.note(s)
	}
}

// toWake says that a reader has to be woken. Readers are woken together after a step: then one of them takes over the
// processor from the other, and fewer threads are woken. With a model whose steps do not wait, this is done before the
// scheduler waits, so that a reader gets all events that there are.
func (s *scheduler) toWake(of *stream) {
	if !of.due {
		of.due = true
		s.toSignal = append(s.toSignal, of)
	}
}

// wakeReaders wakes the readers of toSignal.
func (s *scheduler) wakeReaders() {
	for i, of := range s.toSignal {
		of.due, s.toSignal[i] = false, nil
		of.signal()
	}
	s.toSignal, s.signalled = s.toSignal[:0], time.Now()
}

// do runs f between two steps and waits for it. If the scheduler has stopped, it returns ErrClosed. If ctx ends first,
// it returns the cause. In both cases f does not run.
func (s *scheduler) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case s.inbox <- func() { f(); close(done) }:
		<-done
		return nil
	case <-s.stop.Done():
		return generation.ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// enter queues a lane that belongs to no turn.
func (s *scheduler) enter(l *lane) error {
	var broken error
	err := s.do(l.ctx, func() {
		if broken = s.broken; broken == nil {
			s.add(l, false)
		}
	})
	return cmp.Or(err, broken)
}

// add queues a lane. A part of a run that is under way goes first, any other lane last. add must be called on the
// scheduler's goroutine.
func (s *scheduler) add(l *lane, first bool) {
	s.ages++
	l.unwatch = s.stepping.watch(l)
	l.age, l.begun, s.places.changed = s.ages, first, true
	if first {
		s.waiting = slices.Insert(s.waiting, 0, l)
		return
	}
	s.waiting = append(s.waiting, l)
}

// remove removes a lane. Its sequence goes back to the cache, unless it embeds: few texts have a common beginning.
func (s *scheduler) remove(l *lane) {
	l.done, l.running, s.places.changed = true, false, true
	if l.unwatch != nil {
		l.unwatch()
	}
	if l.paused {
		s.resumed(l)
	}
	if i := slices.Index(s.active, l); i >= 0 {
		s.active = slices.Delete(s.active, i, i+1)
	}
	if i := slices.Index(s.waiting, l); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	if l.embeds() && l.seq != nil {
		l.seq.Close()
	} else {
		s.cache.release(l)
	}
	l.seq = nil
}

func (s *scheduler) fail(l *lane, err error) {
	s.remove(l)
	l.owner.failed(l, err)
}

func (s *scheduler) failAll(err error) {
	for len(s.active) > 0 {
		s.fail(s.active[0], err)
	}
	for len(s.waiting) > 0 {
		s.fail(s.waiting[0], err)
	}
}

func (s *scheduler) dropCancelled() {
	for _, list := range [2]*[]*lane{&s.active, &s.waiting} {
		for i := 0; i < len(*list); {
			l := (*list)[i]
			if l.ctx.Err() == nil {
				i++
				continue
			}
			s.fail(l, context.Cause(l.ctx))
			i = 0
		}
	}
}

// fill builds the next step's inputs: first the lanes that decode, then prefill chunks of the other lanes.
// Texts to embed have their own steps. Guesses get what room is left.
func (s *scheduler) fill() {
	s.inputs, s.inStep, s.targets = s.inputs[:0], s.inStep[:0], backend.MaxTargets
	room := s.info.BatchSize
	for _, l := range s.active {
		l.placed = l.awaits != nil && !l.awaits.Arrived()
	}
	s.leaveOut()
	for _, l := range s.active {
		if p := l.pending(); p > 0 && p <= min(smallRun, room) && !l.embeds() && !l.placed {
			room -= s.put(l, room)
		}
	}
	if len(s.inputs) > 0 {
		room = min(room, s.prefillChunk)
	}
	s.readPrompts(room)
	s.guessAll()
}

func (s *scheduler) put(l *lane, room int) int {
	n := min(l.pending(), room)
	if n == l.pending() && (l.unready || n > s.sampled) {
		// Feed the last token only when the next one can be sampled. Where inputs can be pending, a long one would take the
		// room of others.
		n--
	}
	targets := l.scoring.targets(l.tokens, l.fed, n)
	if len(targets) > s.targets {
		targets, n = targets[:s.targets], s.targets
	}
	if n == 0 {
		return 0
	}
	in := backend.Input{Sequence: l.seq, Tokens: l.tokens[l.fed : l.fed+n], Hidden: l.hidden, Owner: l.principal,
		Apart: l.apart}
	if len(targets) > 0 {
		s.targets -= len(targets)
		in.Targets, in.TargetTop = targets, l.scoring.top
	}
	if l.fed+n == len(l.tokens) && !l.embeds() && !l.silent {
		in.Sampling, in.Constraint = &l.sampling, l.constraint
	}
	s.inputs = append(s.inputs, in)
	s.inStep = append(s.inStep, l)
	l.placed = true
	return n
}

// step runs one forward pass over the lanes that generate. If it is time, it then runs one over a piece of a text to
// embed.
func (s *scheduler) step() {
	for i := 0; i < len(s.active); {
		l := s.active[i]
		if len(l.tokens) <= s.info.ContextSize {
			i++
			continue
		}
		l.owner.full(l)
		s.remove(l)
	}
	s.prepare()
	s.fill()
	runs, texts := s.underWay()
	took := s.forward()
	if l := s.nextText(); l != nil {
		if n := s.pace.after(took, runs, texts); n > 0 {
			s.inputs, s.inStep = s.inputs[:0], s.inStep[:0]
			s.pieces++
			l.piece = s.pieces
			n = s.put(l, min(n, s.info.BatchSize))
			s.pace.took(n, s.forward())
		}
	}
}

// nextText returns the embedding lane that was served longest ago, or nil.
func (s *scheduler) nextText() (next *lane) {
	for _, l := range s.active {
		if l.embeds() && (next == nil || l.piece < next.piece) {
			next = l
		}
	}
	return next
}

// forward runs one forward pass over the inputs, passes the outputs to the lanes, and returns how long the pass took.
func (s *scheduler) forward() (took time.Duration) {
	if len(s.inputs) == 0 {
		s.stepping.await(s)
		return 0
	}
	began := time.Now()
	if err := s.model.Step(s.stepping.context(s), s.inputs, s.outputs); err != nil {
		s.stepFailed(err)
		return time.Since(began)
	}
	took = time.Since(began)
	if s.dropPending(); len(s.inputs) == 0 {
		s.stepping.await(s)
		return took
	}
	s.counts.stepped(s)
	s.noteCost(took)
	s.stepping.learn(s, took)
	for i, l := range s.inStep {
		in, out := &s.inputs[i], &s.outputs[i]
		if len(in.Targets) > 0 {
			l.scoring.note(in.Targets, l.fed+1, out.Scores)
		}
		l.fed += len(in.Tokens)
		s.cache.stray(l, false)
		if l.again > 0 && l.fed >= l.again {
			s.caughtUp(l)
		}
		if l.fed == len(l.tokens) {
			if in.Sampling != nil {
				s.bad = 0
			}
			if err := s.taken(l, in, out); err != nil {
				s.stepFailed(err)
				return took
			}
		}
	}
	for _, l := range s.inStep {
		if l.done {
			s.remove(l)
		}
	}
	return took
}

func (s *scheduler) stepFailed(err error) {
	var in *backend.InputError
	switch {
	case errors.Is(err, backend.ErrCacheFull):
		if !s.guesser.yield(s.inputs) {
			s.makeRoom()
		}
	case errors.As(err, &in) && in.Index >= 0 && in.Index < len(s.inStep):
		l := s.inStep[in.Index]
		if errors.Is(err, backend.ErrContextFull) {
			l.owner.full(l)
			s.remove(l)
			return
		}
		// Update the count before the run learns of its end: its caller may ask at once whether the model is broken.
		broke := s.noteBad(in.Err)
		s.fail(l, nothingLeft(l, in.Err))
		if broke {
			s.failAll(s.broken)
		}
	case s.breaks(err):
		s.log.Error("the engine failed", "lanes", len(s.inStep), "error", err)
		s.failAll(err)
	case len(s.inStep) == 1 && s.inStep[0].ctx.Err() != nil:
		s.fail(s.inStep[0], context.Cause(s.inStep[0].ctx))
	case s.stop.Err() != nil:
	default:
		s.log.Error("step failed", "lanes", len(s.inStep), "error", err)
		s.failAll(err)
	}
}

// breaks reports whether err means that the model can do no more steps, and records it if so.
func (s *scheduler) breaks(err error) bool {
	if !errors.Is(err, backend.ErrBroken) && !errors.Is(err, backend.ErrClosed) {
		return false
	}
	s.broken = err
	s.lost.Store(&err)
	return true
}

// mostBad is how many runs in a row may have unusable logits before the model counts as broken. A single run may fail
// because of its prompt.
const mostBad = 3

// noteBad counts a run that failed because of unusable logits. It reports whether the model is now broken. The caller
// then fails the other runs.
func (s *scheduler) noteBad(err error) (broke bool) {
	if !errors.Is(err, backend.ErrBadLogits) {
		return false
	}
	if s.bad++; s.bad < mostBad || s.broken != nil {
		return false
	}
	err = fmt.Errorf("%w: %d runs in a row: %w", backend.ErrBroken, s.bad, err)
	s.log.Error("the engine failed", "error", err)
	return s.breaks(err)
}

// nothingLeft returns a *RequestError if err means that no token was allowed and the request's bias can be the cause.
// Otherwise it returns err.
func nothingLeft(l *lane, err error) error {
	if !errors.Is(err, backend.ErrNothingAllowed) || len(l.sampling.Bias) == 0 {
		return err
	}
	return &generation.RequestError{Field: "Sampling", Setting: "Bias", Advice: "forbid fewer tokens",
		Err: errors.New("its bias forbids every token that can come next")}
}
