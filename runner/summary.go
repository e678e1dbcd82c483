package runner

import (
	"errors"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/filter"
	"runner/reasoning/prompts"
)

// summaryPass is the second, short generation that condenses the reasoning, in the same batches as the answer. Its
// sequence begins with the prompt and the reasoning, so the prefix cache gives it a fork of the turn's own.
type summaryPass struct {
	turn   *turn
	lane   lane
	limit  int
	split  reader.Reader
	guard  *filter.Guard
	opened bool
	done   bool
}

// beginSummary starts the summary of the reasoning so far, once, if one was asked for and there is something to
// summarize.
func (t *turn) beginSummary() {
	if t.summarized || t.output.inner || t.req.Visibility != reasoning.VisibilitySummary || t.reasoned == 0 ||
		!t.output.reasoned {
		return
	}
	t.result.SummarySource = "reasoning"
	t.startPass(t.family().Close(t.lane.tokens[:t.reasoned]), t.summaryPrompt())
}

// summarizeLate makes good for a summary that no answer or call has started, or says that there is none.
func (t *turn) summarizeLate() {
	if t.summarized || t.output.inner || !t.output.reasoned || t.req.Visibility != reasoning.VisibilitySummary {
		return
	}
	if t.beginSummary(); t.summarized {
		return
	}
	if t.stage.thought() != "" && t.output.answered {
		t.summarizeEarlier()
	} else {
		t.output.warn(generation.CodeSummaryUnavailable, "the reasoning did not come to its end")
	}
}

// beginPosthoc starts an explanation of an answer that came without reasoning.
func (t *turn) beginPosthoc() {
	t.result.SummarySource = "posthoc"
	t.startPass(t.answeredTokens(), prompts.PosthocV1)
}

// answeredTokens returns the whole turn, ready for another message.
func (t *turn) answeredTokens() []backend.Token {
	tokens := t.lane.tokens
	if last := tokens[len(tokens)-1]; t.r.model.Vocab().EndsGeneration(last) {
		tokens = tokens[:len(tokens)-1]
	}
	return t.family().Close(tokens)
}

// summarizeEarlier starts the summary of a run whose last turn went to the answer at once. What the turns before it
// thought stands in its prompt.
func (t *turn) summarizeEarlier() {
	t.result.SummarySource = "reasoning"
	t.startPass(t.answeredTokens(), t.summaryPrompt())
}

// summaryPrompt asks for a summary of the length that is wanted.
func (t *turn) summaryPrompt() string {
	if t.req.DetailedSummary {
		return prompts.SummaryDetailedV1
	}
	return prompts.SummaryConciseV1
}

func (t *turn) startPass(prefix []backend.Token, prompt string) {
	t.summarized = true
	ask, err := t.family().SummaryTurn(prompt)
	if err != nil {
		t.output.warn(generation.CodeSummaryUnavailable, "the model's format has no way to ask for a summary")
		t.result.SummarySource = ""
		return
	}
	p := &summaryPass{turn: t, limit: t.req.SummaryTokens}
	if p.limit == 0 {
		p.limit = 160
		if t.req.DetailedSummary {
			p.limit = 400
		}
	}
	p.limit = min(p.limit, t.r.info.ContextSize-len(prefix)-len(ask))
	if p.limit <= 0 {
		t.output.warn(generation.CodeSummaryUnavailable, "the context has no room left for a summary")
		t.result.SummarySource = ""
		return
	}
	p.split, err = t.family().Reader(reader.Config{
		Vocab: t.r.model.Vocab(), Start: chattemplate.StartAnswer, Emit: p.event, Markers: t.output.markers,
	})
	if err != nil {
		t.output.warn(generation.CodeSummaryUnavailable, "the summary could not be started")
		t.result.SummarySource = ""
		return
	}
	p.lane = lane{ctx: t.ctx, owner: p, principal: t.req.Principal, aside: true}
	p.lane.tokens = make([]backend.Token, 0, len(prefix)+len(ask)+p.limit)
	p.lane.tokens = append(append(p.lane.tokens, prefix...), ask...)
	p.lane.sampling = t.sight.sampling[partSummary]
	if text := strings.TrimSpace(strings.Join([]string{t.stage.thought(), t.output.thoughts.String(),
		t.output.reasons.String()}, "\n")); text != "" {
		p.guard = filter.NewGuard(t.r.model.Vocab(), text)
		p.lane.constraint = p.guard
	}
	t.pass = p
	t.r.sched.add(&p.lane, true)
}

func (p *summaryPass) started(*lane, int) {}

func (p *summaryPass) accept(l *lane, out *backend.Output) {
	if p.done {
		return
	}
	p.turn.result.Usage.Summary++
	p.turn.generated()
	p.limit--
	l.tokens = append(l.tokens, out.Token)
	if p.guard != nil {
		p.guard.Accept(out.Token)
	}
	p.split.Push(out.Token)
	state := p.split.State()
	over := state.Ended || state.Segment == reasoning.Header || p.turn.r.model.Vocab().EndsGeneration(out.Token)
	if !over && (p.limit <= 0 || len(l.tokens) >= p.turn.r.info.ContextSize) {
		p.turn.output.warn("summary_cut", "the summary reached its token limit and is cut off")
		over = true
	}
	if over {
		p.finish(l)
	}
}

// event passes the pass's answer on as the summary.
func (p *summaryPass) event(e reasoning.Event) {
	if e.Segment != reasoning.Answer || e.Kind != reasoning.SegmentDelta {
		return
	}
	if !p.opened {
		p.opened = true
		p.send(reasoning.Event{Kind: reasoning.SegmentStart})
	}
	p.send(e)
}

// send hands on an event of the summary.
func (p *summaryPass) send(e reasoning.Event) {
	e.Segment = reasoning.Summary
	p.turn.output.stop.Push(e)
}

func (p *summaryPass) finish(l *lane) {
	if p.done {
		return
	}
	l.done = true
	p.end("the model gave no summary", false)
}

// end closes the summary, and the turn if only the summary was left. why is the warning where there is no summary,
// or where what there is broke off.
func (p *summaryPass) end(why string, broke bool) {
	p.done = true
	p.split.Finish()
	if p.opened {
		p.send(reasoning.Event{Kind: reasoning.SegmentEnd})
	} else {
		p.turn.result.SummarySource = ""
	}
	if !p.opened || broke {
		p.turn.output.warn(generation.CodeSummaryUnavailable, why)
	}
	if p.turn.mainDone {
		p.turn.done()
	}
}

func (p *summaryPass) full(l *lane) { p.finish(l) }

func (p *summaryPass) failed(l *lane, err error) {
	l.done = true
	if p.done {
		return
	}
	if p.turn.ctx.Err() != nil || errors.Is(err, generation.ErrClosed) {
		p.done = true
		p.turn.failed(p.turn.lane, err)
		return
	}
	p.end("the summary pass failed", true)
}
