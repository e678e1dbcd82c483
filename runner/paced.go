package runner

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"runner/backend"
)

// stepping is how the steps of a model go. Most models compute the inputs of a step together. An engine that makes the
// steps itself lets each sequence go at its own pace.
type stepping interface {
	// watch is called with each lane that comes. It returns what to call when the lane goes, or nil.
	watch(l *lane) (unwatch func() bool)
	// look begins a round, which sees all results that have come. It reports whether a lane may have been cancelled.
	look() (cancelled bool)
	// context is what interrupts the step of the lanes in inStep.
	context(s *scheduler) context.Context
	// learn is called with a step that had results and the time that it took.
	learn(s *scheduler, took time.Duration)
	// await waits until there is something to do after a round that had no result.
	await(s *scheduler)
	// pause is called with a lane that is taken out of the steps and keeps its sequence.
	pause(l *lane)
}

// batched is the stepping of a model whose step waits for all its results.
type batched struct{}

func (batched) watch(*lane) (unwatch func() bool) { return nil }

func (batched) look() (cancelled bool) { return true }

// context lets a lane that is alone be interrupted inside the step. With several lanes, cancelling one must not disturb
// the others.
func (batched) context(s *scheduler) context.Context {
	if len(s.inStep) == 1 {
		return s.inStep[0].ctx
	}
	return s.stop
}

func (batched) learn(s *scheduler, took time.Duration) {
	s.lengths.note(s.inputs, took)
	s.noteReading(took)
}

func (batched) await(*scheduler) {}

func (batched) pause(*lane) {}

// paced is the stepping of a [backend.Paced] model. Its steps do not wait: inputs without a result are handed in again
// with the next step. So no lane waits for another one.
type paced struct {
	ready <-chan struct{}
	// cancelled receives a value when a lane was cancelled, and anyCancelled is set before.
	cancelled    chan struct{}
	anyCancelled atomic.Bool
	// gathered is when the results of several lanes were last waited for.
	gathered time.Time
}

func newPaced(model backend.Paced) *paced {
	return &paced{ready: model.Ready(), cancelled: make(chan struct{}, 1)}
}

const (
	// pacedWakeTime is how long a reader may wait for its event while there are results for others. Then it gets all
	// events that there are.
	pacedWakeTime = 2 * time.Millisecond
	// gatherTime is how long the scheduler waits for the results of other lanes after the first one.
	gatherTime = time.Millisecond
)

func (p *paced) watch(l *lane) (unwatch func() bool) {
	return context.AfterFunc(l.ctx, func() {
		p.anyCancelled.Store(true)
		select {
		case p.cancelled <- struct{}{}:
		default:
		}
	})
}

func (p *paced) look() (cancelled bool) {
	select {
	case <-p.ready:
	default:
	}
	return p.anyCancelled.Swap(false)
}

func (p *paced) context(s *scheduler) context.Context { return s.stop }

// learn learns nothing, because the engine has its own steps.
func (p *paced) learn(*scheduler, time.Duration) {}

// await waits for a result, a new run, a run that was cancelled, or the end.
func (p *paced) await(s *scheduler) {
	if len(s.active) == 0 {
		return
	}
	s.wakeReaders()
	for _, l := range s.active {
		if l.unready {
			return // its constraint has to go on
		}
	}
	var look <-chan time.Time
	if len(s.waiting) > 0 {
		t := time.NewTimer(lookTime)
		defer t.Stop()
		look = t.C
	}
	select {
	case <-p.ready:
		if len(s.active) > 1 {
			p.gather()
		}
	case f := <-s.inbox:
		f()
	case <-p.cancelled:
	case <-look: // a slice may be over
	case <-s.stop.Done():
	}
}

// gather waits for the results of other lanes, so that one round handles many: engines send the tokens of a batch one
// after the other. The engine goes on meanwhile, so this delays a token and slows nothing down.
func (p *paced) gather() {
	if wait := gatherTime - time.Since(p.gathered); wait > 0 {
		time.Sleep(wait)
	} else {
		runtime.Gosched()
	}
	p.gathered = time.Now()
}

// pause stops the engine, which starts again when the lane goes on.
func (p *paced) pause(l *lane) {
	if q, ok := l.seq.(backend.Pausing); ok {
		q.Pause()
		l.awaits, l.again, l.stopped = nil, len(l.tokens), true
	}
}

// dropPending removes the inputs that have no result yet from the step.
func (s *scheduler) dropPending() {
	kept := 0
	for i := range s.inputs {
		l := s.inStep[i]
		if l.awaits = nil; s.outputs[i].Pending {
			l.awaits, _ = l.seq.(backend.Arriving)
			continue
		}
		s.inputs[kept], s.inStep[kept] = s.inputs[i], s.inStep[i]
		s.outputs[kept], s.outputs[i] = s.outputs[i], s.outputs[kept] // both keep their memory
		kept++
	}
	s.inputs, s.inStep = s.inputs[:kept], s.inStep[:kept]
}

// samplingChecker is a model that cannot sample in every way.
type samplingChecker interface {
	// CheckSampling returns a *backend.SettingError for the first setting that the model does not have.
	CheckSampling(p *backend.Sampling) error
}
