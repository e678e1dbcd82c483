package participant

import (
	"context"
	"errors"
	"slices"

	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/server/mew/encoder"
	"runner/server/mew/envelope"
	"runner/server/wire"
)

// answer answers a question.
func (s *session) answer(a *active) {
	began := s.p.cfg.Clock()
	var said envelope.ChatText
	if !a.trigger.Read(&said) {
		return // never: chat has checked it
	}
	defer s.forget()
	s.mu.Lock()
	id := s.id
	s.mu.Unlock()
	private := alone(a.trigger, id)
	outer := a.trigger.Context
	if !envelope.RoomWithin(outer) {
		outer = "" // the reasoning begins at the top level
	}
	tools, routes := s.functions()
	took, sure := s.p.expect()
	reason := "error"
	defer func() { s.finish(a, reason) }()
	cfg := encoder.Config{
		From: id, Trigger: a.trigger.ID, Outer: outer, Estimate: took, Confidence: sure, May: s.may, Admit: s.p.admit,
		Clock: s.p.cfg.Clock, NewID: s.p.cfg.NewID,
		Overflow: func(context string, step envelope.Step) { s.overflow(a, context, step) },
		Route: func(function string) ([]string, string) {
			r, ok := routes[function]
			if !ok {
				return nil, function
			}
			return []string{r.participant}, r.name
		},
	}
	with := ""
	if private {
		cfg.To, with = []string{a.trigger.From}, a.trigger.From
		a.to = cfg.To
	}
	remembered := false
	a.remember = func(reply string) {
		if !remembered {
			s.p.history.add(entry{from: a.trigger.From, text: said.Text, with: with})
			s.p.history.add(entry{text: reply, with: with})
		}
		remembered = true
	}
	enc := encoder.New(cfg, func(e *envelope.Envelope) error { return s.deliver(a, e) })
	t := turns{s: s, a: a, enc: enc, tools: tools}
	reply, err := t.run(said.Text, private)
	a.over = true
	var by *cancelled
	switch {
	case err == nil:
		reason = "complete"
		a.remember(reply.Answer)
		sure = nil
		if r := reply.Result; r != nil && !private { // nobody else learns of a private answer
			sure = r.Score
		}
		s.p.learn(s.p.cfg.Clock().Sub(began), sure)
		return
	case errors.As(context.Cause(a.ctx), &by):
		reason = "cancelled"
		err = enc.Cancel(reason, by.by)
	case errors.Is(context.Cause(a.ctx), errLost):
		return
	case a.ctx.Err() != nil:
		reason = "shutdown"
		err = enc.Cancel(reason, "")
	default:
		code := wire.FromError(err, nil).Code
		s.p.cfg.Logger.Warn("a question could not be answered", "code", code)
		if err = enc.Cancel(reason, ""); err == nil {
			s.reply(envelope.Chat, cfg.To, []string{a.trigger.ID}, "",
				envelope.Answer("This could not be answered: "+code+".", "plain"))
		}
	}
	if err != nil {
		s.stop(errLost)
	}
}

// deliver sends a message of an answer. After the answer is cancelled, only the messages about its end are sent.
func (s *session) deliver(a *active, e *envelope.Envelope) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if a.ctx.Err() != nil && !a.over {
		return nil
	}
	switch e.Kind {
	case envelope.Start:
		s.mu.Lock()
		a.starts = append(a.starts, e.ID)
		s.mu.Unlock()
	case envelope.MCPRequest, envelope.MCPProposal:
		s.expect(e)
	case envelope.Chat: // before it is sent, because what others say then comes after it
		var said envelope.ChatText
		if e.Context == a.trigger.Context && e.Read(&said) {
			a.remember(said.Text)
		}
	}
	return s.send(e)
}

// turns are the runs that make up one answer.
type turns struct {
	s     *session
	a     *active
	enc   *encoder.Encoder
	tools []chattemplate.Tool
}

// run generates until there is an answer, and returns it.
func (t *turns) run(question string, private bool) (generation.Reply, error) {
	p := t.s.p
	req := p.cfg.Request
	req.Tools = t.tools
	var turn []chattemplate.Message // the messages since the question
	for step := 0; ; {
		req.Messages = slices.Concat(p.cfg.Request.Messages,
			messages(t.a.said, t.a.heard, t.a.trigger.From, question, private), turn)
		if step == p.cfg.Steps {
			req.ToolChoice = generation.ToolChoiceNone
		}
		reply, started, err := t.generate(req)
		var long *generation.PromptTooLongError
		switch {
		case err == nil:
		case errors.As(err, &long) && t.shorten():
			continue
		case !started && step == 0 && t.a.ctx.Err() == nil && len(req.Tools) > 0 && p.cfg.Tools == nil:
			req.Tools = nil // functions that others offer must not prevent an answer
			continue
		default:
			return reply, err
		}
		if reply.Result == nil || reply.Result.Finish != reasoning.FinishToolCalls || step == p.cfg.Steps {
			return reply, nil
		}
		step++
		if !reply.Result.Specialist {
			req.Delegation.Specialist = nil // the specialist has returned
		}
		results, err := t.s.results(t.a.ctx, t.enc)
		if err != nil {
			return reply, err
		}
		turn = append(turn, chattemplate.Message{Role: chattemplate.Assistant, Preamble: reply.Preamble,
			Content: reply.Answer, ToolCalls: reply.Calls})
		turn = append(turn, results...)
	}
}

// shorten forgets the older half of what others said. It reports false if nothing is left.
func (t *turns) shorten() bool {
	if t.a.said.halve() {
		t.s.p.history.halve()
		return true
	}
	return t.a.heard.halve()
}

// generate runs one turn. started says whether it has begun.
func (t *turns) generate(req generation.Request) (reply generation.Reply, started bool, err error) {
	var all generation.Collector
	for e, err := range t.s.p.cfg.Generate(t.a.ctx, req, t.s.p.cfg.Observe(t.a.trigger.ID)) {
		if err == nil {
			err = context.Cause(t.a.ctx)
		}
		if err == nil {
			all.Push(e)
			started = true
			err = t.enc.Push(&e)
		}
		if err != nil {
			return all.Reply(), started, err
		}
	}
	reply = all.Reply()
	if reply.Result != nil && reply.Result.Trace != "" {
		t.s.p.cfg.Logger.Info("a trace was stored", "question", t.a.trigger.ID, "trace", reply.Result.Trace)
	}
	return reply, started, context.Cause(t.a.ctx)
}
