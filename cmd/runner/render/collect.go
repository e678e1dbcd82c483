package render

import (
	"runner/chattemplate"
	"runner/reasoning"
)

// Collected is what a run amounts to, as far as it is visible. The zero value is ready for the run's first event.
type Collected struct {
	Answer, Preamble, Reasoning, Summary []byte
	// HasReasoning and HasSummary say that there was a segment of that kind, be it empty.
	HasReasoning, HasSummary bool
	Calls                    []CollectedCall
	// Warnings are the warning events.
	Warnings []reasoning.Event
	// Info is what was last in effect, and Result is there once the run is done.
	Info   *reasoning.Info
	Result *reasoning.Result
}

// CollectedCall is one tool call.
type CollectedCall struct {
	reasoning.Call
	Arguments []byte
}

// Add takes in the next event.
func (c *Collected) Add(e reasoning.Event) {
	switch e.Kind {
	case reasoning.Started, reasoning.StrategySwitched:
		c.Info = e.Info
	case reasoning.Done:
		c.Result = e.Result
	case reasoning.Warning:
		c.Warnings = append(c.Warnings, e)
	case reasoning.SegmentStart:
		switch e.Segment {
		case reasoning.ToolCall:
			c.Calls = append(c.Calls, CollectedCall{Call: e.Call})
		case reasoning.Reasoning:
			c.HasReasoning = true
		case reasoning.Summary:
			c.HasSummary = true
		}
	case reasoning.SegmentDelta:
		if to := c.segment(e.Segment); to != nil {
			*to = append(*to, e.Text...)
		}
	}
}

// segment returns where the text of a segment is collected; nil for none.
func (c *Collected) segment(s reasoning.Segment) *[]byte {
	switch s {
	case reasoning.Answer:
		return &c.Answer
	case reasoning.Preamble:
		return &c.Preamble
	case reasoning.Reasoning:
		return &c.Reasoning
	case reasoning.Summary:
		return &c.Summary
	case reasoning.ToolCall:
		if n := len(c.Calls); n > 0 {
			return &c.Calls[n-1].Arguments
		}
	}
	return nil
}

// Message returns the assistant's message for the next turn.
func (c *Collected) Message() chattemplate.Message {
	m := chattemplate.Message{Role: chattemplate.Assistant, Content: string(c.Answer), Preamble: string(c.Preamble), Reasoning: string(c.Reasoning)}
	for _, call := range c.Calls {
		m.ToolCalls = append(m.ToolCalls, chattemplate.ToolCall{ID: call.ID, Name: call.Name, Arguments: string(call.Arguments)})
	}
	return m
}
