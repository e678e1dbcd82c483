package reasoning

import (
	"encoding/json"
	"strings"

	"runner/chattemplate"
)

// Reply is what the events of a run add up to.
type Reply struct {
	// Info is what was in effect, after the last switch of strategy.
	Info Info
	// Answer, Reasoning, Summary and Preamble are the texts of the segments of each kind, one after the other.
	Answer, Reasoning, Summary, Preamble string
	// Calls are the tool calls, by index. Arguments are as the model wrote them.
	Calls []chattemplate.ToolCall
	// Logprobs are the answer's tokens, when they were asked for.
	Logprobs []TokenLogprobs
	// Prompt are the tokens of a raw prompt, when their log probabilities were asked for.
	Prompt   []TokenLogprobs
	Warnings []Notice
	// Decisions are those of a run whose decisions are traced, and Assumptions what the model said to assume. Both
	// need visibility full.
	Decisions   []Decision
	Assumptions []Assumption
	// Delegations are those that have ended.
	Delegations []Delegation
	// Instructions are those that were followed, as JSON. They need visibility full.
	Instructions []json.RawMessage
	// Result is nil while Done has not come.
	Result *Result
}

// Notice is a warning.
type Notice struct{ Code, Text string }

// Collector folds a run's events into a reply, for encoders that do not stream. Streamed and collected texts are
// the same, because both are the concatenated deltas. The zero value is ready.
type Collector struct {
	reply Reply
	texts [Answer + 1]strings.Builder
	args  []*strings.Builder

	decisions DecisionLog
	// last is the index of the last call.
	last int
}

// Push takes the next event.
func (c *Collector) Push(e Event) {
	c.decisions.Push(&e)
	switch e.Kind {
	case Started, StrategySwitched:
		if e.Info != nil {
			c.reply.Info = *e.Info
		}
	case SegmentStart:
		if e.Segment == ToolCall {
			c.call(e.Call)
		}
	case SegmentDelta:
		if e.Segment == ToolCall {
			c.call(e.Call).WriteString(e.Text)
		} else if int(e.Segment) < len(c.texts) {
			c.texts[e.Segment].WriteString(e.Text)
		}
		c.reply.Logprobs = append(c.reply.Logprobs, e.Logprobs...)
	case PromptScored:
		c.reply.Prompt = e.Logprobs
	case Warning:
		c.reply.Warnings = append(c.reply.Warnings, Notice{e.Code, e.Text})
	case Assumed:
		if e.Assumption != nil {
			c.reply.Assumptions = append(c.reply.Assumptions, *e.Assumption)
		}
	case DelegationEnd:
		if e.Delegation != nil {
			c.reply.Delegations = append(c.reply.Delegations, *e.Delegation)
		}
	case Instructed:
		c.reply.Instructions = append(c.reply.Instructions, json.RawMessage(e.Text))
	case Done:
		c.reply.Result = e.Result
	}
}

// call returns the arguments of a call, which is added if it is new.
func (c *Collector) call(call Call) *strings.Builder {
	n := len(c.reply.Calls)
	if n == 0 || c.last != call.Index {
		c.last = call.Index
		c.reply.Calls = append(c.reply.Calls, chattemplate.ToolCall{ID: call.ID, Name: call.Name})
		c.args = append(c.args, new(strings.Builder))
		n++
	}
	return c.args[n-1]
}

// Reply returns what the events so far add up to.
func (c *Collector) Reply() Reply {
	r := c.reply
	r.Decisions = c.decisions.Decisions()
	r.Answer, r.Reasoning = c.texts[Answer].String(), c.texts[Reasoning].String()
	r.Summary, r.Preamble = c.texts[Summary].String(), c.texts[Preamble].String()
	r.Calls = append([]chattemplate.ToolCall(nil), r.Calls...)
	for i := range r.Calls {
		r.Calls[i].Arguments = c.args[i].String()
	}
	return r
}
