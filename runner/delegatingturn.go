package runner

import (
	"context"
	"encoding/json"
	"fmt"

	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/grammar"
	"runner/reasoning"
)

// squashTokens is the maximum length in tokens of a squashed message.
const squashTokens = 600

// withhold takes back the model's permission to delegate if the model or the request does not allow calls. A request
// that demands a call is refused then.
func (d *delegating) withhold() error {
	may := &d.run.req.Delegation.Model
	if !*may || d.run.r.canCall() && d.run.req.ToolChoice != generation.ToolChoiceNone &&
		d.run.req.Strategy != reasoning.StrategyJSON {
		return nil
	}
	if *may = false; !d.run.r.canCall() {
		d.emit(warning(generation.CodeDelegationUnavailable,
			"this model cannot delegate, because the way it writes calls is unknown"))
	}
	return d.run.r.validateTools(&d.run.req)
}

// tools returns the functions that a turn may call.
func (d *delegating) tools(kind turnKind) []chattemplate.Tool {
	tools, own := d.run.req.Tools, delegation.Tools(d.run.r.info.ContextSize/4)
	switch {
	case kind == turnSquash:
		return nil
	case d.run.req.Delegation.Model:
	case kind == turnSpecialist && d.run.r.canCall() && d.run.req.ToolChoice != generation.ToolChoiceNone:
		own = own[1:] // only the function to return
	default:
		own = nil
	}
	for i := range own {
		// a family that writes arguments one by one cannot limit the lengths of strings
		own[i].Strict = d.run.r.family.About().WholeArguments
	}
	return append(tools[:len(tools):len(tools)], own...)
}

// turn makes a turn of the run.
func (d *delegating) turn(kind turnKind, messages []chattemplate.Message) *turn {
	n := d.run
	t := n.newTurn(n.remaining())
	d.out = &said{kind: kind}
	hidden := kind == turnSquash || kind == turnSpecialist && !d.about.Shown
	t.role = role{kind: kind, hidden: hidden, called: d.forced, last: d.last, earlier: d.thoughts.String()}
	q := &t.req
	q.Messages, q.Tools, q.Delegation = messages, d.tools(kind), generation.Delegation{}
	if kind == turnMain {
		if own := len(n.req.Tools) == 0 || delegation.IsTool(q.ToolName); own && d.forced || len(q.Tools) == 0 {
			q.ToolChoice, q.ToolName = generation.ToolChoiceAuto, ""
		} else if own && q.ToolChoice == generation.ToolChoiceRequired {
			q.ToolChoice, q.ToolName = generation.ToolChoiceFunction, delegation.DelegateName // no specialist is active
		}
		return t
	}
	q.Form, q.ResponseFormat, q.Stop, q.Logprobs = grammar.Source{}, nil, nil, false
	q.Visibility, q.Rationale, q.Score = reasoning.VisibilityNone, false, false // the run filters the events
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
	return t
}

// withdraw takes the functions to delegate out of a request.
func (d *delegating) withdraw(q *generation.Request) {
	q.Tools = d.run.req.Tools
	if len(q.Tools) == 0 || delegation.IsTool(q.ToolName) {
		q.ToolChoice, q.ToolName = generation.ToolChoiceAuto, ""
	}
}

// specialistLeft returns how many tokens a specialist may still generate. That is what the run has left without the
// answer's reserve. If the specialist's text is reasoning, it is also bounded by the rest of the reasoning budget.
// limited is false if there is no limit.
func (d *delegating) specialistLeft() (left int, limited bool) {
	used := &d.run.sum.Usage
	if d.run.req.MaxTokens > 0 {
		left, limited = d.run.req.MaxTokens-used.Completion, true
		left -= reserveOf(d.run.req.AnswerReserve, left)
	}
	if d.run.req.Budget > 0 && !d.about.Shown {
		if budget := d.run.req.Budget - used.Reasoning; !limited || budget < left {
			left, limited = budget, true
		}
	}
	return left, limited
}

// answers implements policy.
func (d *delegating) answers(name string) bool { return delegation.IsTool(name) }

// send implements policy. All events go to the reader's goroutine, where take turns them into events of the run.
func (d *delegating) send(e reasoning.Event) { d.run.send(e) }

// finished implements policy. The reasoning is sealed at the end of the run.
func (d *delegating) finished(*turn, string) {}

// over implements policy. Another turn may follow.
func (d *delegating) over(error) {}

// leave implements policy.
func (d *delegating) leave() {
	d.run.endTrace(context.Canceled) // only this goroutine writes to it
	<-d.run.tape.ended
}

// take implements policy. It turns an event of a turn into events of the run and notes what it says.
func (d *delegating) take(event *reasoning.Event) error {
	switch e := *event; e.Kind {
	case reasoning.Started:
		d.started = true
		d.emit(e)
		for _, w := range d.waiting {
			d.emit(w)
		}
		d.waiting = nil
	case reasoning.StrategySwitched:
		if d.out.kind == turnMain {
			d.emit(e)
		}
	case reasoning.SegmentStart, reasoning.SegmentDelta, reasoning.SegmentEnd:
		d.segment(e)
	case reasoning.Decided:
		if !delegation.IsTool(e.Call.Name) {
			e.Call.Index = d.out.place(e.Call.ID)
		}
		d.emit(e)
	case reasoning.Done:
		d.out.result = e.Result
		d.add()
	default:
		d.emit(e)
	}
	return nil
}

// segment takes an event of a segment. Text of a specialist becomes reasoning, or a preamble if the specialist is
// shown.
func (d *delegating) segment(e reasoning.Event) {
	out, from := d.out, e.Segment
	switch from {
	case reasoning.ToolCall:
		d.call(e)
		return
	case reasoning.Summary: // it is of the whole run
		d.emit(e)
		return
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
	d.emit(e)
	if apart { // the reader separates texts of one kind within a turn, but not those of different turns
		e.Kind, e.Text = reasoning.SegmentDelta, "\n\n"
		if e.Segment == reasoning.Reasoning {
			d.thoughts.WriteString(e.Text)
		}
		d.emit(e)
	}
}

// call takes an event of a call. Calls that the run answers are kept from the reader. The client's calls get new
// numbers.
func (d *delegating) call(e reasoning.Event) {
	out, inner := d.out, delegation.IsTool(e.Call.Name)
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
		return
	}
	e.Call.Index = len(out.outer) - 1
	if out.kind != turnMain {
		e.Specialist = d.about.ID
	}
	d.emit(e)
}

// place returns the number of a call among the client's calls. A call that has not begun gets the next number.
func (s *said) place(id string) int {
	for i, c := range s.outer {
		if c.ID == id {
			return i
		}
	}
	return len(s.outer)
}

// add adds the result of a turn to the sum of the run.
func (d *delegating) add() {
	n, out := d.run, d.out
	u, t, sum := out.result.Usage, &out.result.Timing, &n.sum
	if out.kind != turnMain && !d.about.Shown {
		u.Reasoning, u.Answer = u.Reasoning+u.Answer, 0
	}
	addUsage(&sum.Usage, &u)
	if n.turns == 1 {
		sum.Timing = *t
		sum.Timing.FirstAnswer, sum.Timing.Decode, sum.Timing.Drafted, sum.Timing.Accepted = 0, 0, 0, 0
	}
	sum.Timing.Decode += t.Decode
	sum.Timing.Drafted += t.Drafted
	sum.Timing.Accepted += t.Accepted
	if out.kind == turnMain && t.FirstAnswer > 0 {
		sum.Timing.FirstAnswer = n.turn.asked.Sub(d.asked) + t.FirstAnswer
	}
	if c := out.result.Rationale; c != nil {
		if sum.Rationale == nil {
			sum.Rationale = new(reasoning.RationaleCount)
		}
		sum.Rationale.Stated += c.Stated
		sum.Rationale.Missing += c.Missing
	}
}

// done ends the run with the result of its last turn.
func (d *delegating) done() error {
	n, result := d.run, *d.out.result
	result.Usage, result.Timing, result.Rationale = n.sum.Usage, n.sum.Timing, n.sum.Rationale
	if n.req.Budget > 0 && result.Usage.Reasoning >= n.req.Budget && result.Detail == "" {
		result.Detail = reasoning.DetailReasoningBudget
	}
	result.Sealed = n.seal(d.thoughts.String(), len(d.out.outer) > 0, d.emit)
	return n.done(&result)
}

// emit passes on an event of the run. Before Started it keeps the event back.
func (d *delegating) emit(e reasoning.Event) {
	if !d.started {
		d.waiting = append(d.waiting, e)
		return
	}
	d.run.emit(e)
}

func warning(code, text string) reasoning.Event {
	return reasoning.Event{Kind: reasoning.Warning, Code: code, Text: text}
}

// curated returns an event that says how many intermediate messages the model is not shown. of says whose they are.
func curated(code string, messages int, of string) reasoning.Event {
	return reasoning.Event{Kind: reasoning.Curated, Code: code, Text: fmt.Sprintf("intermediate messages of %s: %d",
		of, messages)}
}

// instructed reports an instruction that was followed.
func instructed(in delegation.Instruction) reasoning.Event {
	text, err := json.Marshal(in)
	if err != nil {
		text = nil // an instruction can always be written
	}
	return reasoning.Event{Kind: reasoning.Instructed, Text: string(text), Code: in.Label()}
}
