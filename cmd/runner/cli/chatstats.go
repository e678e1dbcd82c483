package cli

import (
	"context"
	"fmt"
	"time"

	"runner/backend"
	"runner/generation"
	"runner/reasoning"
)

// stats are the figures of a chat's answers.
type stats struct {
	// last is the last answer that ended, info the model that gave it, and loaded how long that took to load.
	last   *generation.Reply
	info   backend.Info
	loaded time.Duration

	answers int
	usage   reasoning.Usage
	decode  time.Duration
	// first is the sum of the times to the first token.
	first time.Duration
}

// add counts an answer. One that was stopped has no figures.
func (s *stats) add(r generation.Reply, info backend.Info, loaded time.Duration) {
	if r.Result == nil {
		return
	}
	s.last, s.info, s.loaded = &r, info, loaded
	s.answers++
	s.usage.Add(&r.Result.Usage)
	s.decode += r.Result.Timing.Decode
	s.first += r.Result.Timing.FirstToken
}

// showStats shows the figures of the last answer and of the conversation.
func (c *chat) showStats(context.Context, string) error {
	s := &c.stats
	if s.last == nil {
		return Input("there is no answer yet").Hint("send a message first")
	}
	w := c.app.Stdout()
	fmt.Fprintln(w, "The last answer:")
	info := s.info
	info.ContextReason = "" // how the context was chosen is no figure of an answer
	writeTimings(w, s.loaded, info, s.last.Info, s.last.Result)
	fmt.Fprintln(w, "The conversation:")
	tab := Table(w)
	last := s.last.Result.Usage
	used := last.Prompt + last.Completion
	fmt.Fprintf(tab, "context used\t%d of %d tokens, %.0f %%\n", used, s.info.ContextSize,
		100*float64(used)/float64(max(s.info.ContextSize, 1)))
	fmt.Fprintf(tab, "answers\t%d, first token after %s on average\n", s.answers,
		seconds(s.first/time.Duration(s.answers)))
	fmt.Fprintf(tab, "prompts\t%d tokens, %d from the cache\n", s.usage.Prompt, s.usage.Cached)
	fmt.Fprintf(tab, "generated\t%d tokens: %d reasoning, %d answer; %s\n", s.usage.Completion, s.usage.Reasoning,
		s.usage.Answer, rate(s.usage.Completion-s.answers, s.decode))
	if s.usage.Summary > 0 {
		fmt.Fprintf(tab, "summaries\t%d tokens\n", s.usage.Summary)
	}
	return tab.Flush()
}
