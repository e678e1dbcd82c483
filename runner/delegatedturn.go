package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/grammar"
	"runner/reasoning"
)

// squashTokens is the most tokens of the message that a specialist's work is made into.
const squashTokens = 600

// withhold takes the offer to delegate back where the model cannot call, or the request leaves no room for calls.
// Then it cannot demand one, either.
func (d *delegated) withhold() error {
	may := &d.req.Delegation.Model
	if !*may || d.r.canCall() && d.req.ToolChoice != generation.ToolChoiceNone &&
		d.req.Strategy != reasoning.StrategyJSON {
		return nil
	}
	if *may = false; !d.r.canCall() {
		d.emit(warning(generation.CodeDelegationUnavailable,
			"this model cannot delegate by itself, because how it writes calls is "+
				"not known"))
	}
	return d.r.validateTools(&d.req)
}

// tools are the functions that a turn may call.
func (d *delegated) tools(kind turnKind) []chattemplate.Tool {
	tools, own := d.req.Tools, delegation.Tools(d.r.info.ContextSize/4)
	switch {
	case kind == turnSquash:
		return nil
	case d.req.Delegation.Model:
	case kind == turnSpecialist && d.r.canCall() && d.req.ToolChoice != generation.ToolChoiceNone:
		own = own[1:] // to return
	default:
		own = nil
	}
	for i := range own {
		// where arguments are written one by one, their strings can have no lengths
		own[i].Strict = d.r.family.About().WholeArguments
	}
	return append(tools[:len(tools):len(tools)], own...)
}

// request is the request of a turn.
func (d *delegated) request(kind turnKind, messages []chattemplate.Message) (generation.Request, *stage) {
	q, used := d.req, &d.result.Usage
	q.Messages, q.Tools = messages, d.tools(kind)
	q.Delegation, q.Seal, q.Trace, q.Account = generation.Delegation{}, nil, nil, nil
	if d.req.CallID != nil {
		q.CallID = d.callID
	}
	of := &stage{
		later: d.turns > 0, called: d.forced, specialist: kind != turnMain, thoughts: d.thoughts.String(),
		before: lastOf(d.req.Messages), shown: d.req.Visibility == reasoning.VisibilityFull,
		hidden: kind == turnSquash || kind == turnSpecialist && !d.about.Shown,
	}
	if q.MaxTokens > 0 {
		q.MaxTokens = max(1, q.MaxTokens-used.Completion)
	}
	if q.Budget > 0 {
		q.Budget = max(1, q.Budget-used.Reasoning)
	}
	if kind == turnMain {
		if own := len(d.req.Tools) == 0 || delegation.IsTool(q.ToolName); own && d.forced || len(q.Tools) == 0 {
			q.ToolChoice, q.ToolName = generation.ToolChoiceAuto, ""
		} else if own && q.ToolChoice == generation.ToolChoiceRequired {
			q.ToolChoice, q.ToolName = generation.ToolChoiceFunction, delegation.DelegateName // there is nobody to return to
		}
		return q, of
	}
	q.Form, q.ResponseFormat, q.Stop, q.Logprobs = grammar.Source{}, nil, nil, false
	q.Visibility, q.Rationale, q.Score = reasoning.VisibilityNone, false, false // the run shows what there is to see
	if q.Strategy == reasoning.StrategyJSON || q.Strategy == reasoning.StrategyTool {
		q.Strategy = reasoning.StrategyAuto
	}
	if q.ToolName = ""; q.ToolChoice != generation.ToolChoiceNone || kind == turnSquash {
		q.ToolChoice = generation.ToolChoiceAuto
	}
	if left, limited := d.specialistLeft(); limited {
		q.MaxTokens = max(1, left)
	}
	if kind == turnSquash && (q.MaxTokens == 0 || q.MaxTokens > squashTokens) {
		q.MaxTokens = squashTokens
	}
	return q, of
}

// callID names a call of a turn. Those of all turns are counted together, because each turn counts its own from 0.
func (d *delegated) callID(int) string {
	d.calls++
	return d.req.CallID(d.calls - 1)
}

// withdraw leaves the functions to delegate out of a request.
func (d *delegated) withdraw(q *generation.Request) {
	q.Tools = d.req.Tools
	if len(q.Tools) == 0 || delegation.IsTool(q.ToolName) {
		q.ToolChoice, q.ToolName = generation.ToolChoiceAuto, ""
	}
}

// specialistLeft is how many tokens a specialist may still generate: what is left of the run's without the answer's
// reserve, and what is left of the reasoning budget where its text is reasoning. limited is false where there is no
// limit.
func (d *delegated) specialistLeft() (left int, limited bool) {
	used := &d.result.Usage
	if d.req.MaxTokens > 0 {
		left, limited = d.req.MaxTokens-used.Completion, true
		switch reserve := d.req.AnswerReserve; {
		case reserve > 0:
			left -= reserve
		case reserve == 0:
			left -= min(left/4, 1024)
		}
	}
	if d.req.Budget > 0 && !d.about.Shown {
		if budget := d.req.Budget - used.Reasoning; !limited || budget < left {
			left, limited = budget, true
		}
	}
	return left, limited
}

// turn takes one turn and hands on what of its events is the run's.
func (d *delegated) turn(ctx context.Context, kind turnKind, req generation.Request, of *stage) (*said, error) {
	out := &said{kind: kind, offset: d.r.cfg.Clock().Sub(d.asked)}
	t, err := d.r.prepare(ctx, req, of)
	if err != nil {
		return out, err
	}
	t.req.Account = d.accounts.begin()
	d.turns++
	out.began = true
	if err := d.r.drive(ctx, t, func(e *reasoning.Event) bool { return d.take(out, *e) }); err != nil {
		return out, err
	}
	if out.result == nil {
		return out, errors.New("a turn ended without a result") // drive promises one
	}
	return out, nil
}

// take hands on an event of a turn, as the run's, and notes what it says. It reports whether to go on.
func (d *delegated) take(out *said, e reasoning.Event) bool {
	switch e.Kind {
	case reasoning.Started:
		if d.started {
			return true
		}
		e.Info = d.infoOf(e.Info)
		d.started = true
		d.emit(e)
		for _, w := range d.waiting {
			d.emit(w)
		}
		d.waiting = nil
		return !d.left
	case reasoning.StrategySwitched:
		if out.kind != turnMain {
			return true
		}
		e.Info = d.infoOf(e.Info)
	case reasoning.SegmentStart, reasoning.SegmentDelta, reasoning.SegmentEnd:
		return d.segment(out, e)
	case reasoning.Decided:
		if !delegation.IsTool(e.Call.Name) {
			e.Call.Index = out.place(e.Call.ID)
		}
	case reasoning.Done:
		out.result = e.Result
		d.add(out)
		return true
	}
	return d.emit(e)
}

// infoOf is what is in effect in the run, from what is in a turn.
func (d *delegated) infoOf(i *reasoning.Info) *reasoning.Info {
	info := *i
	info.Visibility, info.Budget = d.req.Visibility, d.req.Budget
	return &info
}

// segment hands on an event of a segment. What a specialist writes is reasoning, or preamble where it is shown;
// calls that the run answers are nobody else's.
func (d *delegated) segment(out *said, e reasoning.Event) bool {
	from := e.Segment
	if from == reasoning.ToolCall {
		return d.call(out, e)
	}
	if out.kind != turnMain {
		e.Specialist, e.Logprobs = d.about.ID, nil
		if from != reasoning.Reasoning {
			if e.Segment = reasoning.Reasoning; d.about.Shown && out.kind == turnSpecialist {
				e.Segment = reasoning.Preamble
			}
		}
	}
	if e.Kind == reasoning.SegmentDelta {
		if from == reasoning.Reasoning {
			out.reasoning.WriteString(e.Text)
		} else {
			out.text.WriteString(e.Text)
		}
		if e.Segment == reasoning.Reasoning {
			d.thoughts.WriteString(e.Text)
		}
	}
	apart := e.Kind == reasoning.SegmentStart && d.spoken[e.Segment] && !out.begun[from]
	if e.Kind == reasoning.SegmentStart {
		d.spoken[e.Segment], out.begun[from] = true, true
	}
	if !d.emit(e) {
		return false
	}
	if apart { // within a turn, texts of one kind come apart by themselves
		e.Kind, e.Text = reasoning.SegmentDelta, "\n\n"
		if e.Segment == reasoning.Reasoning {
			d.thoughts.WriteString(e.Text)
		}
		return d.emit(e)
	}
	return true
}

// call takes an event of a call: the run's own are kept, the client's handed on, counted anew.
func (d *delegated) call(out *said, e reasoning.Event) bool {
	inner := delegation.IsTool(e.Call.Name)
	if e.Kind == reasoning.SegmentStart {
		to := &out.outer
		if inner {
			to = &out.inner
		}
		*to = append(*to, chattemplate.ToolCall{ID: e.Call.ID, Name: e.Call.Name})
		out.current = &(*to)[len(*to)-1]
	}
	switch {
	case out.current == nil:
	case e.Kind == reasoning.SegmentDelta:
		out.arguments.WriteString(e.Text)
	case e.Kind == reasoning.SegmentEnd:
		out.current.Arguments = out.arguments.String()
		out.arguments.Reset()
	}
	if inner {
		return true
	}
	e.Call.Index = len(out.outer) - 1
	if out.kind != turnMain {
		e.Specialist = d.about.ID
	}
	return d.emit(e)
}

// place is the place of a call among those of the client, or the next one's if it has not begun.
func (s *said) place(id string) int {
	for i, c := range s.outer {
		if c.ID == id {
			return i
		}
	}
	return len(s.outer)
}

// add adds what a turn used to the run's.
func (d *delegated) add(out *said) {
	u, t, sum := out.result.Usage, &out.result.Timing, &d.result
	if out.kind != turnMain && !d.about.Shown {
		u.Reasoning, u.Answer = u.Reasoning+u.Answer, 0
	}
	addUsage(&sum.Usage, &u)
	if d.turns == 1 {
		sum.Timing = *t
		sum.Timing.FirstAnswer, sum.Timing.Decode = 0, 0
	}
	sum.Timing.Decode += t.Decode
	if out.kind == turnMain && t.FirstAnswer > 0 {
		sum.Timing.FirstAnswer = out.offset + t.FirstAnswer
	}
	if c := out.result.Rationale; c != nil {
		if sum.Rationale == nil {
			sum.Rationale = new(reasoning.RationaleCount)
		}
		sum.Rationale.Stated += c.Stated
		sum.Rationale.Missing += c.Missing
	}
}

// done ends the run with its last turn.
func (d *delegated) done(out *said) error {
	result := *out.result
	result.Usage, result.Timing, result.Rationale = d.result.Usage, d.result.Timing, d.result.Rationale
	if d.req.Budget > 0 && result.Usage.Reasoning >= d.req.Budget && result.Detail == "" {
		result.Detail = reasoning.DetailReasoningBudget
	}
	if d.req.Seal != nil && d.thoughts.Len() > 0 {
		sealed, err := d.req.Seal(d.thoughts.String(), len(out.outer) > 0)
		if err != nil {
			d.emit(warning(generation.CodeNotSealed, "the reasoning could not be sealed"))
		}
		result.Sealed = sealed
	}
	last := reasoning.Event{Kind: reasoning.Done, Result: &result}
	if d.all != nil {
		d.all.send(last)
		d.all.close(nil)
		d.all = nil // the trace ends here
	}
	if d.tape != nil {
		if w := d.tape.outcome(&last); w != nil {
			d.emit(*w)
		}
	}
	d.emit(last)
	if d.left {
		return errLeft
	}
	return nil
}

// emit hands an event of the run to its trace, and through the visibility policy to its reader; before Started it
// waits. It reports whether anybody reads on.
func (d *delegated) emit(e reasoning.Event) bool {
	if !d.started {
		d.waiting = append(d.waiting, e)
		return true
	}
	if d.all != nil {
		d.all.send(e)
	}
	shown := d.req.Visibility.Shows(&e) || d.req.Phases && d.req.Visibility.Marks(&e)
	if !d.left && shown && !d.show(e) {
		d.left = true
	}
	return !d.left
}

func warning(code, text string) reasoning.Event {
	return reasoning.Event{Kind: reasoning.Warning, Code: code, Text: text}
}

// curated says how many messages of whose work are kept from the model.
func curated(code string, messages int, of string) reasoning.Event {
	return reasoning.Event{Kind: reasoning.Curated, Code: code, Text: fmt.Sprintf("intermediate messages of %s: %d",
		of, messages)}
}

// instructed tells an instruction as it was followed.
func instructed(in delegation.Instruction) reasoning.Event {
	text, err := json.Marshal(in)
	if err != nil {
		text = nil // an instruction can always be written
	}
	return reasoning.Event{Kind: reasoning.Instructed, Text: string(text), Code: in.Label()}
}
