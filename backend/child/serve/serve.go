// Package serve is the engine's end of the protocol in docs/engine-protocol.md, for engines in Go.
//
// [Run] reads requests from the runner and carries them out on a backend.Model. It ends when the runner is gone. It
// is the whole work of a process: nothing else should run in it.
//
// One goroutine reads frames, so that cancellations, masks and texts to tokenize are seen during a step. Another
// carries out the requests, one at a time. A step allocates nothing once its buffers have grown.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/backend/child/protocol"
)

// Engine is what a process offers.
type Engine struct {
	// Name and Version name the engine.
	Name, Version string
	// About describes it further.
	About protocol.About
	// Open loads a model.
	Open func(ctx context.Context, path string, cfg backend.Config) (backend.Model, error)
	// Progress returns a count that grows while a step computes, after each layer at least that the CPU computes. It is
	// called from another goroutine. Nil means that steps report no progress before they end.
	Progress func() uint64
}

// every is how often a long step reports its progress.
const every = 500 * time.Millisecond

// Run answers the frames of in on out until in ends, which is no error. Other errors mean that the runner broke the
// protocol or is gone.
func Run(in io.Reader, out io.Writer, e Engine) error {
	life, end := context.WithCancel(context.Background())
	s := &server{engine: e, in: protocol.NewReader(in), out: protocol.NewWriter(out), life: life,
		requests: make(chan protocol.Kind)}
	s.renew()
	s.tasks.Go(s.work)
	if e.Progress != nil {
		s.tasks.Go(s.report)
	}
	err := s.read()
	end()
	close(s.requests)
	s.tasks.Wait()
	if s.model != nil {
		_ = s.model.Close()
	}
	return err
}

// server serves one conversation.
type server struct {
	engine Engine
	in     *protocol.Reader
	out    *protocol.Writer
	life   context.Context // it ends when the runner is gone
	tasks  sync.WaitGroup  // of all goroutines

	// requests passes requests from the reader to the worker. The worker owns step, frame and model while busy is set.
	requests chan protocol.Kind
	busy     atomic.Bool
	frame    protocol.Frame // of a request other than a step, copied
	step     protocol.Step
	masked   []mask         // of the step's inputs and their drafts, in order
	masks    []backend.Mask // of masked
	owners   []int          // the input of each mask of the step
	awaited  int            // number of masks that have come

	mu     sync.Mutex      // guards ctx and cancel
	ctx    context.Context // of the request under way, or the next one
	cancel context.CancelFunc

	file      inherited
	model     backend.Model // set by the worker before it answers load
	most      atomic.Int32  // number of its sequences
	sequences []backend.Sequence
	inputs    []backend.Input
	outputs   []backend.Output
	drafts    []backend.Draft // of the inputs
	hidden    [][]float64
	logits    [][]float32
	head, raw []byte
}

// misplaced is the error about frames that come when they may not.
func misplaced(k protocol.Kind) error {
	return fmt.Errorf("%w: %v came out of place", protocol.ErrFrame, k)
}

// read passes frames on until the end.
func (s *server) read() error {
	for {
		f, err := s.in.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		switch f.Kind {
		case protocol.KindCancel:
			s.mu.Lock()
			s.cancel()
			s.mu.Unlock()
		case protocol.KindMasks:
			err = s.takeMask(f)
		case protocol.KindTokenize:
			err = s.tokenize(f)
		case protocol.KindShutdown:
			return nil
		default:
			if f.Kind > protocol.KindShutdown || s.busy.Load() {
				return misplaced(f.Kind)
			}
			err = s.request(f)
		}
		if err != nil {
			return err
		}
	}
}

// request hands a request to the worker.
func (s *server) request(f protocol.Frame) error {
	if f.Kind == protocol.KindStep {
		if s.most.Load() == 0 {
			return misplaced(f.Kind)
		}
		if err := s.step.Decode(f, int(s.most.Load())); err != nil {
			return err
		}
		s.prepareMasks()
	} else {
		s.frame.Head = append(s.frame.Head[:0], f.Head...)
	}
	s.busy.Store(true)
	s.requests <- f.Kind
	return nil
}

// work carries out requests.
func (s *server) work() {
	for kind := range s.requests {
		s.carryOut(kind)
	}
}

// carryOut answers a request. busy is cleared before the answer is written, because the next request may follow at
// once.
func (s *server) carryOut(kind protocol.Kind) {
	var answer protocol.Frame
	var err error
	switch kind {
	case protocol.KindHello:
		answer, err = s.hello()
	case protocol.KindLoad:
		answer, err = s.load()
	case protocol.KindStep:
		answer, err = s.carryOutStep()
	case protocol.KindShare:
		err = errors.New("this engine samples and needs no shared file")
	default:
		answer, err = s.sequence(kind)
	}
	if err != nil {
		answer, _ = jsonFrame(protocol.KindError, protocol.ErrorOf(err)) // it has only numbers and texts
	}
	s.renew()
	s.busy.Store(false)
	_ = s.out.Write(answer) // without a reader the frames end too
}

// report sends progress while a step computes.
func (s *server) report() {
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := uint64(0)
	for {
		select {
		case <-s.life.Done():
			return
		case <-tick.C:
		}
		if n := s.engine.Progress(); s.busy.Load() && n != last {
			last = n
			_ = s.out.WriteJSON(protocol.KindProgress, protocol.Progress{Count: n}, nil)
		}
	}
}
