package openai

import (
	"strings"

	"runner/generation"
	"runner/reasoning"
	"runner/server/internal/contract"
)

// chatReply collects the events of a choice into its message.
type chatReply struct {
	events      generation.Collector
	delegations contract.DelegationLog
	speech      speech
	content     strings.Builder
	// free unpacks the texts of custom tools' calls from their JSON, before push.
	free contract.FreeCalls
}

func (r *chatReply) push(e *reasoning.Event) error {
	r.events.Push(*e)
	r.delegations.Push(e)
	if e.Kind == reasoning.SegmentDelta && (e.Segment == reasoning.Answer || e.Segment == reasoning.Preamble) {
		if r.speech.joins(e.Segment) {
			r.content.WriteString(gap)
		}
		r.content.WriteString(e.Text)
	}
	return nil
}

// completion returns the answer with all choices.
func (c *chatOrder) completion(h head, replies []chatReply) *ChatCompletion {
	out := &ChatCompletion{
		ID: h.id, Object: h.object, Created: h.created, Model: h.model, SystemFingerprint: h.fingerprint,
		Choices: make([]Choice, len(replies)),
	}
	results := make([]*reasoning.Result, len(replies))
	for i := range replies {
		r := replies[i].events.Reply()
		results[i] = r.Result
		out.Choices[i] = Choice{
			Index: i, Message: c.message(&r, &replies[i].delegations, replies[i].content.String()),
			FinishReason: finishOf(r.Result, c.legacy), FinishDetail: r.Result.Detail,
			TraceID: r.Result.Trace,
		}
		if len(r.Logprobs) > 0 {
			out.Choices[i].Logprobs = logprobsOf(r.Logprobs)
		}
		own := remarksOf(r.Result, r.Warnings)
		switch {
		case len(replies) == 1:
			out.Extras = extrasOf(&r.Info, r.Result, c.warnings, &own)
		case i == 0:
			out.Extras = extrasOf(&r.Info, r.Result, c.warnings, nil)
			fallthrough
		default:
			out.Choices[i].Remarks = own
		}
	}
	out.Usage = usageOf(results)
	return out
}

// message returns the message of a choice. spoken is its preamble and its answer in the order of the run.
func (c *chatOrder) message(r *generation.Reply, d *contract.DelegationLog, spoken string) AnswerMessage {
	m := AnswerMessage{
		Role: "assistant", Reasoning: r.Reasoning, ReasoningContent: r.Reasoning, ReasoningSummary: r.Summary,
		MessageEnd: endOf(r.Result, r.Decisions, d),
	}
	if c.form != "" {
		spoken, m.Preamble = r.Answer, r.Preamble
	}
	if spoken != "" || len(r.Calls) == 0 {
		m.Content = &spoken
	}
	for _, call := range r.Calls {
		f := FunctionCall{Name: call.Name, Arguments: call.Arguments}
		if c.legacy {
			m.FunctionCall = &f
			continue
		}
		if c.custom[call.Name] {
			custom := &CustomCall{Name: call.Name, Input: call.Arguments}
			m.ToolCalls = append(m.ToolCalls, AnswerCall{ID: call.ID, Type: typeCustom, Custom: custom})
			continue
		}
		m.ToolCalls = append(m.ToolCalls, AnswerCall{ID: call.ID, Type: "function", Function: &f})
	}
	return m
}
