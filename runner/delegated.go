package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
)

// delegated is a run that may hand its reasoning to specialists: turns of the model, one after the other, whose
// events become one stream.
//
// It runs on its caller's goroutine. The conversation under the original prompt is main, which nothing of a
// specialist's enters but its report; what a specialist is given is made of it anew for each turn. So the original
// prompt is back as soon as state says that nobody is active.
type delegated struct {
	r    *Runner
	req  generation.Request // with messages as they came
	show func(reasoning.Event) bool
	tape *tape   // nil where the run is not traced
	all  *stream // gets all events for it

	state delegation.State
	// main is the conversation under the original prompt. report is the index of the message that gets the
	// specialist's report.
	main   []chattemplate.Message
	given  int // of main's messages came with the request
	report int
	// work is what has happened under the specialist's prompt, and texts what it wrote of that, one message each.
	work  []chattemplate.Message
	texts []string
	// about is the delegation under way; its ID is empty where there is none. count numbers those of the run.
	about  reasoning.Delegation
	count  int
	random uint64
	// engaged says that a specialist has been active, in this run or in one that it goes on from, so that who goes
	// on from its calls has to know that it is no longer.
	engaged bool
	// forced says that a demand for a call to delegate, or for any call where there are no others, has been met.
	forced bool
	// reported are the messages of main that have a report, which can be taken back where they do not fit.
	reported []int

	asked    time.Time
	turns    int
	calls    int // that were named
	spoken   [reasoning.Answer + 1]bool
	thoughts strings.Builder
	result   reasoning.Result // what the turns so far add up to
	accounts ledger
	// waiting are events that go after Started, and started says that it came. left says that nobody reads on.
	waiting       []reasoning.Event
	started, left bool
}

// turnKind says what a turn is for.
type turnKind uint8

const (
	turnMain turnKind = iota
	turnSpecialist
	turnSquash
)

// said is what came of a turn.
type said struct {
	kind turnKind
	// text is what it wrote beside its reasoning and its calls.
	text, reasoning strings.Builder
	// inner are the calls that the run answers, and outer those that wait for the client.
	inner, outer []chattemplate.ToolCall
	current      *chattemplate.ToolCall
	arguments    strings.Builder
	begun        [reasoning.Answer + 1]bool
	offset       time.Duration
	// began says that the model was asked.
	began  bool
	result *reasoning.Result
}

// delegate runs a request that delegates.
func (r *Runner) delegate(ctx context.Context, cancel func(), req generation.Request,
	show func(reasoning.Event) bool) error {
	d, err := r.prepareDelegated(ctx, req, show)
	if err != nil {
		return err
	}
	if req.Trace != nil {
		traced, _ := d.first()
		traced.Trace = req.Trace
		if d.tape = r.newTape(ctx, &traced); d.tape.err == nil {
			d.all = d.tape.stream
		}
		defer func() {
			d.tape.close(context.Canceled) // a reader that panics leaves, too
			<-d.tape.ended
		}()
	}
	defer d.accounts.end()
	defer cancel()
	if err = d.run(ctx); errors.Is(err, errLeft) {
		err = context.Canceled
	}
	if d.all != nil {
		d.all.close(err)
	}
	if d.left {
		return nil
	}
	return err
}

// prepareDelegated is newDelegated when there is a slot, unless the runner is closed.
func (r *Runner) prepareDelegated(ctx context.Context, req generation.Request,
	show func(reasoning.Event) bool) (*delegated,
	error) {
	var d *delegated
	err := r.inSlot(ctx, req.Principal, func() (err error) {
		d, err = r.newDelegated(ctx, req, show)
		return err
	})
	return d, err
}

// newDelegated checks a request and finds out where its conversation stands.
func (r *Runner) newDelegated(ctx context.Context, req generation.Request, show func(reasoning.Event) bool) (*delegated,
	error) {
	d := &delegated{r: r, req: req, show: show, random: r.cfg.Seed(), asked: r.cfg.Clock(),
		accounts: ledger{tell: req.Account}}
	if err := r.Validate(&d.req); err != nil {
		return nil, err
	}
	if err := d.withhold(); err != nil {
		return nil, err
	}
	if d.req.Seed == nil {
		seed := r.cfg.Seed() >> 11 // as for any run
		d.req.Seed = &seed
	}
	d.req.Messages = r.restore(&req)
	if err := d.resume(); err != nil {
		return nil, err
	}
	// What of the answer cannot be had is refused before a specialist works for it.
	first, of := d.request(turnMain, d.main)
	_, err := r.plan(ctx, first, of)
	return d, err
}

// first is the run's first turn.
func (d *delegated) first() (generation.Request, *stage) {
	if active, on := d.state.Active(); on {
		return d.request(turnSpecialist, d.composed(active))
	}
	return d.request(turnMain, d.main)
}

// composed is the conversation as the specialist gets it.
func (d *delegated) composed(active delegation.Delegate) []chattemplate.Message {
	return delegation.Compose(append(slices.Clone(d.main), d.work...), active)
}

// run takes the turns until one is the last.
func (d *delegated) run(ctx context.Context) error {
	defer d.state.Restore()
	err := d.turnsOf(ctx)
	if err != nil && d.about.ID != "" {
		d.close(reasoning.DelegationFailed)
	}
	return err
}

func (d *delegated) turnsOf(ctx context.Context) error {
	for {
		_, active := d.state.Active()
		last := d.state.Step()
		if active && last {
			d.emit(warning(generation.CodeDelegationLimit, fmt.Sprintf("the %d steps of the run are used up",
				delegation.MaxSteps)))
			d.finish(reasoning.DelegationLimit)
			active = false
		}
		over, err := false, error(nil)
		if active {
			over, err = d.specialistTurn(ctx)
		} else {
			over, err = d.mainTurn(ctx, last)
		}
		if over || err != nil {
			return err
		}
	}
}

// specialistTurn lets the specialist go on. It reports whether the run is over.
func (d *delegated) specialistTurn(ctx context.Context) (over bool, err error) {
	active, _ := d.state.Active()
	d.about.Steps++
	if left, limited := d.specialistLeft(); limited && left <= 0 {
		d.finish(reasoning.DelegationLimit)
		return false, nil
	}
	req, of := d.request(turnSpecialist, d.composed(active))
	out, err := d.turn(ctx, turnSpecialist, req, of)
	if err != nil {
		if out.began || d.turns == 0 || ctx.Err() != nil || errors.Is(err, generation.ErrClosed) {
			return false, err
		}
		d.fail("there is no room for its prompt, or no place in the model's format") // the main agent may do without
		return false, nil
	}
	if text := strings.TrimSpace(out.text.String()); text != "" {
		d.texts = append(d.texts, text)
	}
	if len(out.outer) > 0 {
		d.ignored(out)
		d.remember(out.outer)
		out.result.Specialist = true
		d.close(reasoning.DelegationPending)
		return true, d.done(out)
	}
	returned := len(out.inner) == 0
	for _, c := range out.inner {
		returned = d.answer(&d.work, out, c) || returned
	}
	if !returned {
		return false, nil
	}
	outcome := reasoning.DelegationReturned
	if out.result.Finish == reasoning.FinishLength {
		outcome = reasoning.DelegationLimit
	}
	if d.req.Delegation.Work == generation.WorkSquash && len(d.texts) > 0 && d.state.Steps() < delegation.MaxSteps-1 {
		if err := d.squash(ctx, active); err != nil {
			return false, err
		}
	}
	d.finish(outcome)
	return false, nil
}

// answer answers a call of the specialist's or of the main agent's to delegate or to return, in a conversation. It
// reports whether the call returns control.
func (d *delegated) answer(in *[]chattemplate.Message, out *said, c chattemplate.ToolCall) (returned bool) {
	instruction, err := delegation.Call(c.Name, c.Arguments)
	if err == nil {
		if _, back := instruction.(delegation.Return); back && d.about.ID != "" {
			return true
		}
		err = d.state.Apply(instruction)
	}
	call := chattemplate.Message{
		Role: chattemplate.Assistant, Reasoning: out.reasoning.String(), Preamble: out.text.String(),
		ToolCalls: []chattemplate.ToolCall{c},
	}
	out.reasoning.Reset() // they led to the first call
	out.text.Reset()
	result := chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: c.ID, ToolName: c.Name}
	if err != nil {
		var refused *delegation.Error
		if errors.As(err, &refused) {
			result.Content = refused.Text()
		}
		d.emit(warning(generation.CodeDelegationRefused, fmt.Sprintf("a call of %s was refused: %v", c.Name, err)))
		*in = append(*in, call, result)
		return false
	}
	*in = append(*in, call, result)
	to := instruction.(delegation.Delegate) //nolint:forcetypeassert // the only other instruction that a call gives
	d.begin(to, "model", len(*in)-1)
	return false
}

// mainTurn lets the model go on under the original prompt. It reports whether the run is over.
func (d *delegated) mainTurn(ctx context.Context, last bool) (over bool, err error) {
	req, of := d.request(turnMain, d.main)
	if last {
		d.withdraw(&req)
	}
	out, err := d.turn(ctx, turnMain, req, of)
	if tooLong := (*generation.PromptTooLongError)(nil); errors.As(err, &tooLong) && d.takeBack() {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	d.forced = true
	if len(out.inner) == 0 || len(out.outer) > 0 || last || out.result.Finish == reasoning.FinishLength {
		d.ignored(out)
		if len(out.outer) > 0 {
			d.remember(out.outer)
		}
		return true, d.done(out)
	}
	for _, c := range out.inner {
		d.answer(&d.main, out, c)
	}
	return false, nil
}

// ignored warns of calls that are not answered because others are the client's.
func (d *delegated) ignored(out *said) {
	if len(out.inner) > 0 {
		d.emit(warning(generation.CodeCallIgnored, "a call to delegate or to return was left out, because it came "+
			"beside others, "+
			"too late, or not to its end"))
	}
}

const notSquashed = "no message could be made of the specialist's work; all of it was kept"

// squash has the specialist make one message of its work.
func (d *delegated) squash(ctx context.Context, active delegation.Delegate) error {
	messages := append(slices.Clone(d.main), d.work...)
	for _, t := range d.texts {
		messages = append(messages, chattemplate.Message{Role: chattemplate.Assistant, Content: t})
	}
	messages = append(messages, chattemplate.Message{Role: chattemplate.User, Content: delegation.SquashV1})
	if left, limited := d.specialistLeft(); limited && left <= 0 {
		d.emit(warning(generation.CodeDelegationNotSquashed, notSquashed))
		return nil
	}
	d.state.Step()
	d.about.Steps++
	req, of := d.request(turnSquash, delegation.Compose(messages, active))
	out, err := d.turn(ctx, turnSquash, req, of)
	tooLong := (*generation.PromptTooLongError)(nil)
	if err != nil && !errors.As(err, &tooLong) {
		return err
	}
	text := ""
	if err == nil && out.result.Finish == reasoning.FinishStop {
		text = strings.TrimSpace(out.text.String())
	}
	if text == "" {
		d.emit(warning(generation.CodeDelegationNotSquashed, notSquashed))
		return nil
	}
	d.emit(curated(curatedSquashed, len(d.texts), "delegation "+d.about.ID))
	d.texts = []string{text}
	return nil
}

// begin makes a specialist active, whose report goes into the message at report of main; len(main) is at the end of
// the user's message.
func (d *delegated) begin(to delegation.Delegate, by string, report int) {
	if _, on := d.state.Active(); !on {
		_ = d.state.Apply(to) // its prompt was checked
	}
	d.count++
	d.engaged = true
	d.about = reasoning.Delegation{
		ID: fmt.Sprintf("delegation_%016x%02d", d.random, d.count), By: by, Length: len(utf16.Encode([]rune(to.Prompt))),
		Shown: to.Shown,
	}
	d.report = report
	if report < len(d.main) {
		d.main[report].Content = to.XML()
	}
	d.emit(instructed(to))
	about := d.about
	d.emit(reasoning.Event{Kind: reasoning.DelegationStart, Delegation: &about})
}

// finish gives control back, with the specialist's report.
func (d *delegated) finish(outcome reasoning.DelegationOutcome) {
	texts := d.texts
	if d.req.Delegation.Work == generation.WorkDelete && len(texts) > 0 {
		d.emit(curated(curatedDeleted, len(texts), "delegation "+d.about.ID))
		texts = nil
	}
	d.tell(delegation.Report(texts), len(texts) > 0)
	d.close(outcome)
}

// fail gives control back from a specialist that could not work.
func (d *delegated) fail(why string) {
	d.tell("Error: the specialist could not go on: "+why+".\n"+delegation.Report(nil), true)
	d.close(reasoning.DelegationFailed)
}

// tell puts a report into the main conversation. Where it is the result of no call it goes before the user's
// message, if it says anything.
func (d *delegated) tell(report string, says bool) {
	at := d.report
	if at >= len(d.main) {
		if at = lastUser(d.main); at < 0 || !says {
			return
		}
		report += "\n\n" + d.main[at].Content
	}
	d.main[at].Content = report
	d.reported = append(d.reported, at)
}

// takeBack leaves the specialists' reports out of a conversation that has become too long with them. It reports
// whether there were any.
func (d *delegated) takeBack() bool {
	if len(d.reported) == 0 {
		return false
	}
	for _, at := range d.reported {
		if m := &d.main[at]; m.Role == chattemplate.ToolRole {
			m.Content = delegation.Report(nil)
		} else if given := lastUser(d.req.Messages); given >= 0 {
			m.Content = d.req.Messages[given].Content
		}
	}
	d.emit(curated(curatedDeleted, len(d.reported), "the context, which has no room for them"))
	d.reported = nil
	return true
}

func lastUser(messages []chattemplate.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == chattemplate.User {
			return i
		}
	}
	return -1
}

// close ends the delegation under way: the original prompt is back.
func (d *delegated) close(outcome reasoning.DelegationOutcome) {
	d.state.Restore()
	about := d.about
	about.Outcome = outcome
	d.about = reasoning.Delegation{}
	d.work, d.texts = nil, nil
	if outcome == reasoning.DelegationReturned || outcome == reasoning.DelegationLimit {
		d.emit(instructed(delegation.Return{}))
	}
	d.emit(reasoning.Event{Kind: reasoning.DelegationEnd, Delegation: &about})
}
