package delegate

import (
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

// withhold takes back the model's permission to delegate if the model or the request does not allow calls.
func (l *loop) withhold() {
	_, can := l.turns.Model()
	may := &l.req.Delegation.Model
	if !*may || mayCall(l.req, can) {
		return
	}
	if *may = false; !can.Calls {
		l.turns.Emit(warning(generation.CodeDelegationUnavailable,
			"this model cannot delegate, because the way it writes calls is unknown"))
	}
}

// tools returns the functions that a turn may call.
func (l *loop) tools(kind turnKind) []chattemplate.Tool {
	info, can := l.turns.Model()
	tools, own := l.req.Tools, delegation.Tools(info.ContextSize/4)
	switch {
	case kind == turnSquash:
		return nil
	case l.req.Delegation.Model:
	case kind == turnSpecialist && can.Calls && l.req.ToolChoice != generation.ToolChoiceNone:
		own = own[1:] // only the function to return
	default:
		own = nil
	}
	for i := range own {
		own[i].Strict = can.WholeArguments // else the length of the prompt cannot be limited
	}
	return append(tools[:len(tools):len(tools)], own...)
}

// turn makes a turn of the request.
func (l *loop) turn(kind turnKind, messages []chattemplate.Message) *generation.Turn {
	l.kind = kind
	t := &generation.Turn{Request: l.remaining(), Last: l.last, Answers: delegation.IsTool, Heard: l.heard}
	q := &t.Request
	q.Messages, q.Tools, q.Delegation, q.Seal = messages, l.tools(kind), generation.Delegation{}, false
	if kind == turnMain {
		own := len(l.req.Tools) == 0 || delegation.IsTool(q.ToolName)
		if own && l.forced || len(q.Tools) == 0 {
			q.ToolChoice, q.ToolName = generation.ToolChoiceAuto, ""
		} else if own && q.ToolChoice == generation.ToolChoiceRequired {
			q.ToolChoice, q.ToolName = generation.ToolChoiceFunction, delegation.DelegateName // no specialist is active
		}
		if !l.forced {
			t.Meets = delegation.DelegateName
		}
		return t
	}
	t.Specialist, t.Counts = l.about.ID, reasoning.Reasoning
	if l.about.Shown && kind == turnSpecialist {
		t.Counts = reasoning.Preamble
	}
	q.Form, q.ResponseFormat, q.Stop, q.Logprobs = grammar.Source{}, nil, nil, false
	q.Visibility, q.Rationale, q.Score = reasoning.VisibilityNone, false, false // it owes the reader nothing
	if q.Strategy == reasoning.StrategyJSON || q.Strategy == reasoning.StrategyTool {
		q.Strategy = reasoning.StrategyAuto
	}
	if q.ToolName = ""; q.ToolChoice != generation.ToolChoiceNone || kind == turnSquash {
		q.ToolChoice = generation.ToolChoiceAuto
	}
	if left, limited := l.specialistLeft(); limited {
		q.MaxTokens = max(1, left)
	}
	if kind == turnSquash && (q.MaxTokens == 0 || q.MaxTokens > squashTokens) {
		q.MaxTokens = squashTokens
	}
	return t
}

// remaining returns the request with the limits reduced by what the turns so far have used.
func (l *loop) remaining() generation.Request {
	q := *l.req
	if q.MaxTokens > 0 {
		q.MaxTokens = max(1, q.MaxTokens-l.sum.Usage.Completion)
	}
	if q.Budget > 0 {
		q.Budget = max(1, q.Budget-l.sum.Usage.Reasoning)
	}
	return q
}

// withdraw takes the functions to delegate out of a request.
func (l *loop) withdraw(q *generation.Request) {
	q.Tools = l.req.Tools
	if len(q.Tools) == 0 || delegation.IsTool(q.ToolName) {
		q.ToolChoice, q.ToolName = generation.ToolChoiceAuto, ""
	}
}

// specialistLeft returns how many tokens a specialist may still generate. That is what the run has left without the
// answer's reserve. If the specialist's text is reasoning, it is also bounded by the rest of the reasoning budget.
// limited is false if there is no limit.
func (l *loop) specialistLeft() (left int, limited bool) {
	used := &l.sum.Usage
	if l.req.MaxTokens > 0 {
		left, limited = l.req.MaxTokens-used.Completion, true
		left -= l.req.Reserve(left)
	}
	if l.req.Budget > 0 && !l.about.Shown {
		if budget := l.req.Budget - used.Reasoning; !limited || budget < left {
			left, limited = budget, true
		}
	}
	return left, limited
}

// add adds what a turn has said to what the request has said so far.
func (l *loop) add() {
	l.heard = l.said.Heard
	of, sum := l.said.Result, &l.sum
	sum.Usage.Add(&of.Usage)
	t := &of.Timing
	if l.done++; l.done == 1 {
		sum.Timing = *t
		sum.Timing.FirstAnswer, sum.Timing.Decode, sum.Timing.Drafted, sum.Timing.Accepted = 0, 0, 0, 0
	}
	sum.Timing.Decode += t.Decode
	sum.Timing.Drafted += t.Drafted
	sum.Timing.Accepted += t.Accepted
	if l.kind == turnMain && t.FirstAnswer > 0 {
		sum.Timing.FirstAnswer = t.FirstAnswer
	}
	if c := of.Rationale; c != nil {
		if sum.Rationale == nil {
			sum.Rationale = new(reasoning.RationaleCount)
		}
		sum.Rationale.Stated += c.Stated
		sum.Rationale.Missing += c.Missing
	}
}

// end ends the request with the result of its last turn.
func (l *loop) end() error {
	result := *l.said.Result
	result.Usage, result.Timing, result.Rationale = l.sum.Usage, l.sum.Timing, l.sum.Rationale
	if l.req.Budget > 0 && result.Usage.Reasoning >= l.req.Budget && result.Detail == "" {
		result.Detail = reasoning.DetailReasoningBudget
	}
	return l.turns.Done(&result)
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
