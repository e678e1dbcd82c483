package delegate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/reasoning"
)

// loop carries out one request. It belongs to one goroutine.
type loop struct {
	req   *generation.Request
	turns generation.Turns

	state delegation.State
	// main is the conversation under the prompt of the request. report is the index of the message that gets the
	// specialist's report.
	main   []chattemplate.Message
	given  int // number of messages in main that came with the request
	report int
	// work has the messages under the specialist's prompt. texts are the texts that the specialist wrote.
	work  []chattemplate.Message
	texts []string
	// about is the current delegation; its ID is empty if there is none. count is the number of delegations so far.
	about reasoning.Delegation
	count int
	// engaged says that a specialist has been active, in this request or in the one that it continues. The request that
	// continues this one has to know that the specialist is not active any more.
	engaged bool
	// forced says that a turn under the prompt of the request is over. A demand to delegate is met by then.
	forced bool
	// reported has the indices of the messages in main with a report. Reports that do not fit are taken out again.
	reported []int

	// kind is what the current turn is for. last says that no step is left after it. outcome is how the delegation ends
	// whose work is being squashed.
	kind    turnKind
	last    bool
	outcome reasoning.DelegationOutcome

	// said is what the last turn has said, and done counts the turns. sum adds up their results.
	said *generation.Said
	done int
	sum  reasoning.Result
	// heard is what came of all turns.
	heard generation.Heard
}

// turnKind says what a turn is for.
type turnKind uint8

const (
	turnMain turnKind = iota // under the prompt of the request
	turnSpecialist
	turnSquash
)

// run carries out the request. If it fails, the current delegation ends.
func (l *loop) run() error {
	t, err := l.take(l.first)
	for err == nil && t != nil {
		t, err = l.take(func() (*generation.Turn, error) { return t, nil })
	}
	if err != nil && l.about.ID != "" {
		l.close(reasoning.DelegationFailed)
	}
	return err
}

// take carries out a turn and returns the next, nil after the last.
func (l *loop) take(choose func() (*generation.Turn, error)) (next *generation.Turn, err error) {
	switch l.said, err = l.turns.Do(choose); {
	case err != nil:
		return nil, err
	case l.said.Refused != nil:
		return l.instead(l.said.Refused)
	}
	l.add()
	switch l.kind {
	case turnSpecialist:
		return l.afterSpecialist()
	case turnSquash:
		text := ""
		if l.said.Result.Finish == reasoning.FinishStop {
			text = strings.TrimSpace(l.said.Text)
		}
		return l.squashed(text), nil
	}
	return l.afterMain()
}

// first finds the state of the conversation and returns the first turn. It is heavy work.
func (l *loop) first() (*generation.Turn, error) {
	l.withhold()
	if err := l.resume(); err != nil {
		return nil, err
	}
	// An answer that the model cannot give is refused before a specialist works for it.
	if err := l.turns.Plan(l.turn(turnMain, l.main)); err != nil {
		return nil, err
	}
	return l.step(), nil
}

// composed returns the conversation for the specialist.
func (l *loop) composed(active delegation.Delegate) []chattemplate.Message {
	return l.compose(append(slices.Clone(l.main), l.work...), active)
}

// compose returns messages under the specialist's prompt. The caller has not seen a prompt that the model chose.
func (l *loop) compose(messages []chattemplate.Message, active delegation.Delegate) []chattemplate.Message {
	messages = delegation.Compose(messages, active)
	if l.about.By == theModel {
		messages[0].Unseen |= chattemplate.UnseenText
	}
	return messages
}

// theModel says that the model itself began a delegation.
const theModel = "model"

// step counts a step of the request and returns the turn for it.
func (l *loop) step() *generation.Turn {
	active, on := l.state.Active()
	l.last = l.state.Step()
	if on && l.last {
		l.turns.Emit(warning(generation.CodeDelegationLimit, fmt.Sprintf("the %d steps of the run are used up",
			delegation.MaxSteps)))
		l.finish(reasoning.DelegationLimit)
		on = false
	}
	if !on {
		return l.mainTurn()
	}
	l.about.Steps++
	if left, limited := l.specialistLeft(); limited && left <= 0 {
		l.finish(reasoning.DelegationLimit)
		return l.step()
	}
	return l.turn(turnSpecialist, l.composed(active))
}

// mainTurn returns the next turn under the prompt of the request.
func (l *loop) mainTurn() *generation.Turn {
	t := l.turn(turnMain, l.main)
	if l.last {
		l.withdraw(&t.Request)
	}
	return t
}

// instead returns the turn that follows one that could not be prepared. If there is none, it returns the error.
func (l *loop) instead(err error) (*generation.Turn, error) {
	tooLong := (*generation.PromptTooLongError)(nil)
	isTooLong := errors.As(err, &tooLong)
	switch {
	case l.kind == turnSpecialist && l.done > 0:
		// The main agent may not need the specialist.
		l.fail("there is no room for its prompt, or no place in the model's format")
		return l.step(), nil
	case l.kind == turnSquash && isTooLong:
		return l.squashed(""), nil
	case l.kind == turnMain && isTooLong && l.takeBack():
		return l.step(), nil
	}
	return nil, err
}

// afterSpecialist returns the turn that follows one of a specialist.
func (l *loop) afterSpecialist() (*generation.Turn, error) {
	said := l.said
	if text := strings.TrimSpace(said.Text); text != "" {
		l.texts = append(l.texts, text)
	}
	if len(said.Calls) > 0 {
		l.ignored()
		l.remember(said.Calls)
		said.Result.Specialist = true
		l.close(reasoning.DelegationPending)
		return nil, l.end()
	}
	returned := len(said.Own) == 0
	for _, c := range said.Own {
		returned = l.answer(&l.work, c) || returned
	}
	if !returned {
		return l.step(), nil
	}
	l.outcome = reasoning.DelegationReturned
	if said.Result.Finish == reasoning.FinishLength {
		l.outcome = reasoning.DelegationLimit
	}
	if l.req.Delegation.Work == generation.WorkSquash && len(l.texts) > 0 && l.state.Steps() < delegation.MaxSteps-1 {
		return l.squash(), nil
	}
	l.finish(l.outcome)
	return l.step(), nil
}

// afterMain returns the turn that follows one under the prompt of the request.
func (l *loop) afterMain() (*generation.Turn, error) {
	said := l.said
	l.forced = true
	if len(said.Own) == 0 || len(said.Calls) > 0 || l.last || said.Result.Finish == reasoning.FinishLength {
		l.ignored()
		if len(said.Calls) > 0 {
			l.remember(said.Calls)
		}
		return nil, l.end()
	}
	for _, c := range said.Own {
		l.answer(&l.main, c)
	}
	return l.step(), nil
}

// answer answers a call to delegate or to return and appends both to a conversation. It reports whether the call
// returns control; then nothing is appended.
func (l *loop) answer(in *[]chattemplate.Message, c chattemplate.ToolCall) (returned bool) {
	said := l.said
	instruction, err := delegation.Call(c.Name, c.Arguments)
	if err == nil {
		if _, back := instruction.(delegation.Return); back && l.about.ID != "" {
			return true
		}
		err = l.state.Apply(instruction)
	}
	call := chattemplate.Message{
		Role: chattemplate.Assistant, Reasoning: said.Reasoning, Preamble: said.Text,
		ToolCalls: []chattemplate.ToolCall{c}, Unseen: chattemplate.UnseenReasoning | chattemplate.UnseenCalls,
	}
	if l.kind != turnMain && !l.about.Shown {
		call.Unseen |= chattemplate.UnseenText
	}
	said.Reasoning, said.Text = "", "" // they belong to the first call only
	result := chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: c.ID, ToolName: c.Name,
		Unseen: chattemplate.UnseenText}
	if err != nil {
		var refused *delegation.Error
		if errors.As(err, &refused) {
			result.Content = refused.Text()
		}
		l.turns.Emit(warning(generation.CodeDelegationRefused, fmt.Sprintf("a call of %s was refused: %v", c.Name, err)))
		*in = append(*in, call, result)
		return false
	}
	*in = append(*in, call, result)
	to := instruction.(delegation.Delegate) //nolint:forcetypeassert // the only other instruction that a call gives
	l.turns.Emit(instructed(to))
	l.begin(to, theModel, len(*in)-1)
	return false
}

// ignored warns about calls to delegate or to return that are not answered.
func (l *loop) ignored() {
	if len(l.said.Own) > 0 {
		l.turns.Emit(warning(generation.CodeCallIgnored, "a call to delegate or to return was ignored: it was mixed with "+
			"other calls, came too late or was incomplete"))
	}
}

const notSquashed = "the specialist's work could not be squashed, so all of it was kept"

// squash returns the turn in which the specialist squashes its work into one message. If no tokens are left for it, it
// returns the turn that follows.
func (l *loop) squash() *generation.Turn {
	active, _ := l.state.Active()
	messages := append(slices.Clone(l.main), l.work...)
	for _, t := range l.texts {
		m := chattemplate.Message{Role: chattemplate.Assistant, Content: t}
		if !l.about.Shown {
			m.Unseen = chattemplate.UnseenText
		}
		messages = append(messages, m)
	}
	messages = append(messages, chattemplate.Message{Role: chattemplate.User, Content: delegation.SquashV1})
	if left, limited := l.specialistLeft(); limited && left <= 0 {
		return l.squashed("")
	}
	l.state.Step()
	l.about.Steps++
	return l.turn(turnSquash, l.compose(messages, active))
}

// squashed gives control back and returns the next turn. text replaces the specialist's work; if it is empty, all
// of the work is kept.
func (l *loop) squashed(text string) *generation.Turn {
	if text == "" {
		l.turns.Emit(warning(generation.CodeDelegationNotSquashed, notSquashed))
	} else {
		l.turns.Emit(curated(CuratedSquashed, len(l.texts), "delegation "+l.about.ID))
		l.texts = []string{text}
	}
	l.finish(l.outcome)
	return l.step()
}

// begin makes a specialist active. report is the index of the message in main that gets its report; len(main) stands
// for the user's message.
func (l *loop) begin(to delegation.Delegate, by string, report int) {
	if _, on := l.state.Active(); !on {
		_ = l.state.Apply(to) // its prompt was checked
	}
	l.count++
	l.engaged = true
	l.about = reasoning.Delegation{
		ID: fmt.Sprintf("delegation_%016x%02d", l.turns.Random(), l.count), By: by,
		Length: len(utf16.Encode([]rune(to.Prompt))), Shown: to.Shown,
	}
	l.report = report
	if report < len(l.main) {
		l.main[report].Content = to.XML()
		l.main[report].Unseen |= chattemplate.UnseenText
	}
	about := l.about
	l.turns.Emit(reasoning.Event{Kind: reasoning.DelegationStart, Delegation: &about})
}

// finish gives control back with the specialist's report.
func (l *loop) finish(outcome reasoning.DelegationOutcome) {
	texts := l.texts
	if l.req.Delegation.Work == generation.WorkDelete && len(texts) > 0 {
		l.turns.Emit(curated(CuratedDeleted, len(texts), "delegation "+l.about.ID))
		texts = nil
	}
	l.tell(delegation.Report(texts), len(texts) > 0)
	l.close(outcome)
}

// fail gives control back from a specialist that cannot work.
func (l *loop) fail(why string) {
	l.tell("Error: the specialist could not go on: "+why+".\n"+delegation.Report(nil), true)
	l.close(reasoning.DelegationFailed)
}

// tell puts a report into main. If it is not the result of a call, it goes before the text of the user's message. Then
// an empty report, for which says is false, is left out.
func (l *loop) tell(report string, says bool) {
	at := l.report
	if at >= len(l.main) {
		if at = generation.LastUser(l.main); at < 0 || !says {
			return
		}
		report += "\n\n" + l.main[at].Content
	}
	l.main[at].Content = report
	l.main[at].Unseen |= chattemplate.UnseenText // even what was shown may have been squashed
	l.reported = append(l.reported, at)
}

// takeBack takes the reports out of main, which has become too long with them. It reports whether there were any.
func (l *loop) takeBack() bool {
	if len(l.reported) == 0 {
		return false
	}
	for _, at := range l.reported {
		if m := &l.main[at]; m.Role == chattemplate.ToolRole {
			m.Content = delegation.Report(nil)
		} else if given := generation.LastUser(l.req.Messages); given >= 0 {
			m.Content = l.req.Messages[given].Content
		}
	}
	l.turns.Emit(curated(CuratedDeleted, len(l.reported), "specialists, for which the context has no room"))
	l.reported = nil
	return true
}

// close ends the current delegation: the prompt of the request is back.
func (l *loop) close(outcome reasoning.DelegationOutcome) {
	l.state.Restore()
	about := l.about
	about.Outcome = outcome
	l.about = reasoning.Delegation{}
	l.work, l.texts = nil, nil
	if outcome == reasoning.DelegationReturned || outcome == reasoning.DelegationLimit {
		l.turns.Emit(instructed(delegation.Return{}))
	}
	l.turns.Emit(reasoning.Event{Kind: reasoning.DelegationEnd, Delegation: &about})
}
