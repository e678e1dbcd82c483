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

// delegating is the policy of a run that may hand its reasoning to specialists. After each turn it chooses the next
// turn: one of a specialist, one in which the specialist squashes its work into one message, or one under the original
// prompt.
//
// It runs on the reader's goroutine. main is the conversation under the original prompt. Only the report of a
// specialist enters it. The specialist's own conversation is built from it for each turn. So the original prompt is
// back as soon as state says that no specialist is active.
type delegating struct {
	run *run

	state delegation.State
	// main is the conversation under the original prompt. report is the index of the message that gets the
	// specialist's report.
	main   []chattemplate.Message
	given  int // number of messages in main that came with the request
	report int
	// work has the messages under the specialist's prompt. texts are the texts that the specialist wrote.
	work  []chattemplate.Message
	texts []string
	// about is the current delegation; its ID is empty if there is none. count is the number of delegations so far.
	about  reasoning.Delegation
	count  int
	random uint64
	// engaged says that a specialist has been active, in this run or in the one that it continues. The run that
	// continues this one has to know that the specialist is not active any more.
	engaged bool
	// forced says that a turn under the original prompt is over. A demand to delegate is met by then.
	forced bool
	// reported has the indices of the messages in main with a report. Reports that do not fit are taken out again.
	reported []int

	// last says that no step is left after the current turn. out collects what the turn says. outcome is how the
	// delegation ends whose work is being squashed.
	last    bool
	out     *said
	outcome reasoning.DelegationOutcome
	// checked is the plan of the first turn under the original prompt, until that turn takes it.
	checked *plan

	asked    time.Time
	spoken   [reasoning.Answer + 1]bool
	thoughts strings.Builder
	// waiting has events that came too early; they follow Started. started says that it has come.
	waiting []reasoning.Event
	started bool
}

// turnKind says what a turn is for.
type turnKind uint8

const (
	turnMain turnKind = iota // under the original prompt, as all turns without specialists
	turnSpecialist
	turnSquash
)

// said is what a turn has said.
type said struct {
	kind turnKind
	// text is everything but its reasoning and its calls.
	text, reasoning strings.Builder
	// inner has the calls that the run answers, outer those that wait for the client.
	inner, outer []chattemplate.ToolCall
	current      *chattemplate.ToolCall
	arguments    strings.Builder
	begun        [reasoning.Answer + 1]bool
	result       *reasoning.Result
}

// first implements policy. It finds the state of the conversation and returns the first turn. It is heavy work.
func (d *delegating) first() (*turn, error) {
	d.asked = d.run.r.cfg.Clock()
	if err := d.withhold(); err != nil {
		return nil, err
	}
	if err := d.resume(); err != nil {
		return nil, err
	}
	// An answer that the model cannot give is refused before a specialist works for it.
	if err := validateMessages(d.main); err != nil {
		return nil, err
	}
	t := d.turn(turnMain, d.main)
	if err := t.newPlan(); err != nil {
		return nil, err
	}
	d.checked = t.plan
	return d.step(), nil
}

// composed returns the conversation for the specialist.
func (d *delegating) composed(active delegation.Delegate) []chattemplate.Message {
	return d.compose(append(slices.Clone(d.main), d.work...), active)
}

// compose returns messages under the specialist's prompt. The caller has not seen a prompt that the model chose.
func (d *delegating) compose(messages []chattemplate.Message, active delegation.Delegate) []chattemplate.Message {
	messages = delegation.Compose(messages, active)
	if d.about.By == theModel {
		messages[0].Unseen |= chattemplate.UnseenText
	}
	return messages
}

// theModel says that the model itself began a delegation.
const theModel = "model"

// end implements policy. It ends the current delegation if the run has failed.
func (d *delegating) end(err error) {
	if err != nil && d.about.ID != "" {
		d.close(reasoning.DelegationFailed)
	}
	d.state.Restore()
	d.run.endTrace(err)
}

// step counts a step of the run and returns the turn for it.
func (d *delegating) step() *turn {
	active, on := d.state.Active()
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

// mainTurn returns the next turn under the original prompt.
func (d *delegating) mainTurn() *turn {
	t := d.turn(turnMain, d.main)
	if d.last {
		d.withdraw(&t.req) // the plan of another request
		return t
	}
	t.plan, d.checked = d.checked, nil
	return t
}

// next implements policy.
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

// instead implements policy.
func (d *delegating) instead(t *turn, err error) (*turn, error) {
	tooLong := (*generation.PromptTooLongError)(nil)
	isTooLong := errors.As(err, &tooLong)
	switch n := d.run; t.kind {
	case turnSpecialist:
		if n.turns > 0 && n.ctx.Err() == nil && !errors.Is(err, generation.ErrClosed) {
			// The main agent may not need the specialist.
			d.fail("there is no room for its prompt, or no place in the model's format")
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

// afterSpecialist returns the turn that follows one of a specialist.
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

// afterMain returns the turn that follows one under the original prompt.
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

// answer answers a call to delegate or to return and appends both to a conversation. It reports whether the call
// returns control; then nothing is appended.
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
		ToolCalls: []chattemplate.ToolCall{c}, Unseen: chattemplate.UnseenReasoning | chattemplate.UnseenCalls,
	}
	if out.kind != turnMain && !d.about.Shown {
		call.Unseen |= chattemplate.UnseenText
	}
	out.reasoning.Reset() // they belong to the first call only
	out.text.Reset()
	result := chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: c.ID, ToolName: c.Name,
		Unseen: chattemplate.UnseenText}
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
	d.begin(to, theModel, len(*in)-1)
	return false
}

// ignored warns about calls to delegate or to return that are not answered.
func (d *delegating) ignored() {
	if len(d.out.inner) > 0 {
		d.emit(warning(generation.CodeCallIgnored, "a call to delegate or to return was ignored: it was mixed with other "+
			"calls, came too late or was incomplete"))
	}
}

const notSquashed = "the specialist's work could not be squashed, so all of it was kept"

// squash returns the turn in which the specialist squashes its work into one message. If no tokens are left for it, it
// returns the turn that follows.
func (d *delegating) squash() *turn {
	active, _ := d.state.Active()
	messages := append(slices.Clone(d.main), d.work...)
	for _, t := range d.texts {
		m := chattemplate.Message{Role: chattemplate.Assistant, Content: t}
		if !d.about.Shown {
			m.Unseen = chattemplate.UnseenText
		}
		messages = append(messages, m)
	}
	messages = append(messages, chattemplate.Message{Role: chattemplate.User, Content: delegation.SquashV1})
	if left, limited := d.specialistLeft(); limited && left <= 0 {
		return d.squashed("")
	}
	d.state.Step()
	d.about.Steps++
	return d.turn(turnSquash, d.compose(messages, active))
}

// squashed gives control back and returns the next turn. text replaces the specialist's work; if it is empty, all
// of the work is kept.
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

// begin makes a specialist active. report is the index of the message in main that gets its report; len(main) stands
// for the user's message.
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
		d.main[report].Unseen |= chattemplate.UnseenText
	}
	d.emit(instructed(to))
	about := d.about
	d.emit(reasoning.Event{Kind: reasoning.DelegationStart, Delegation: &about})
}

// finish gives control back with the specialist's report.
func (d *delegating) finish(outcome reasoning.DelegationOutcome) {
	texts := d.texts
	if d.run.req.Delegation.Work == generation.WorkDelete && len(texts) > 0 {
		d.emit(curated(curatedDeleted, len(texts), "delegation "+d.about.ID))
		texts = nil
	}
	d.tell(delegation.Report(texts), len(texts) > 0)
	d.close(outcome)
}

// fail gives control back from a specialist that cannot work.
func (d *delegating) fail(why string) {
	d.tell("Error: the specialist could not go on: "+why+".\n"+delegation.Report(nil), true)
	d.close(reasoning.DelegationFailed)
}

// tell puts a report into main. If it is not the result of a call, it goes before the text of the user's message. Then
// an empty report, for which says is false, is left out.
func (d *delegating) tell(report string, says bool) {
	at := d.report
	if at >= len(d.main) {
		if at = lastUser(d.main); at < 0 || !says {
			return
		}
		report += "\n\n" + d.main[at].Content
	}
	d.main[at].Content = report
	d.main[at].Unseen |= chattemplate.UnseenText // even what was shown may have been squashed
	d.reported = append(d.reported, at)
}

// takeBack takes the reports out of main, which has become too long with them. It reports whether there were any.
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
	d.emit(curated(curatedDeleted, len(d.reported), "specialists, for which the context has no room"))
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

// close ends the current delegation: the original prompt is back.
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
