package runner

import (
	"strings"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
)

// This file is what a loop uses to carry out a request in several turns, and how the turns count for it.

// Model implements generation.Turns.
func (j *job) Model() (generation.ModelInfo, generation.Abilities) { return j.r.info, j.r.Abilities() }

// Random implements generation.Turns.
func (j *job) Random() uint64 { return j.random }

// Plan implements generation.Turns.
func (j *job) Plan(of *generation.Turn) error {
	if err := validateMessages(of.Request.Messages); err != nil {
		return err
	}
	t := j.newTurn(of)
	if err := t.newPlan(); err != nil {
		return err
	}
	j.planned = t
	return nil
}

// Emit implements generation.Turns.
func (j *job) Emit(e reasoning.Event) {
	if !j.started {
		j.early = append(j.early, e)
	} else if j.passes(&e) {
		j.show(e)
	}
}

// Done implements generation.Turns.
func (j *job) Done(result *reasoning.Result) error {
	done := reasoning.Event{Kind: reasoning.Done, Result: result}
	if j.passes(&done); j.tape != nil {
		j.tape.close(nil)
	}
	if j.showDone(done); j.left {
		return errLeft
	}
	return nil
}

// Remember implements generation.Turns.
func (j *job) Remember(call *chattemplate.ToolCall, what any) {
	if !j.req.Unremembered {
		at := j.r.moment(&j.req, lastOf(j.req.Messages), call)
		j.r.cfg.CallMemory.keepForLoop(callKey{j.req.Principal, call.ID}, at, what)
	}
}

// Recall implements generation.Turns.
func (j *job) Recall(message int) any {
	id := j.req.Messages[message].ToolCalls[0].ID
	known, _ := j.r.cfg.CallMemory.recall(callKey{j.req.Principal, id}, func() moment {
		return j.r.momentAt(&j.req, message)
	})
	return known.loop
}

// counted counts what a turn says as the loop wants it, and notes it for the loop.
type counted struct {
	as *generation.Turn
	// text is everything but the turn's reasoning and its calls. thoughts is what counts as reasoning.
	text, thoughts strings.Builder
	heard, begun   [reasoning.Answer + 1]bool
}

// count sends an event as it counts in the request. Text of a specialist becomes reasoning, or a preamble if the
// specialist is shown. Calls that the loop answers are kept from the reader, and the client's calls get their own
// numbers.
func (o *output) count(e reasoning.Event) {
	switch e.Kind {
	case reasoning.SegmentStart, reasoning.SegmentDelta, reasoning.SegmentEnd:
		switch e.Segment {
		case reasoning.Summary: // it is of the whole request
		case reasoning.ToolCall:
			if o.turn.answers(e.Call.Name) {
				return
			}
			e.Call.Index, e.Specialist = len(o.calls)-1, o.counted.as.Specialist
		default:
			o.countText(e)
			return
		}
	case reasoning.Decided:
		if !o.turn.answers(e.Call.Name) {
			e.Call.Index = o.place(e.Call.ID)
		}
	}
	o.turn.send(e)
}

// countText sends an event of reasoning, of a preamble or of the answer.
func (o *output) countText(e reasoning.Event) {
	c, from := o.counted, e.Segment
	if c.as.Specialist != "" {
		e.Specialist, e.Logprobs = c.as.Specialist, nil
		if from != reasoning.Reasoning {
			e.Segment = c.as.Counts
		}
	}
	if e.Kind == reasoning.SegmentDelta && from != reasoning.Reasoning {
		c.text.WriteString(e.Text)
	}
	apart := e.Kind == reasoning.SegmentStart && c.heard[e.Segment] && !c.begun[from]
	if e.Kind == reasoning.SegmentStart {
		c.heard[e.Segment], c.begun[from] = true, true
	}
	o.pass(e)
	if apart { // the reader separates texts of one kind within a turn, but not those of different turns
		e.Kind, e.Text = reasoning.SegmentDelta, "\n\n"
		o.pass(e)
	}
}

// pass sends an event of a text that is counted.
func (o *output) pass(e reasoning.Event) {
	if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Reasoning {
		o.counted.thoughts.WriteString(e.Text)
	}
	o.turn.send(e)
}

// place returns the number of a call among the client's calls. A call that has not begun gets the next number.
func (o *output) place(id string) int {
	for i, c := range o.calls {
		if c.ID == id {
			return i
		}
	}
	return len(o.calls)
}

// said returns what the turn has said. The turn is over.
func (t *turn) said() *generation.Said {
	o := t.output
	s := &generation.Said{Reasoning: o.thoughts.String(), Own: o.own, Calls: o.calls, Result: t.final}
	if c := o.counted; c != nil {
		s.Text = c.text.String()
		s.Heard = generation.Heard{Thoughts: c.as.Heard.Thoughts + c.thoughts.String(), Begun: c.heard}
	}
	return s
}
