package runner

import (
	"errors"
	"slices"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/filter"
	"runner/reasoning/prompts"
)

// summaryPass is a second, short generation that summarizes the reasoning. It runs in the same batches as the answer.
// Its sequence begins with the prompt and the reasoning, so the prefix cache forks the turn's sequence for it.
type summaryPass struct {
	turn   *turn
	lane   lane
	limit  int
	split  reader.Reader
	guard  *filter.Guard
	opened bool
	done   bool
}

// beginSummary starts the summary of the reasoning so far, if one was asked for and there is reasoning. Only the first
// such call has an effect. After an answer or a call without a summary before it, the summary comes at the end.
func (t *turn) beginSummary() {
	if !t.job.settled && len(t.output.own) == 0 && t.req.Visibility == reasoning.VisibilitySummary {
		t.summarize()
	}
}

// summarize starts the summary of the turn's own reasoning, unless there is none that was finished.
func (t *turn) summarize() {
	if t.summarized || t.reasoned == 0 || !t.output.reasoned {
		return
	}
	t.result.SummarySource = "reasoning"
	t.startPass(t.family().Close(t.lane.tokens[:t.reasoned]), t.summaryPrompt())
}

// answerBegun tells the reader that an answer or a call that begins has no summary before it, if that is so.
func (t *turn) answerBegun(st *reader.State) {
	own := st.Segment == reasoning.ToolCall && t.answers(st.Call.Name)
	if !t.summarized && !own && t.of.Counts != reasoning.Reasoning {
		t.summarySettled()
	}
}

// summarySettled tells the reader, once, that nothing more of the summary comes before the answer or a call.
func (t *turn) summarySettled() {
	if !t.job.settled && t.job.req.Visibility == reasoning.VisibilitySummary {
		t.job.settled = true
		t.send(reasoning.Event{Kind: reasoning.SummarySettled})
	}
}

// summarizeLate starts the summary at the end of the last turn of a run if no answer or call has started it. If that is
// impossible, it warns that there is none.
func (t *turn) summarizeLate() {
	if t.summarized || !t.output.reasoned || t.wanted() != reasoning.VisibilitySummary {
		return
	}
	if t.of.Specialist == "" {
		if t.summarize(); t.summarized {
			return
		}
	}
	if (t.of.Heard.Thoughts != "" || t.of.Specialist != "") && (t.output.answered || len(t.output.calls) > 0) {
		t.summarizeAll()
	} else {
		t.warn(generation.CodeSummaryUnavailable, "the reasoning was not finished")
	}
}

// wanted returns the visibility that the caller asked for if the run ends with this turn. A turn that another one
// follows owes nothing. The run ends with a turn of a specialist if that calls functions of the client.
func (t *turn) wanted() reasoning.Visibility {
	pending := len(t.output.calls) > 0
	switch {
	case t.of.Specialist != "" && !pending:
	case len(t.output.own) > 0 && !pending && !t.of.Last && t.result.Finish != reasoning.FinishLength:
	default:
		return t.job.req.Visibility
	}
	return reasoning.VisibilityNone
}

// beginPosthoc starts an explanation of an answer that came without reasoning.
func (t *turn) beginPosthoc() {
	t.result.SummarySource = "posthoc"
	t.startPass(t.answeredTokens(), prompts.PosthocV1)
}

// answeredTokens returns the tokens of the whole turn, closed so that another message can follow.
func (t *turn) answeredTokens() []backend.Token {
	tokens := t.lane.tokens
	if last := tokens[len(tokens)-1]; t.r.model.Vocab().EndsGeneration(last) {
		tokens = tokens[:len(tokens)-1]
	}
	return t.family().Close(tokens)
}

// summarizeAll starts the summary of a run from all of its last turn. The prompt has the reasoning of the turns before,
// and all text of a specialist may be reasoning.
func (t *turn) summarizeAll() {
	t.result.SummarySource = "reasoning"
	t.startPass(t.answeredTokens(), t.summaryPrompt())
}

// summaryPrompt returns the instruction for a summary of the requested length.
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
		t.noSummary("the model's format does not allow asking for a summary")
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
		t.noSummary("the context has no room for a summary")
		return
	}
	p.split, err = t.family().Reader(reader.Config{
		Vocab: t.r.model.Vocab(), Start: chattemplate.StartAnswer, Emit: p.event, Markers: t.output.markers,
	})
	if err != nil {
		t.noSummary("the summary could not be started")
		return
	}
	asked := chattemplate.Prompt{Tokens: slices.Concat(prefix, ask), Origins: t.lane.origins}
	asked.Origins = asked.Origins[:min(len(asked.Origins), len(prefix))]
	p.lane = *t.newLane(&asked, len(asked.Tokens)+p.limit)
	p.lane.owner, p.lane.aside, p.lane.beside = p, true, t.lane
	p.lane.sampling = t.sight.sampling[partSummary]
	if text := strings.TrimSpace(strings.Join([]string{t.of.Heard.Thoughts, t.output.thoughts.String(),
		t.output.reasons.String()}, "\n")); text != "" {
		p.guard = filter.NewGuard(t.r.model.Vocab(), text)
		p.lane.constraint = &guarded{p.guard}
	}
	t.pass = p
	t.r.sched.add(&p.lane, true)
}

// noSummary warns that there is no summary.
func (t *turn) noSummary(why string) {
	t.result.SummarySource = ""
	t.warn(generation.CodeSummaryUnavailable, why)
	t.summarySettled()
}

func (p *summaryPass) started(*lane, int) {}

func (p *summaryPass) drafted(fed, taken int) { p.turn.drafted(fed, taken) }

func (p *summaryPass) accept(l *lane, out *backend.Output) {
	if p.done {
		return
	}
	p.turn.result.Usage.Summary++
	p.turn.counted()
	p.limit--
	before := p.split.State()
	if p.guard != nil {
		p.guard.Accept(out.Token)
	}
	p.split.Push(out.Token)
	state := p.split.State()
	of := chattemplate.Seen
	if hidesOf(&before) || hidesOf(&state) {
		of = chattemplate.Unseen // what the model thinks in the pass is left out
	}
	l.push(out.Token, of)
	l.unseen = l.origins != nil && hidesOf(&state)
	over := state.Ended || state.Segment == reasoning.Header || p.turn.r.model.Vocab().EndsGeneration(out.Token)
	if !over && (p.limit <= 0 || len(l.tokens) >= p.turn.r.info.ContextSize) {
		p.turn.warn(generation.CodeSummaryCut, "the summary reached its token limit and was cut off")
		over = true
	}
	if over {
		p.finish(l)
	}
}

// hidesOf reports whether the next text of a summary pass is left out or may be.
func hidesOf(st *reader.State) bool {
	return st.Segment == reasoning.Reasoning || st.Segment == reasoning.Header
}

// event takes an event of the pass and sends the text of its answer as the summary.
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

// send sends an event of the summary.
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

// end closes the summary. If the turn was waiting only for the summary, it ends the turn too. broke says that the
// summary is incomplete. If it is incomplete or empty, the run gets the warning why.
func (p *summaryPass) end(why string, broke bool) {
	p.done = true
	p.split.Finish()
	if p.opened {
		p.send(reasoning.Event{Kind: reasoning.SegmentEnd})
	} else {
		p.turn.result.SummarySource = ""
	}
	if !p.opened || broke {
		p.turn.warn(generation.CodeSummaryUnavailable, why)
	}
	p.turn.summarySettled()
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
	if p.turn.job.ctx.Err() != nil || errors.Is(err, generation.ErrClosed) {
		p.done = true
		p.turn.failed(p.turn.lane, err)
		return
	}
	p.end("the summary pass failed", true)
}
