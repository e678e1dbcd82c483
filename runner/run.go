package runner

import (
	"context"
	"fmt"
	"time"

	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
)

// run carries out one request, in one turn of the model or, with a policy, in several. It owns what a request has
// once: the reader and what the reader may see, the trace, the seal, the account, the limits, the numbers of calls.
//
// A turn sends its events on the scheduler's goroutine, which must not wait for the reader. Without a policy they are
// traced and filtered there, so that what is hidden costs the reader nothing. With one they all go to the reader's
// goroutine first, where the policy makes the run's events of them.
type run struct {
	r *Runner
	// caller is what Generate was given. ctx ends with it, with the runner, and by cancel when the reader leaves.
	caller, ctx context.Context
	cancel      func()
	// req is the request, with its seed drawn.
	req    generation.Request
	policy *delegating // nil in a run of one turn
	ticket *ticket

	// yield shows an event to the reader and reports whether the reader wants more. left says that it does not.
	yield func(reasoning.Event) bool
	left  bool
	// turn is the one under way, and events are its.
	turn   *turn
	events *stream
	tape   *tape // nil where the run is not traced

	// turns counts those that were begun. sum is what those that are over add up to.
	turns    int
	sum      reasoning.Result
	accounts ledger
	calls    int // that were named. It belongs to the scheduler's goroutine.
}

// newRun makes the run of a request. ctx is for all of it.
func (r *Runner) newRun(ctx context.Context, req generation.Request) *run {
	n := &run{r: r, ctx: ctx, req: req}
	n.accounts = ledger{tell: req.Account, over: !req.Delegates()}
	if req.Delegates() {
		n.policy = &delegating{run: n, random: r.cfg.Seed()}
	}
	if req.Seed == nil {
		// JavaScript's numbers hold 53 bits, so a client can send back the seed that it was told.
		seed := r.cfg.Seed() >> 11
		n.req.Seed = &seed
	}
	return n
}

// carryOut takes the run's turns. The error is what ended them early, errLeft where the reader has left.
func (n *run) carryOut() (err error) {
	defer n.leave()
	t := n.newTurn(n.req)
	if n.policy != nil {
		err = n.r.inSlot(n.ctx, n.req.Principal, func() (err error) {
			t, err = n.policy.first()
			return err
		})
	}
	for err == nil && t != nil {
		t, err = n.take(t)
	}
	if n.policy != nil {
		n.policy.end(err)
		n.endTrace(err)
	}
	return err
}

// take carries out a turn and returns the next, nil after the last.
func (n *run) take(t *turn) (next *turn, err error) {
	err = n.r.inSlot(n.ctx, n.req.Principal, t.prepare)
	if err != nil && n.policy != nil {
		return n.policy.instead(t, err)
	}
	if err == nil {
		err = n.drive(t)
	}
	if err != nil || n.policy == nil {
		return nil, err
	}
	return n.policy.next(t)
}

// remaining is the run's request with the limits that the turns so far have left.
func (n *run) remaining() generation.Request {
	q := n.req
	if q.MaxTokens > 0 {
		q.MaxTokens = max(1, q.MaxTokens-n.sum.Usage.Completion)
	}
	if q.Budget > 0 {
		q.Budget = max(1, q.Budget-n.sum.Usage.Reasoning)
	}
	return q
}

// errLeft says that nobody reads a run's events any more.
var errLeft = fmt.Errorf("the reader has left: %w", context.Canceled)

// drive carries out a turn and shows its events until it is over or the reader leaves. When ctx ends, the scheduler
// ends the turn after the step under way; if that hangs, the turn ends without it.
func (n *run) drive(t *turn) error {
	n.turn, n.events = t, newStream()
	if n.turns++; n.turns == 1 {
		n.record(t)
	}
	n.accounts.begin()
	defer n.watch(t)()
	if err := n.r.sched.do(n.ctx, func() { n.begin(t) }); err != nil {
		n.end(t, nil, nil, err)
		return err
	}
	var events []reasoning.Event
	for {
		var end bool
		var err error
		events, end, err = n.events.next(events, nil)
		for i := range events {
			if err := n.read(&events[i]); err != nil {
				return err
			}
		}
		if end {
			return err
		}
	}
}

// begin starts a turn, on the scheduler's goroutine.
func (n *run) begin(t *turn) {
	if broken := n.r.sched.broken; broken != nil {
		n.end(t, nil, nil, broken)
		return
	}
	if n.turns == 1 {
		n.send(reasoning.Event{Kind: reasoning.Started, Info: t.infoNow()})
	}
	t.begin()
}

// send takes an event of the turn under way, on the scheduler's goroutine.
func (n *run) send(e reasoning.Event) {
	if n.policy != nil || n.passes(&e) {
		n.events.send(e)
	}
}

// passes traces an event and reports whether the reader may see it.
func (n *run) passes(e *reasoning.Event) bool {
	if n.tape != nil {
		n.tape.send(*e)
	}
	return n.req.Visibility.Shows(e) || n.req.Phases && n.req.Visibility.Marks(e)
}

// read takes the next event from the turn under way, on the reader's goroutine.
func (n *run) read(e *reasoning.Event) error {
	switch {
	case n.policy != nil:
		n.policy.take(*e)
	case n.caller.Err() != nil:
		return context.Cause(n.caller) // the run may be over already, and its reader slow
	case e.Kind == reasoning.Done:
		n.showDone(*e)
	default:
		n.show(*e)
	}
	if n.left {
		return errLeft
	}
	return nil
}

// emit hands an event of the policy's to the trace and to the reader.
func (n *run) emit(e reasoning.Event) {
	if n.passes(&e) {
		n.show(e)
	}
}

func (n *run) show(e reasoning.Event) { n.left = n.left || !n.yield(e) }

// showDone shows the last event, when the trace has ended.
func (n *run) showDone(done reasoning.Event) {
	if n.tape != nil {
		if warning := n.tape.outcome(&done); warning != nil {
			n.show(*warning)
		}
	}
	n.show(done)
}

// end ends a turn with its result or an error; used is nil if it was not begun. Only the first call counts: the
// scheduler may come back to a turn that was abandoned.
func (n *run) end(t *turn, used *reasoning.Usage, result *reasoning.Result, err error) {
	if !t.ended.CompareAndSwap(false, true) {
		return
	}
	n.accounts.end(used)
	if result != nil {
		n.send(reasoning.Event{Kind: reasoning.Done, Result: result})
	}
	if n.policy == nil {
		n.endTrace(err)
		n.ticket.over()
	}
	n.events.close(err)
}

// watch ends a turn some time after ctx when nothing else has, until it is told to stop.
func (n *run) watch(t *turn) (stop func()) {
	over := make(chan struct{})
	unhook := context.AfterFunc(n.ctx, func() {
		select {
		case <-over:
		case <-time.After(n.r.grace):
			n.abandon(t)
		}
	})
	return func() {
		unhook()
		close(over)
	}
}

// abandon ends a turn while the scheduler, which owns the rest of it, is stuck in a step. What it has used is told as
// far as it is known outside.
func (n *run) abandon(t *turn) {
	used := reasoning.Usage{Prompt: t.prompt}
	if n.req.Generated != nil {
		used.Completion = max(0, int(n.req.Generated.Load())-n.accounts.generated())
	}
	n.end(t, &used, nil, context.Cause(n.ctx))
}

// leave waits until the run is over for its trace and its account, as it is for its reader.
func (n *run) leave() {
	n.cancel()
	n.accounts.close()
	if n.tape == nil {
		return
	}
	if n.policy != nil {
		n.endTrace(context.Canceled) // nothing else writes to it
	} else {
		defer n.watch(n.turn)()
	}
	<-n.tape.ended
}

func (n *run) endTrace(why error) {
	if n.tape != nil {
		n.tape.close(why)
	}
}

// done ends a run of several turns with its result.
func (n *run) done(result *reasoning.Result) error {
	done := reasoning.Event{Kind: reasoning.Done, Result: result}
	if n.tape != nil {
		n.tape.send(done)
		n.tape.close(nil)
	}
	n.showDone(done)
	if n.left {
		return errLeft
	}
	return nil
}

// finished takes the end of a turn's own text, which only a summary may follow, on the scheduler's goroutine.
func (n *run) finished(t *turn) {
	thoughts := t.output.thoughts.String()
	if n.policy == nil {
		t.result.Sealed = n.seal(thoughts, len(t.output.calls) > 0, n.send)
	}
	if !n.remembers(t) {
		return
	}
	for i := range t.output.calls {
		call := &t.output.calls[i]
		at := n.r.moment(&n.req, lastOf(n.req.Messages), call)
		n.r.cfg.CallMemory.keep(callKey{n.req.Principal, call.ID}, at, thoughts)
	}
}

// remembers reports whether what leads to a turn's calls is to be remembered.
func (n *run) remembers(t *turn) bool {
	return n.r.cfg.CallMemory != nil && !n.req.Unremembered && len(t.req.Tools) > 0
}

// seal hands the run's reasoning to who may seal it. It warns where that fails.
func (n *run) seal(thoughts string, calls bool, warn func(reasoning.Event)) (sealed string) {
	if n.req.Seal == nil || thoughts == "" {
		return ""
	}
	sealed, err := n.req.Seal(thoughts, calls)
	if err != nil {
		warn(warning(generation.CodeNotSealed, "the reasoning could not be sealed"))
		return ""
	}
	return sealed
}

// answers reports whether the run answers calls of a function itself.
func (n *run) answers(name string) bool { return n.policy != nil && delegation.IsTool(name) }

// generated counts a token that a turn has generated.
func (n *run) generated() {
	if n.req.Generated != nil {
		n.req.Generated.Add(1)
	}
}

// callIDs returns what names the calls of a turn, which counts its own from 0. The names of a client's making count
// the calls of all turns.
func (n *run) callIDs() func(int) string {
	if n.req.CallID != nil {
		return func(int) string {
			n.calls++
			return n.req.CallID(n.calls - 1)
		}
	}
	random := n.r.cfg.Seed()
	return func(i int) string { return fmt.Sprintf("call_%016x%02d", random, i) }
}
