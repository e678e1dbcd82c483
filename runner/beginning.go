package runner

import (
	"slices"

	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/reasoning"
)

// This file is about answers that go on from the last message of a request (generation.Request.Continues). The message
// is read as if the model had written it, so that the reader and the form of the answer are where its text ends. But it
// brings no events. Its bytes are text: no control token comes from them, and they cannot open reasoning or a call.

// goesOn checks a request whose answer goes on from its last message, and turns its reasoning off.
func (j *job) goesOn() error {
	if !j.req.Continues {
		return nil
	}
	switch last := lastOf(j.req.Messages); {
	case last != nil && last.Role == chattemplate.Assistant && last.Reasoning != "":
		// It is of another turn, and this one has begun without it.
		j.forgot = true
		j.req.Messages = slices.Clone(j.req.Messages)
		lastOf(j.req.Messages).Reasoning = ""
		return j.goesOn()
	case j.loop != nil:
		return generation.BadField("Delegation", "leave it out, or end with a message of the user",
			"a specialist cannot reason before an answer that has begun")
	case j.req.MustCall():
		return generation.BadField("ToolChoice", "use auto, or end with a message of the user",
			"an answer that has begun cannot be a call")
	case len(j.req.Messages) < 2 || last.Role != chattemplate.Assistant:
		return generation.BadField("Continues", "end with a message of the assistant after another one",
			"there is no message that an answer can go on from")
	case last.Content == "" && len(last.ToolCalls) == 0: // nothing has begun
		j.req.Messages, j.req.Continues = j.req.Messages[:len(j.req.Messages)-1], false
		return nil
	}
	j.req.Effort = reasoning.EffortNone
	return nil
}

// openBeginning adds to a prompt what leads to the answer, and then the beginning of the answer.
//
// The beginning could make the model say in its answer what it has read. So a caller that may not see all reasoning
// cannot give one where the prompt has some of it.
func (t *turn) openBeginning(p *chattemplate.Prompt) (err error) {
	if capped(t.job.req.MaySee, t.job.req.Visibility) && slices.Contains(p.Origins, chattemplate.Unseen) {
		return generation.BadField("Continues", "end with a message of the user",
			"a caller that may not see all reasoning cannot begin an answer after reasoning that was sealed or remembered")
	}
	text := lastOf(t.req.Messages).Content
	if len(text) > t.r.maxText {
		return t.r.tooMuch(generation.MessagesField)
	}
	if t.beginning, err = t.r.tokenize(text, false); err != nil {
		return err
	}
	p.Tokens = append(p.Tokens, t.family().OpenAnswer(p.Start)...)
	p.Start = chattemplate.StartAnswer
	p.Origins = append(p.Origins, make([]chattemplate.Origin, len(p.Tokens)-len(p.Origins))...)
	for _, token := range t.beginning {
		p.Tokens, p.Origins = append(p.Tokens, token), append(p.Origins, chattemplate.Seen)
	}
	return nil
}

// readBeginning feeds the reader the beginning of the answer. events are those of the reader.
func (t *turn) readBeginning(events *resumed) error {
	for _, token := range t.beginning {
		if hold := t.model.Hold(); hold != nil && !hold.Allows(token) {
			return generation.BadField("Continues", "begin as the form says, or leave the form or the message out",
				"the answer cannot go on from the last message, which does not begin as the answer must")
		}
		t.model.PushOutput(token, nil)
	}
	if st := t.model.State(); events.strange || st.Place != reader.PlaceAnswer || st.Segment != reasoning.Answer {
		return generation.BadField("Continues", "leave the marks of reasoning and calls out of it",
			"the answer cannot go on from the last message, which opens reasoning or a call")
	}
	events.over = true
	return nil
}

// resumed takes the events of a reader and leaves the beginning of the answer out.
type resumed struct {
	// rest is what the reader has not sent. It may hold the last bytes back until it knows what they are.
	rest string
	// kept are the events that go before the first text of the model. over says that the reader has the beginning.
	kept []reasoning.Event
	over bool
	// strange says that the beginning is not only the text of an answer.
	strange bool
	emit    func(reasoning.Event)
}

func (b *resumed) push(e reasoning.Event) {
	if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer && b.rest != "" {
		n := min(len(b.rest), len(e.Text))
		for b.rest[:n] != e.Text[:n] && reader.IsSpace(b.rest[0]) { // the reader leaves out what stands before an answer
			b.rest = b.rest[1:]
			n = min(n, len(b.rest))
		}
		if b.rest[:n] == e.Text[:n] {
			b.rest, e.Text = b.rest[n:], e.Text[n:]
		}
		if e.Text == "" && len(e.Logprobs) == 0 {
			return
		}
	}
	if !b.over {
		b.strange = b.strange || e.Kind == reasoning.SegmentDelta ||
			e.Kind != reasoning.Warning && e.Segment != reasoning.Answer
		b.kept = append(b.kept, e)
		return
	}
	for _, kept := range b.kept {
		b.emit(kept)
	}
	b.kept = nil
	b.emit(e)
}
