package generation

import (
	"encoding/json"
	"strings"

	"runner/chattemplate"
	"runner/reasoning"
)

// Reply is the outcome of a run, collected from its events.
type Reply struct {
	// Info holds the settings in effect, after the last switch of strategy.
	Info reasoning.Info
	// Answer, Reasoning, Summary and Preamble are the concatenated texts of the segments of each kind.
	Answer, Reasoning, Summary, Preamble string
	// Calls are the tool calls, by index. Their arguments are exactly what the model wrote.
	Calls []chattemplate.ToolCall
	// Logprobs are the answer's tokens, if they were requested.
	Logprobs []reasoning.TokenLogprobs
	// Prompt are the tokens of a raw prompt, if their log probabilities were requested.
	Prompt   []reasoning.TokenLogprobs
	Warnings []Notice
	// Decisions are the run's decisions, if they are traced. Assumptions are what the model said it assumes. Both need
	// visibility full.
	Decisions   []reasoning.Decision
	Assumptions []reasoning.Assumption
	// Delegations are the delegations that have ended.
	Delegations []reasoning.Delegation
	// Instructions are the instructions that were followed, as JSON. They need visibility full.
	Instructions []json.RawMessage
	// Result is nil until Done arrives.
	Result *reasoning.Result
}

// Notice is a warning.
type Notice struct{ Code, Text string }

// Collector collects a run's events into a reply, for encoders that do not stream. A collected text equals the
// streamed one, because both are the concatenated deltas. The zero value is ready.
type Collector struct {
	reply Reply
	texts [reasoning.Answer + 1]strings.Builder
	args  []*strings.Builder

	decisions reasoning.DecisionLog
	// last is the index of the last call.
	last int
}

// Push handles the next event.
func (c *Collector) Push(e reasoning.Event) {
	c.decisions.Push(&e)
	switch e.Kind {
	case reasoning.Started, reasoning.StrategySwitched:
		if e.Info != nil {
			c.reply.Info = *e.Info
		}
	case reasoning.SegmentStart:
		if e.Segment == reasoning.ToolCall {
			c.call(e.Call)
		}
	case reasoning.SegmentDelta:
		if e.Segment == reasoning.ToolCall {
			c.call(e.Call).WriteString(e.Text)
		} else if int(e.Segment) < len(c.texts) {
			c.texts[e.Segment].WriteString(e.Text)
		}
		c.reply.Logprobs = append(c.reply.Logprobs, e.Logprobs...)
	case reasoning.PromptScored:
		c.reply.Prompt = e.Logprobs
	case reasoning.Warning:
		c.reply.Warnings = append(c.reply.Warnings, Notice{e.Code, e.Text})
	case reasoning.Assumed:
		if e.Assumption != nil {
			c.reply.Assumptions = append(c.reply.Assumptions, *e.Assumption)
		}
	case reasoning.DelegationEnd:
		if e.Delegation != nil {
			c.reply.Delegations = append(c.reply.Delegations, *e.Delegation)
		}
	case reasoning.Instructed:
		c.reply.Instructions = append(c.reply.Instructions, json.RawMessage(e.Text))
	case reasoning.Done:
		c.reply.Result = e.Result
	}
}

// call returns the arguments of a call. It adds the call if it is new.
func (c *Collector) call(call reasoning.Call) *strings.Builder {
	n := len(c.reply.Calls)
	if n == 0 || c.last != call.Index {
		c.last = call.Index
		c.reply.Calls = append(c.reply.Calls, chattemplate.ToolCall{ID: call.ID, Name: call.Name})
		c.args = append(c.args, new(strings.Builder))
		n++
	}
	return c.args[n-1]
}

// Reply returns the outcome so far.
func (c *Collector) Reply() Reply {
	r := c.reply
	r.Decisions = c.decisions.Decisions()
	r.Answer, r.Reasoning = c.texts[reasoning.Answer].String(), c.texts[reasoning.Reasoning].String()
	r.Summary, r.Preamble = c.texts[reasoning.Summary].String(), c.texts[reasoning.Preamble].String()
	r.Calls = append([]chattemplate.ToolCall(nil), r.Calls...)
	for i := range r.Calls {
		r.Calls[i].Arguments = c.args[i].String()
	}
	return r
}
