package runner

import (
	"runtime"
	"time"

	"runner/backend"
)

// This file is about models whose sequences go at their own pace. Their steps do not wait: the inputs without a result
// are handed in again with the next step. So no lane waits for another one.

// dropPending removes the inputs that have no result yet from the step.
func (s *scheduler) dropPending() {
	if s.ready == nil {
		return
	}
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

// await waits until there is something to do: a result, a new run, a run that was cancelled, or the end.
func (s *scheduler) await() {
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
	case <-s.ready:
		s.gather()
	case f := <-s.inbox:
		f()
	case <-s.cancelled:
	case <-look: // a slice may be over
	case <-s.stop.Done():
	}
}

// gatherTime is how long the scheduler waits for the results of other lanes after the first one.
const gatherTime = time.Millisecond

// gather waits for the results of other lanes, so that one round handles many: engines send the tokens of a batch one
// after the other. The engine goes on meanwhile, so this delays a token and slows nothing down. A single lane does not
// wait.
func (s *scheduler) gather() {
	if len(s.active) < 2 {
		return
	}
	if wait := gatherTime - time.Since(s.gathered); wait > 0 {
		time.Sleep(wait)
	} else {
		runtime.Gosched()
	}
	s.gathered = time.Now()
}

// noteCancelled says that a lane was cancelled.
func (s *scheduler) noteCancelled() {
	s.anyCancelled.Store(true)
	select {
	case s.cancelled <- struct{}{}:
	default:
	}
}

// samplingChecker is a model that cannot sample in every way.
type samplingChecker interface {
	// CheckSampling returns a *backend.SettingError for the first setting that the model does not have.
	CheckSampling(p *backend.Sampling) error
}
