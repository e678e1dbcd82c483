package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
)

// job carries out a request: its only turn, or the turns that a loop chooses. It owns what has to end even if a step
// hangs or the reader leaves: the place in the queue, the events' way to the reader, the trace and the account.
//
// Turns run on the scheduler's goroutine, which must not wait for the reader. The other methods belong to the reader's
// goroutine.
type job struct {
	r *Runner
	// caller is the context of the caller. ctx ends with it, when the runner closes, and by cancel.
	caller, ctx context.Context
	cancel      func()
	// req is the request, with its seed drawn. After check its messages have the remembered reasoning.
	req      generation.Request
	observer generation.Observer
	checked  bool
	// decodes says that the form came from a schema of the whole object of strategy json, see separate.
	decodes bool
	// loop chooses the turns; nil if there is one.
	loop   generation.Loop
	ticket *ticket
	// warming computes the first masks of forms, until ctx ends.
	warming sync.WaitGroup
	// principal waits for the slots. prompt, when not nil, gets the prompt of the first turn, and nothing is generated.
	principal string
	prompt    *chattemplate.Prompt

	// yield passes an event to the reader and reports whether the reader wants more. left says that it does not.
	yield func(reasoning.Event, error) bool
	left  bool
	// early has the loop's events that came before Started, which has come when started is set.
	early   []reasoning.Event
	started bool
	tape    *tape // nil where the request is not traced

	// name is a name that no other job of the runner has, and random is drawn for this job. plain counts the
	// messages whose plain reasoning was left out.
	name   string
	random uint64
	plain  int
	// forgot says that the message that the answer goes on from had reasoning, which was left out.
	forgot bool
	// turns counts the turns that were driven. asked is when the first one was asked for.
	turns int
	// planned is a turn that was only planned; nil if there is none, or once its plan serves another turn.
	planned  *turn
	asked    time.Time
	accounts ledger
	// These belong to the scheduler's goroutine: the number of calls that were named and of stretches of reasoning, the
	// reasoning that is not sealed yet, whether sealing failed, and whether the reader was told that the summary is
	// settled.
	calls, stretches  int
	thoughts          []byte
	unsealed, settled bool
}

// newJob makes the job of a request.
func (r *Runner) newJob(ctx context.Context, req generation.Request, o generation.Observer) *job {
	j := &job{r: r, ctx: ctx, cancel: func() {}, req: req, observer: o, principal: req.Principal,
		name: fmt.Sprint("run ", r.runs.Add(1))}
	if req.Continues { // an answer that has begun cannot be handed to a specialist
		j.req.Delegation.Model = false
	}
	if j.loop, _ = generation.LoopOf(&j.req, r.cfg.Loops); j.loop != nil { // check returns the error
		j.random = r.cfg.Seed()
	}
	j.accounts = ledger{tell: o.Account, over: j.loop == nil}
	if req.Seed == nil {
		// JavaScript's numbers hold 53 bits, so any client can send this seed back.
		seed := r.cfg.Seed() >> 11
		j.req.Seed = &seed
	}
	j.req.Sampling.Seed = *j.req.Seed
	// The job may last a step longer than Generate, whose caller may then change the slices.
	j.req.Stop, j.req.Sampling.Bias = slices.Clone(req.Stop), slices.Clone(req.Sampling.Bias)
	return j
}

// check checks the request and restores its reasoning, once. It is heavy work.
func (j *job) check() error {
	if j.checked {
		return nil
	}
	if err := j.r.validate(&j.req); err != nil {
		return err
	}
	j.weighPlain()
	j.req.Messages = j.r.restore(&j.req)
	if err := j.goesOn(); err != nil {
		return err
	}
	j.separate()
	j.checked = true
	return nil
}

// weighPlain decides on reasoning that the caller sent as plain text.
//
// A caller that may not see all reasoning cannot send any. Otherwise the prompt could be made equal to one with hidden
// reasoning, and everything that the model then writes would tell whether it is. Of other callers, the reasoning
// before pending calls stays, because the model continues from it, and all of it with KeepReasoning. Calls are pending
// until an answer or a user's message follows.
func (j *job) weighPlain() {
	hidden, pending := capped(j.req.MaySee, j.req.Visibility), true
	for i, m := range slices.Backward(j.req.Messages) {
		pending = pending && (m.Role == chattemplate.ToolRole || chattemplate.IsPrompt(m.Role) || len(m.ToolCalls) > 0)
		if m.Reasoning == "" || m.Unseen&chattemplate.UnseenReasoning != 0 || !hidden && (pending || j.req.KeepReasoning) {
			continue
		}
		if j.plain++; j.plain == 1 {
			j.req.Messages = slices.Clone(j.req.Messages)
		}
		j.req.Messages[i].Reasoning = ""
	}
}

// carryOut carries out the request. The error is why it ended early; it is errLeft if the reader has left.
func (j *job) carryOut() error {
	defer j.leave()
	err := j.run()
	if err != nil && j.tape != nil {
		j.tape.close(err)
		j.idle() // leave waits for the end of the trace
	}
	return err
}

func (j *job) run() error {
	if j.loop != nil {
		return j.loop.Run(&j.req, j)
	}
	said, err := j.Do(func() (*generation.Turn, error) { return &generation.Turn{Request: j.req}, nil })
	if err != nil {
		return err
	}
	return said.Refused
}

// leave ends the job after its reader is done with it. It waits for the end of the trace and of the job's goroutines.
func (j *job) leave() {
	j.cancel()
	j.warming.Wait()
	j.accounts.close()
	if j.tape != nil {
		j.tape.close(context.Canceled)
		<-j.tape.ended
	}
}

// idle lets the reader write the events that it has, before a wait.
func (j *job) idle() {
	if !j.left {
		j.observer.Idle()
	}
}

var (
	// errLeft says that the reader wants no more events.
	errLeft = fmt.Errorf("the reader has left: %w", context.Canceled)
	// errRendered ends a job that only renders its first prompt.
	errRendered = errors.New("the prompt is rendered")
)

// Do implements generation.Turns.
func (j *job) Do(choose func() (*generation.Turn, error)) (*generation.Said, error) {
	if j.left {
		return nil, errLeft
	}
	if j.turns > 0 {
		j.idle() // the turn has to wait for its place and to read its prompt
	}
	var t *turn
	err := j.r.inSlot(j.ctx, j.principal, func() error {
		if err := j.check(); err != nil {
			return err
		}
		of, err := choose()
		if err != nil {
			return err
		}
		t = j.newTurn(of)
		if j.prompt == nil {
			return t.prepare()
		}
		if *j.prompt, err = t.render(); err == nil {
			err = t.open(j.prompt)
		}
		return err
	})
	switch {
	case err != nil && t != nil && j.ctx.Err() == nil && !errors.Is(err, generation.ErrClosed):
		return &generation.Said{Refused: err}, nil
	case err != nil:
		return nil, err
	case j.prompt != nil:
		return nil, errRendered
	}
	if err := j.drive(t); err != nil {
		return nil, err
	}
	return t.said(), nil
}

// drive runs a turn and reads its events until the turn is over or the reader leaves. When ctx ends, the scheduler
// ends the turn after the current step. If that step hangs, the turn is abandoned.
func (j *job) drive(t *turn) error {
	if j.turns++; j.turns == 1 {
		j.record(t)
	}
	j.accounts.begin()
	defer j.watch(t)()
	if err := j.r.sched.do(j.ctx, func() { j.begin(t) }); err != nil {
		t.end(nil, nil, err)
		return err
	}
	over := false
	defer func() {
		if !over && j.tape != nil {
			j.settle(t)
		}
	}()
	var events []reasoning.Event
	for {
		var err error
		if events, over, err = t.events.next(events, nil); over {
			return err
		}
		for i := range events {
			switch e := &events[i]; {
			case j.caller.Err() != nil: // a slow reader gets no events after its context has ended
				j.idle()
				return context.Cause(j.caller)
			case e.Kind == reasoning.Done:
				j.showDone(*e)
			default:
				j.show(*e)
			}
			if j.left {
				return errLeft
			}
		}
		if t.events.empty() {
			j.idle()
		}
	}
}

// settle ends a turn, so that nothing more of it comes into the trace.
func (j *job) settle(t *turn) {
	j.cancel()
	for end := false; !end; {
		_, end, _ = t.events.next(nil, nil)
	}
}

// begin starts a turn. It runs on the scheduler's goroutine.
func (j *job) begin(t *turn) {
	if broken := j.r.sched.broken; broken != nil {
		t.end(nil, nil, broken)
		return
	}
	if j.turns == 1 {
		t.send(reasoning.Event{Kind: reasoning.Started, Info: t.infoNow()})
		for _, e := range j.early {
			t.send(e)
		}
		j.started, j.early = true, nil
	}
	t.begin()
}

// passes records an event in the trace and reports whether the reader may see it. All events go through it: those of a
// turn on the scheduler's goroutine, and those of a loop between turns.
func (j *job) passes(e *reasoning.Event) bool {
	if j.tape != nil {
		j.tape.send(*e)
	}
	return j.req.Visibility.Shows(e) || j.req.Phases && j.req.Visibility.Marks(e)
}

func (j *job) show(e reasoning.Event) { j.left = j.left || !j.yield(e, nil) }

// showDone shows the last event. It waits for the end of the trace first, whose id is in the event.
func (j *job) showDone(done reasoning.Event) {
	if j.tape != nil {
		j.idle()
		if warning := j.tape.outcome(&done); warning != nil {
			j.show(*warning)
		}
	}
	j.show(done)
}

// watch abandons a turn that has not ended some time after ctx. It watches until stop is called.
func (j *job) watch(t *turn) (stop func()) {
	over := make(chan struct{})
	unhook := context.AfterFunc(j.ctx, func() {
		select {
		case <-over:
		case <-time.After(j.r.grace):
			j.abandon(t)
		}
	})
	return func() {
		unhook()
		close(over)
	}
}

// abandon ends a turn while the scheduler, which owns the rest of the turn, is stuck in a step. The usage that it
// reports is what other goroutines can know.
func (j *job) abandon(t *turn) {
	t.end(&reasoning.Usage{Prompt: t.prompt, Completion: int(t.generated.Load())}, nil, context.Cause(j.ctx))
}

// callIDs returns the function that names the calls of a turn by their number in the turn. The observer gets the number
// in the request instead.
func (j *job) callIDs() func(int) string {
	random := j.r.cfg.Seed()
	return func(i int) string {
		j.calls++
		return cmp.Or(j.observer.CallID(j.calls-1), fmt.Sprintf("call_%016x%02d", random, i))
	}
}

// maxStretches is the number of stretches of reasoning that are sealed one by one. A value takes some hundred bytes, so
// that those of many tiny stretches would be much larger than the text. The rest is sealed at the end of its turn.
const maxStretches = 64

// seal returns the event that carries the sealed reasoning which e ends, or a warning if it cannot be sealed. ok is
// false if there is nothing to carry. After a failure nothing more is sealed, because the rest would miss a part.
func (j *job) seal(e *reasoning.Event) (sealed reasoning.Event, ok bool) {
	if !j.req.Seal || j.unsealed || e.Segment != reasoning.Reasoning {
		return sealed, false
	}
	switch e.Kind {
	case reasoning.SegmentDelta:
		j.thoughts = append(j.thoughts, e.Text...)
	case reasoning.SegmentEnd:
		if j.stretches++; j.stretches <= maxStretches {
			return j.sealRest(e.Specialist)
		}
	}
	return sealed, false
}

// sealRest returns the event that carries the reasoning which is not sealed yet, of a specialist if it is not empty.
func (j *job) sealRest(specialist string) (sealed reasoning.Event, ok bool) {
	if len(j.thoughts) == 0 {
		return sealed, false
	}
	value, err := j.observer.Seal(string(j.thoughts))
	j.thoughts = j.thoughts[:0]
	if j.unsealed = err != nil; j.unsealed {
		return reasoning.Event{Kind: reasoning.Warning, Code: generation.CodeNotSealed,
			Text: "the reasoning could not be sealed"}, true
	}
	return reasoning.Event{Kind: reasoning.Sealed, Text: value, Specialist: specialist}, true
}
