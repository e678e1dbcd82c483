package runner

import (
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

// delegating is the policy of a run that may hand its reasoning to specialists. After each turn it chooses the next:
// a specialist's, one in which a specialist makes one message of its work, or one under the original prompt.
//
// It runs on the reader's goroutine. The conversation under the original prompt is main. Nothing of a specialist's
// enters it but the report; the specialist's own conversation is made of it for each turn. So the original prompt is
// back as soon as state says that nobody is active.
type delegating struct {
	run *run

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

	// last says that no step is left after the turn under way, and out is what comes of it. outcome is how the
	// delegation ends whose work is being squashed.
	last    bool
	out     *said
	outcome reasoning.DelegationOutcome
	// checked is the first turn under the original prompt, while it can still be the run's first.
	checked *turn

	asked    time.Time
	spoken   [reasoning.Answer + 1]bool
	thoughts strings.Builder
	// waiting are events that go after Started, and started says that it came.
	waiting []reasoning.Event
	started bool
}

// turnKind says what a turn is for.
type turnKind uint8

const (
	turnMain turnKind = iota // under the original prompt, as every turn of a run without specialists
	turnSpecialist
	turnSquash
)

// said is what comes of a turn.
type said struct {
	kind turnKind
	// text is what it wrote beside its reasoning and its calls.
	text, reasoning strings.Builder
	// inner are the calls that the run answers, and outer those that wait for the client.
	inner, outer []chattemplate.ToolCall
	current      *chattemplate.ToolCall
	arguments    strings.Builder
	begun        [reasoning.Answer + 1]bool
	result       *reasoning.Result
}

// first checks the request, finds out where its conversation stands and returns the run's first turn.
func (d *delegating) first() (*turn, error) {
	n := d.run
	d.asked = n.r.cfg.Clock()
	if err := n.r.Validate(&n.req); err != nil {
		return nil, err
	}
	if err := d.withhold(); err != nil {
		return nil, err
	}
	n.req.Messages = n.r.restore(&n.req)
	if err := d.resume(); err != nil {
		return nil, err
	}
	// What of the answer cannot be had is refused before a specialist works for it.
	d.checked = d.turn(turnMain, d.main)
	if err := d.checked.plan(); err != nil {
		return nil, err
	}
	return d.step(), nil
}

// composed is the conversation as the specialist gets it.
func (d *delegating) composed(active delegation.Delegate) []chattemplate.Message {
	return delegation.Compose(append(slices.Clone(d.main), d.work...), active)
}

// end gives up the delegation under way when the run ends early.
func (d *delegating) end(err error) {
	if err != nil && d.about.ID != "" {
		d.close(reasoning.DelegationFailed)
	}
	d.state.Restore()
}

// step counts a step of the run and returns the turn that takes it.
func (d *delegating) step() *turn {
	active, on := d.state.Active()
	if on {
		d.checked = nil // the specialist's report changes its conversation
	}
	d.last = d.state.Step()
	if on && d.last {
		d.emit(warning(generation.CodeDelegationLimit, fmt.Sprintf("the %d steps of the run are used up",
			delegation.MaxSteps)))
		d.finish(reasoning.DelegationLimit)
		on = false
	}
	if !on {
		return d.mainTurn()
	}
	d.about.Steps++
	if left, limited := d.specialistLeft(); limited && left <= 0 {
		d.finish(reasoning.DelegationLimit)
		return d.step()
	}
	return d.turn(turnSpecialist, d.composed(active))
}

// mainTurn is the next turn under the original prompt.
func (d *delegating) mainTurn() *turn {
	t := d.checked
	if d.checked = nil; t == nil || d.last {
		t = d.turn(turnMain, d.main)
	}
	if d.last {
		d.withdraw(&t.req)
	}
	return t
}

// next takes the end of a turn and returns the turn after it, nil when the run is over.
func (d *delegating) next(t *turn) (*turn, error) {
	if d.out.result == nil {
		return nil, errors.New("a turn ended without a result") // drive promises one
	}
	switch t.kind {
	case turnSpecialist:
		return d.afterSpecialist()
	case turnSquash:
		text := ""
		if d.out.result.Finish == reasoning.FinishStop {
			text = strings.TrimSpace(d.out.text.String())
		}
		return d.squashed(text), nil
	}
	return d.afterMain()
}

// instead returns the turn that comes in place of one that could not be prepared, or the error.
func (d *delegating) instead(t *turn, err error) (*turn, error) {
	tooLong := (*generation.PromptTooLongError)(nil)
	isTooLong := errors.As(err, &tooLong)
	switch n := d.run; t.kind {
	case turnSpecialist:
		if n.turns > 0 && n.ctx.Err() == nil && !errors.Is(err, generation.ErrClosed) {
			d.fail("there is no room for its prompt, or no place in the model's format") // the main agent may do without
			return d.step(), nil
		}
	case turnSquash:
		if isTooLong {
			return d.squashed(""), nil
		}
	case turnMain:
		if isTooLong && d.takeBack() {
			return d.step(), nil
		}
	}
	return nil, err
}

// afterSpecialist goes on after a turn of a specialist's.
func (d *delegating) afterSpecialist() (*turn, error) {
	out := d.out
	if text := strings.TrimSpace(out.text.String()); text != "" {
		d.texts = append(d.texts, text)
	}
	if len(out.outer) > 0 {
		d.ignored()
		d.remember(out.outer)
		out.result.Specialist = true
		d.close(reasoning.DelegationPending)
		return nil, d.done()
	}
	returned := len(out.inner) == 0
	for _, c := range out.inner {
		returned = d.answer(&d.work, c) || returned
	}
	if !returned {
		return d.step(), nil
	}
	d.outcome = reasoning.DelegationReturned
	if out.result.Finish == reasoning.FinishLength {
		d.outcome = reasoning.DelegationLimit
	}
	if d.run.req.Delegation.Work == generation.WorkSquash && len(d.texts) > 0 && d.state.Steps() < delegation.MaxSteps-1 {
		return d.squash(), nil
	}
	d.finish(d.outcome)
	return d.step(), nil
}

// afterMain goes on after a turn under the original prompt.
func (d *delegating) afterMain() (*turn, error) {
	out := d.out
	d.forced = true
	if len(out.inner) == 0 || len(out.outer) > 0 || d.last || out.result.Finish == reasoning.FinishLength {
		d.ignored()
		if len(out.outer) > 0 {
			d.remember(out.outer)
		}
		return nil, d.done()
	}
	for _, c := range out.inner {
		d.answer(&d.main, c)
	}
	return d.step(), nil
}

// answer answers a call of the specialist's or of the main agent's to delegate or to return, in a conversation. It
// reports whether the call returns control.
func (d *delegating) answer(in *[]chattemplate.Message, c chattemplate.ToolCall) (returned bool) {
	out := d.out
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

// ignored warns of calls that are not answered because others are the client's.
func (d *delegating) ignored() {
	if len(d.out.inner) > 0 {
		d.emit(warning(generation.CodeCallIgnored, "a call to delegate or to return was left out, because it came "+
			"beside others, "+
			"too late, or not to its end"))
	}
}

const notSquashed = "no message could be made of the specialist's work; all of it was kept"

// squash returns the turn in which the specialist makes one message of its work, or the turn after it where no tokens
// are left for that.
func (d *delegating) squash() *turn {
	active, _ := d.state.Active()
	messages := append(slices.Clone(d.main), d.work...)
	for _, t := range d.texts {
		messages = append(messages, chattemplate.Message{Role: chattemplate.Assistant, Content: t})
	}
	messages = append(messages, chattemplate.Message{Role: chattemplate.User, Content: delegation.SquashV1})
	if left, limited := d.specialistLeft(); limited && left <= 0 {
		return d.squashed("")
	}
	d.state.Step()
	d.about.Steps++
	return d.turn(turnSquash, delegation.Compose(messages, active))
}

// squashed gives control back with text in place of the specialist's work; without any, all of the work is kept. It
// returns the next turn.
func (d *delegating) squashed(text string) *turn {
	if text == "" {
		d.emit(warning(generation.CodeDelegationNotSquashed, notSquashed))
	} else {
		d.emit(curated(curatedSquashed, len(d.texts), "delegation "+d.about.ID))
		d.texts = []string{text}
	}
	d.finish(d.outcome)
	return d.step()
}

// begin makes a specialist active, whose report goes into the message at report of main; len(main) is at the end of
// the user's message.
func (d *delegating) begin(to delegation.Delegate, by string, report int) {
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
func (d *delegating) finish(outcome reasoning.DelegationOutcome) {
	texts := d.texts
	if d.run.req.Delegation.Work == generation.WorkDelete && len(texts) > 0 {
		d.emit(curated(curatedDeleted, len(texts), "delegation "+d.about.ID))
		texts = nil
	}
	d.tell(delegation.Report(texts), len(texts) > 0)
	d.close(outcome)
}

// fail gives control back from a specialist that could not work.
func (d *delegating) fail(why string) {
	d.tell("Error: the specialist could not go on: "+why+".\n"+delegation.Report(nil), true)
	d.close(reasoning.DelegationFailed)
}

// tell puts a report into the main conversation. Where it is the result of no call it goes before the user's
// message, if it says anything.
func (d *delegating) tell(report string, says bool) {
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
func (d *delegating) takeBack() bool {
	if len(d.reported) == 0 {
		return false
	}
	for _, at := range d.reported {
		if m := &d.main[at]; m.Role == chattemplate.ToolRole {
			m.Content = delegation.Report(nil)
		} else if given := lastUser(d.run.req.Messages); given >= 0 {
			m.Content = d.run.req.Messages[given].Content
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
func (d *delegating) close(outcome reasoning.DelegationOutcome) {
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
