package runner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
)

// run carries out one request. It takes one turn of the model or several, as its policy says. The run owns everything
// that a request has once: the reader and the visibility filter, the trace, the seal, the usage, the limits and the
// numbers of the calls. A turn only sends its events to its run.
//
// Turns run on the scheduler's goroutine, which must not wait for the reader.
type run struct {
	r *Runner
	// caller is the context of the caller. ctx ends with it, when the runner closes, and by cancel.
	caller, ctx context.Context
	cancel      func()
	// req is the request, with its seed drawn. After first its messages have the remembered reasoning.
	req    generation.Request
	policy policy
	// decodes says that the form came from a schema of the whole object of strategy json, see separate.
	decodes bool
	ticket  *ticket

	// yield passes an event to the reader and reports whether the reader wants more. left says that it does not.
	yield func(reasoning.Event, error) bool
	left  bool
	// turn is the current turn. events carries its events to the reader's goroutine.
	turn   *turn
	events *stream
	tape   *tape // nil where the run is not traced

	// name is a name that no other run of the runner has. plain counts the messages whose plain reasoning was left out.
	name  string
	plain int
	// turns counts the turns that were driven. sum adds up the results of those that are over.
	turns    int
	sum      reasoning.Result
	accounts ledger
	calls    int // number of calls that were named; belongs to the scheduler's goroutine
}

// newRun makes the run of a request.
func (r *Runner) newRun(ctx context.Context, req generation.Request) *run {
	n := &run{r: r, ctx: ctx, req: req, name: fmt.Sprint("run ", r.runs.Add(1))}
	n.policy = single{n}
	n.accounts = ledger{tell: req.Account, over: !req.Delegates()}
	if req.Delegates() {
		n.policy = &delegating{run: n, random: r.cfg.Seed()}
	}
	if req.Seed == nil {
		// JavaScript's numbers hold 53 bits, so any client can send this seed back.
		seed := r.cfg.Seed() >> 11
		n.req.Seed = &seed
	}
	n.req.Sampling.Seed = *n.req.Seed
	// The run may last a step longer than Generate, whose caller may then change the slices.
	n.req.Stop, n.req.Sampling.Bias = slices.Clone(n.req.Stop), slices.Clone(n.req.Sampling.Bias)
	return n
}

// first checks the request and returns the first turn. It is heavy work.
func (n *run) first() (*turn, error) {
	if err := n.r.Validate(&n.req); err != nil {
		return nil, err
	}
	n.dropPlain()
	n.req.Messages = n.r.restore(&n.req)
	n.separate()
	return n.policy.first()
}

// dropPlain leaves out reasoning that the caller sent as plain text, unless the caller may see all reasoning. Otherwise
// the prompt could be made equal to one with hidden reasoning, and everything that the model then writes would tell
// whether it is.
func (n *run) dropPlain() {
	if !capped(n.req.MaySee, n.req.Visibility) {
		return
	}
	for i := range n.req.Messages {
		if m := &n.req.Messages[i]; m.Reasoning != "" && m.Unseen&chattemplate.UnseenReasoning == 0 {
			if n.plain++; n.plain == 1 {
				n.req.Messages = slices.Clone(n.req.Messages)
			}
			n.req.Messages[i].Reasoning = ""
		}
	}
}

// carryOut takes all turns of the run. The error is why they ended early; it is errLeft if the reader has left.
func (n *run) carryOut() error {
	defer n.leave()
	t, err := n.take(nil)
	for err == nil && t != nil {
		n.idle() // the next turn has to wait for its place and to read its prompt
		t, err = n.take(t)
	}
	n.policy.end(err)
	if err != nil && n.tape != nil {
		n.idle() // leave waits for the end of the trace
	}
	return err
}

// idle lets the reader write the events that it has, before a wait.
func (n *run) idle() {
	if n.req.Idle != nil && !n.left {
		n.req.Idle()
	}
}

// take carries out a turn and returns the next, nil after the last. If t is nil, it takes the first.
func (n *run) take(t *turn) (next *turn, err error) {
	err = n.r.inSlot(n.ctx, n.req.Principal, func() (err error) {
		if t == nil {
			if t, err = n.first(); err != nil {
				return err
			}
		}
		return t.prepare()
	})
	switch {
	case t == nil:
		return nil, err
	case err != nil:
		return n.policy.instead(t, err)
	}
	if err := n.drive(t); err != nil {
		return nil, err
	}
	return n.policy.next(t)
}

// remaining returns the request with the limits reduced by what the turns so far have used.
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

// errLeft says that the reader wants no more events.
var errLeft = fmt.Errorf("the reader has left: %w", context.Canceled)

// drive runs a turn and reads its events until the turn is over or the reader leaves. When ctx ends, the scheduler
// ends the turn after the current step. If that step hangs, the turn is abandoned.
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
			if err := n.policy.take(&events[i]); err != nil {
				return err
			}
			if n.left {
				return errLeft
			}
		}
		if end {
			return err
		}
		if n.events.empty() {
			n.idle()
		}
	}
}

// send passes an event to the reader. It runs on the scheduler's goroutine, which wakes the reader later.
func (n *run) send(e reasoning.Event) {
	n.events.add(e)
	n.r.sched.toWake(n.events)
}

// begin starts a turn. It runs on the scheduler's goroutine.
func (n *run) begin(t *turn) {
	if broken := n.r.sched.broken; broken != nil {
		n.end(t, nil, nil, broken)
		return
	}
	if n.turns == 1 {
		n.policy.send(reasoning.Event{Kind: reasoning.Started, Info: t.infoNow()})
	}
	t.begin()
}

// passes records an event in the trace and reports whether the reader may see it.
func (n *run) passes(e *reasoning.Event) bool {
	if n.tape != nil {
		n.tape.send(*e)
	}
	return n.req.Visibility.Shows(e) || n.req.Phases && n.req.Visibility.Marks(e)
}

// emit records an event of the policy and shows it to the reader if the reader may see it.
func (n *run) emit(e reasoning.Event) {
	if n.passes(&e) {
		n.show(e)
	}
}

func (n *run) show(e reasoning.Event) { n.left = n.left || !n.yield(e, nil) }

// showDone shows the last event. It waits for the end of the trace first, whose id is in the event.
func (n *run) showDone(done reasoning.Event) {
	if n.tape != nil {
		n.idle()
		if warning := n.tape.outcome(&done); warning != nil {
			n.show(*warning)
		}
	}
	n.show(done)
}

// end ends a turn with its result or with an error. used is nil if the turn was not begun. Only the first call counts,
// because the scheduler may return to a turn that was abandoned.
func (n *run) end(t *turn, used *reasoning.Usage, result *reasoning.Result, err error) {
	if !t.ended.CompareAndSwap(false, true) {
		return
	}
	n.accounts.end(used)
	if result != nil {
		n.policy.send(reasoning.Event{Kind: reasoning.Done, Result: result})
	}
	n.policy.over(err)
	n.events.close(err)
}

// watch abandons a turn that has not ended some time after ctx. It watches until stop is called.
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

// abandon ends a turn while the scheduler, which owns the rest of the turn, is stuck in a step. The usage that it
// reports is what other goroutines can know: the prompt and the tokens counted in Generated.
func (n *run) abandon(t *turn) {
	used := reasoning.Usage{Prompt: t.prompt}
	if n.req.Generated != nil {
		used.Completion = max(0, int(n.req.Generated.Load())-n.accounts.generated())
	}
	n.end(t, &used, nil, context.Cause(n.ctx))
}

// leave ends the run after its reader is done with it. It waits for the end of the trace.
func (n *run) leave() {
	n.cancel()
	n.accounts.close()
	if n.tape != nil {
		n.policy.leave()
	}
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

// finished seals and remembers what a turn has thought. The turn calls it on the scheduler's goroutine when its own
// text is complete; only a summary may follow.
func (n *run) finished(t *turn) {
	thoughts := t.output.thoughts.String()
	n.policy.finished(t, thoughts)
	if !n.remembers(t) {
		return
	}
	for i := range t.output.calls {
		call := &t.output.calls[i]
		at := n.r.moment(&n.req, lastOf(n.req.Messages), call)
		n.r.cfg.CallMemory.keep(callKey{n.req.Principal, call.ID}, at, thoughts)
	}
}

// remembers reports whether the reasoning before a turn's calls is remembered.
func (n *run) remembers(t *turn) bool {
	return n.r.cfg.CallMemory != nil && !n.req.Unremembered && len(t.req.Tools) > 0 && len(t.conv.Tools) > 0
}

// seal returns the sealed reasoning of the run, empty if there is none or nobody asked for it. If sealing fails, it
// warns.
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

// answers reports whether the run itself answers calls of a function.
func (n *run) answers(name string) bool { return n.policy.answers(name) }

// generated counts a generated token.
func (n *run) generated() {
	if n.req.Generated != nil {
		n.req.Generated.Add(1)
	}
}

// callIDs returns the function that names the calls of a turn by their number in the turn. The client's function gets
// the number in the run instead.
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
