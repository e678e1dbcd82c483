package server

import (
	"context"

	"runner/generation"
	"runner/hint"
	"runner/reasoning"
	"runner/server/wire"
)

// contentLog logs the content of a run, if the operator has asked for that (--log-content). The zero value logs
// nothing.
type contentLog struct {
	server *Server
	ctx    context.Context
	reply  generation.Collector
}

// contentLog logs the messages of a run and returns the log of its reply.
func (s *Server) contentLog(ctx context.Context, req *generation.Request) *contentLog {
	if !s.cfg.LogContent {
		return &contentLog{}
	}
	for _, m := range req.Messages {
		s.log.InfoContext(ctx, "message", "key", wire.PrincipalOf(ctx).ID, "role", string(m.Role), "content", m.Content)
	}
	if req.Prompt != "" {
		s.log.InfoContext(ctx, "prompt", "key", wire.PrincipalOf(ctx).ID, "content", req.Prompt)
	}
	return &contentLog{server: s, ctx: ctx}
}

func (c *contentLog) push(e reasoning.Event) {
	if c.server == nil {
		return
	}
	c.reply.Push(e)
	if e.Kind == reasoning.Done {
		r := c.reply.Reply()
		c.server.log.InfoContext(c.ctx, "reply", "key", wire.PrincipalOf(c.ctx).ID, "answer", r.Answer, "reasoning",
			r.Reasoning, "summary", r.Summary)
	}
}

// logFailure logs an error of a model, and its hint if it has one.
func (s *Server) logFailure(what, model string, err error) {
	attrs := []any{"model", model, "error", err}
	if advice := hint.Of(err); advice != "" {
		attrs = append(attrs, "advice", advice)
	}
	s.log.Error(what, attrs...)
}
