package runner

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/filter"
)

// turn is one run of the model, from the prompt to Done. After begin, only the scheduler's goroutine may use it, until
// its events have ended.
type turn struct {
	r   *Runner
	job *job
	// of is the turn as a loop has chosen it; the only turn of a request has nothing but the request. req is its request.
	of  *generation.Turn
	req *generation.Request
	*plan

	lane   *lane
	prompt int // tokens of the prompt
	// beginning are the tokens of the prompt that the answer goes on from.
	beginning []backend.Token
	dropped   int // tokens of earlier reasoning that the format leaves out of the prompt; see droppedTokens
	limits    limits
	output    *output
	mask      mask
	// followed says that the engine follows the form of the answer or of a call's arguments itself, so that no tokens are
	// forced.
	followed bool
	// reports counts the calls of report_reasoning. unsettled counts the tokens of a preamble that is held back.
	reports, unsettled int
	// closed is the reason why the reasoning was closed early; empty if it was not.
	closed string
	// rescued says that an answer was forced because the model ended its turn inside its reasoning. This is done once.
	rescued bool

	// early is the number of tokens at the beginning of the turn that may be reasoning or the answer.
	early int
	// reasoned is the length of the sequence up to the end of the last closed reasoning; 0 if there is none.
	reasoned int
	pass     *summaryPass
	// summarized says that a summary was started or found impossible. It is tried once.
	summarized bool

	times
	result   reasoning.Result
	mainDone bool
	err      error

	// events carries the turn's events to the reader's goroutine. final is the result, which may be read after them.
	events *stream
	final  *reasoning.Result
	// generated counts the tokens that were generated, the summary's included.
	generated atomic.Int64
	// ended says that the turn is over for its job. The scheduler may still be stuck in a step with it.
	ended atomic.Bool
}

// times says when a turn was asked for, when it left the queue and when its first token came. A time that has not come
// is zero.
type times struct{ asked, began, first time.Time }

// newTurn makes a turn. Call prepare next.
func (j *job) newTurn(of *generation.Turn) *turn {
	t := &turn{r: j.r, job: j, of: of, req: &of.Request, events: newStream()}
	if p := j.planned; p != nil && p.of.Alike(of) {
		t.plan, j.planned = p.plan, nil
	}
	return t
}

// hidden reports whether all text of the turn counts as reasoning.
func (t *turn) hidden() bool { return t.of.Counts == reasoning.Reasoning }

// answers reports whether the loop answers the calls of a function.
func (t *turn) answers(name string) bool { return t.of.Answers != nil && t.of.Answers(name) }

// send records an event and passes it to the reader if the reader may see it. The scheduler wakes the reader later.
func (t *turn) send(e reasoning.Event) {
	if e.Kind == reasoning.StrategySwitched && t.of.Specialist != "" {
		return // a specialist has a prompt of its own, and the strategy is not about it
	}
	if sealed, ok := t.job.seal(&e); ok {
		t.send(sealed)
	}
	if t.job.passes(&e) {
		t.events.add(e)
		t.r.sched.toWake(t.events)
	}
}

func (t *turn) warn(code, text string) {
	t.send(reasoning.Event{Kind: reasoning.Warning, Code: code, Text: text})
}

// prepare plans the turn and renders its prompt. This may take long.
func (t *turn) prepare() error {
	r := t.r
	p, err := t.render()
	if err != nil {
		return err
	}
	rendered := len(p.Tokens)
	if err := t.open(&p); err != nil {
		return err
	}
	if len(p.Tokens) >= r.info.ContextSize {
		return &generation.PromptTooLongError{Tokens: len(p.Tokens), Context: r.info.ContextSize, Field: t.req.PromptField()}
	}
	t.prompt = len(p.Tokens)
	t.dropped = t.droppedTokens(rendered)
	t.limits = t.limitsOf(r.info.ContextSize - t.prompt)
	t.output, err = newOutput(t, p.Start)
	if err != nil {
		return err
	}
	t.lane = t.newLane(&p, min(t.prompt+t.limits.tokens, t.prompt+4096)+smallRun)
	if t.req.PromptLogprobs {
		t.lane.scoring = newScoring(r.model.Vocab(), t.req, p.Tokens)
	}
	t.lane.silent = t.req.PromptOnly
	t.follow(t.lane)
	if forms := t.model.Forms(); len(forms) > 0 {
		t.job.warming.Go(func() {
			for _, form := range forms {
				form.Warm(t.job.ctx)
			}
		})
	}
	return nil
}

// newLane makes a lane for a prompt of the turn, with room for so many tokens.
func (t *turn) newLane(p *chattemplate.Prompt, room int) *lane {
	l := &lane{ctx: t.job.ctx, owner: t, principal: t.req.Principal, repeats: t.guessable(), marks: &t.sight.marks,
		pauses: t.job.observer.Paused}
	l.tokens, l.given = append(make([]backend.Token, 0, room), p.Tokens...), len(p.Tokens)
	if capped(t.job.req.MaySee, t.job.req.Visibility) && !t.req.IsRaw() {
		l.origins = newOrigins(p, room)
		if t.lane != nil {
			l.turns = t.lane.turns // of the same turn, also when that gets its name
		} else {
			l.turns = t.turnsOf()
		}
	}
	return l
}

// render makes the prompt of the turn, and its plan if it has none. Call open next.
func (t *turn) render() (chattemplate.Prompt, error) {
	t.asked = t.r.cfg.Clock()
	if t.job.asked.IsZero() {
		t.job.asked = t.asked
	}
	if !t.req.IsRaw() {
		if err := validateMessages(t.req.Messages); err != nil {
			return chattemplate.Prompt{}, err
		}
	}
	if t.plan == nil {
		if err := t.newPlan(); err != nil {
			return chattemplate.Prompt{}, err
		}
	}
	if t.req.IsRaw() {
		return t.r.rawPrompt(t.req)
	}
	messages := t.req.Messages
	if t.req.Continues {
		messages = messages[:len(messages)-1]
	}
	t.conv.Now, t.conv.Messages = t.asked, withInstructions(messages, t.instructions)
	p, err := t.r.family.Render(t.conv)
	if errors.Is(err, chattemplate.ErrTooLong) {
		return p, t.r.tooMuch(generation.MessagesField)
	}
	if err != nil {
		return p, err
	}
	if p.Continues && t.hidesReasoning() {
		return p, generation.BadField("Messages", "end with a message of the user or a tool, or ask for visibility full",
			"the chat template makes the model continue the last message, where its reasoning and its answer cannot be "+
				"separated")
	}
	return p, nil
}

// open adds to a prompt what opens the turn, unless the prompt is raw.
func (t *turn) open(p *chattemplate.Prompt) error {
	if t.req.IsRaw() {
		return nil
	}
	skip, rendered := t.conv.Effort == reasoning.EffortNone || t.effortNone(), len(p.Tokens)
	if err := t.model.Open(p, skip); err != nil {
		return refused(err)
	}
	if len(p.Tokens) == 0 {
		return generation.BadField("Messages", "correct the template, or use another one",
			"the chat template renders no prompt")
	}
	if t.req.Continues {
		if err := t.openBeginning(p); err != nil {
			return err
		}
	}
	for _, token := range p.Tokens[rendered:] {
		p.Text += t.r.Piece(token)
	}
	return nil
}

// hidesReasoning reports whether the turn may have reasoning that its caller must not see.
func (t *turn) hidesReasoning() bool {
	asked := t.strategy == reasoning.StrategyMarkers || t.strategy == reasoning.StrategyJSON ||
		t.strategy == reasoning.StrategyTool
	return !t.sight.sees && (asked || t.family().About().MarksReasoning)
}

// family returns how the model writes this turn. After a raw prompt, nothing in the output is marked.
func (t *turn) family() family.Family {
	if t.req.IsRaw() {
		return t.r.raw
	}
	return t.r.family
}

// begin queues the turn. From here on, only the scheduler's goroutine may use it.
func (t *turn) begin() {
	if t.dropped > 0 {
		t.send(reasoning.Event{Kind: reasoning.Curated, Code: filter.CuratedHistory,
			Text: fmt.Sprintf("the format leaves the reasoning of earlier turns out of the prompt (%d tokens)",
				t.dropped)})
	}
	if t.model.Ignored() {
		t.warn(generation.CodeStrictIgnored,
			"this model's format cannot enforce the parameters of strict tools")
	}
	if t.job.plain > 0 && t.job.turns == 1 {
		why := "reasoning of earlier turns is kept only if that is requested"
		if capped(t.req.MaySee, t.req.Visibility) {
			why = "a caller that may not see reasoning cannot send it as plain text"
		}
		t.warn(generation.CodePlainReasoning,
			fmt.Sprintf("the reasoning in %d messages was left out: %s", t.job.plain, why))
	}
	if t.job.turns == 1 && !t.req.IsRaw() && !t.family().About().LaterPrompts && t.conv.LaterPrompts() {
		t.warn(generation.CodePromptMoved,
			"a system prompt after the user's first message is shown as the user's, because the model takes one at the start")
	}
	if n := len(t.conv.Orphans()); n > 0 && t.job.turns == 1 {
		t.warn(generation.CodeResultDropped,
			fmt.Sprintf("%d results were left out, because their calls are not in the conversation", n))
	}
	if t.job.forgot {
		t.warn(generation.CodePlainReasoning,
			"the reasoning of the last message was left out, because the answer goes on from its text")
	}
	if t.sight.withholds(&t.req.Sampling) {
		t.warn(generation.CodeSamplingWithheld,
			"bias and penalties do not act on text that may contain hidden reasons for calls")
	}
	t.r.sched.add(t.lane, t.job.turns > 1)
}

// infoNow returns the settings in effect.
func (t *turn) infoNow() *reasoning.Info {
	return &reasoning.Info{
		Model: t.r.info.Name, Visibility: t.job.req.Visibility, Effort: t.family().Effort(t.req.Effort, nil),
		Strategy: t.strategy, Seed: *t.req.Seed, Budget: t.job.req.Budget, Prompt: t.prompt, Iteration: t.iteration(),
	}
}

func (t *turn) started(_ *lane, cached int) {
	if !t.began.IsZero() {
		t.result.Usage.Cached = min(t.result.Usage.Cached, cached) // the rest is computed again
		return
	}
	t.began = t.r.cfg.Clock()
	t.result.Timing.Queue = t.began.Sub(t.asked)
	t.result.Usage.Prompt, t.result.Usage.Cached = t.prompt, cached
}

func (t *turn) drafted(fed, taken int) {
	t.result.Timing.Drafted += fed
	t.result.Timing.Accepted += taken
}

func (t *turn) accept(l *lane, out *backend.Output) {
	if t.first.IsZero() {
		t.first = t.r.cfg.Clock()
		t.result.Timing.Prefill = t.first.Sub(t.began)
		t.result.Timing.FirstToken = t.first.Sub(t.asked)
		if q, ok := l.seq.(backend.Reusing); ok {
			if n, ok := q.Reused(); ok {
				if l.origins != nil || !t.r.sched.cache.outlived() || l.stopped {
					n = min(n, t.result.Usage.Cached) // an engine at an address compares tokens only
				}
				t.result.Usage.Cached = min(n, t.prompt)
			}
		}
		if l.scoring != nil {
			t.send(l.scoring.event())
		}
	}
	if l.silent {
		t.finish(l, reasoning.FinishLength)
		return
	}
	tok := t.model.Chosen(out)
	if tok != out.Token {
		out = nil // its probability is another token's
	}
	st := t.model.State()
	t.count(&st)
	if st.Segment == reasoning.Reasoning && t.r.model.Vocab().EndsGeneration(tok) && !t.rescued &&
		!st.InObject && t.result.Usage.Completion < t.limits.tokens {
		t.rescued = true
		t.warn(generation.CodeAnswerForced, "the model ended its turn inside its reasoning, so an answer was forced")
		t.closeReasoning(l, "")
		t.follow(l)
		return
	}
	if t.take(l, tok, out) {
		return
	}
	if !t.req.Logprobs && !t.followed {
		for forced := t.model.Forced(); len(forced) > 0; forced = t.model.Forced() {
			for _, tok := range forced {
				if hold := t.model.Hold(); hold != nil && !hold.Allows(tok) {
					return // the reasoning was closed meanwhile, so the token does not fit any more
				}
				st := t.model.State()
				t.count(&st)
				if t.take(l, tok, nil) {
					return
				}
			}
		}
	}
}

// take appends a token that the model chose, or that it had to choose. It reports whether the turn is finished.
func (t *turn) take(l *lane, tok backend.Token, out *backend.Output) bool {
	before, thoughts := t.model.State(), t.output.thoughtful
	t.model.PushOutput(tok, out)
	after := t.model.State()
	l.push(tok, t.originOf(tok, &before, &after))
	if before.Early && !after.Early {
		t.settleEarly(t.output.thoughtful > thoughts)
	}
	t.sight.note(tok, &before, &after)
	if t.finished(l, tok, before.Place, after.Place) {
		return true
	}
	if before.Segment == reasoning.Reasoning && after.Segment != reasoning.Reasoning {
		t.reasoned = len(l.tokens)
	}
	if after.Segment == reasoning.Answer || after.Segment == reasoning.ToolCall {
		t.settle(&after)
		t.beginSummary()
		t.answerBegun(&after)
	}
	if after.Segment == reasoning.Reasoning {
		t.limitReasoning(l)
	}
	t.force(l, t.model.Follow())
	t.follow(l)
	return false
}

// follow sets the constraint and the sampling for the next token.
func (t *turn) follow(l *lane) {
	st := t.model.State()
	if t.output.onMarkers != nil && (st.Segment == reasoning.Answer || st.Place == reader.PlacePreamble) {
		st.Steering = false // markers are only a fallback here, so the text has begun
	}
	l.sampling = t.sight.next(&st)
	if n := t.model.Weighs(); n > 0 && !t.r.model.Capabilities().Paced { // whose probabilities may follow the constraint
		l.sampling.TopLogprobs = max(l.sampling.TopLogprobs, n)
	}
	p := t.sight.partOf(&st)
	l.unseen = l.origins != nil && (p == partReasoning || p == partHeader)
	if l.constraint = nil; st.Segment != reasoning.Answer && st.Segment != reasoning.ToolCall {
		t.followed = false
	}
	if t.model.Hold() != nil {
		t.mask.turn = t
		l.constraint = &t.mask
	}
}

// admits reports whether the choice of tools lets the model call a function. If a call is required, the functions of a
// loop but one do not count, so that the model cannot avoid the call with them.
func (t *turn) admits(name string) bool {
	switch t.req.ToolChoice {
	case generation.ToolChoiceFunction:
		return name == t.req.ToolName
	case generation.ToolChoiceRequired:
		return !t.answers(name) || name == t.of.Meets
	}
	return true
}

// count adds a sampled token to the usage. st is the state before it.
func (t *turn) count(st *reader.State) {
	u := &t.result.Usage
	u.Completion++
	t.counted()
	switch {
	case st.Segment == reasoning.Reasoning, st.Marked:
		if st.InObject && t.strategy == reasoning.StrategyJSON && t.effortNone() {
			return // it only ends the empty string of reasoning
		}
		if u.Reasoning++; st.Place == reader.PlacePreamble {
			t.unsettled++
		}
	case st.Segment == reasoning.Answer:
		u.Answer++
	}
}

// counted tells that a token was generated.
func (t *turn) counted() {
	t.generated.Add(1)
	t.job.observer.Generated()
}

// settle corrects the usage where an answer or a call begins after a preamble that was held back. The preamble counted
// as reasoning. If a call follows, it is shown and was none.
func (t *turn) settle(st *reader.State) {
	if st.Segment == reasoning.ToolCall && !t.answers(st.Call.Name) {
		t.result.Usage.Reasoning -= t.unsettled
	}
	t.unsettled = 0
}

// finished ends the main sequence if the last token completes a stop string, ends the turn or reaches a limit. The end
// of an answer or of a call also ends the sequence, even if the model does not end its turn there. finished reports
// whether the sequence has ended.
func (t *turn) finished(l *lane, tok backend.Token, from, to reader.Place) bool {
	_, stopped := t.output.stop.Matched()
	over := to == reader.PlaceHeader && (from == reader.PlaceAnswer || from == reader.PlaceCall)
	switch {
	case stopped:
		t.finish(l, reasoning.FinishStop)
	case t.model.State().Reported && t.r.model.Vocab().EndsGeneration(tok) && t.reported(l):
	case over || t.r.model.Vocab().EndsGeneration(tok):
		if len(t.output.calls) > 0 {
			t.finish(l, reasoning.FinishToolCalls)
		} else {
			t.finish(l, reasoning.FinishStop)
		}
	case len(l.tokens) >= t.r.info.ContextSize:
		t.full(l)
	case t.result.Usage.Completion >= t.limits.tokens:
		t.finish(l, reasoning.FinishLength)
	default:
		return false
	}
	return true
}

// limitReasoning closes the reasoning if it has to end.
func (t *turn) limitReasoning(l *lane) {
	if detail := t.limits.endReasoning(&t.result.Usage, len(l.tokens)); detail != "" {
		t.closeReasoning(l, detail)
	}
}

// closeReasoning ends the reasoning for the model and continues with the answer. With tools it continues with a header,
// so that the model may still make a call. detail is the reason; if it is not empty, the model is told.
func (t *turn) closeReasoning(l *lane, detail string) {
	if t.model.State().InObject {
		t.closeObject(l, detail)
		return
	}
	if detail != "" {
		t.closed = detail
		for _, tok := range t.r.closing.words {
			l.push(tok, chattemplate.Unseen)
		}
	}
	if t.model.State().Marked {
		t.force(l, t.r.closing.marker)
	}
	if t.output.segment() != reasoning.Reasoning {
		t.reasoned = len(l.tokens)
		return
	}
	end, open, err := t.model.EndReasoning()
	if err != nil {
		t.failed(l, err)
		return
	}
	t.force(l, end)
	t.reasoned = len(l.tokens)
	t.force(l, t.model.Follow())
	if len(open) > 0 {
		t.force(l, open)
		t.beginSummary()
	}
}

// closeObject ends the reasoning in an object and opens the object's answer, or it ends the call of report_reasoning.
// In the middle of an escape or a character it does nothing; it is called again after a later token.
func (t *turn) closeObject(l *lane, detail string) {
	tokens, ok := t.model.EndObject()
	if !ok {
		return
	}
	if t.closed = detail; detail != "" {
		for _, tok := range t.r.closing.words {
			l.push(tok, chattemplate.Unseen)
		}
	}
	for _, tok := range tokens {
		l.push(tok, chattemplate.FromTemplate)
		t.model.Push(tok)
	}
	t.reasoned = len(l.tokens)
}

// force appends tokens that the model did not choose.
func (t *turn) force(l *lane, tokens []backend.Token) {
	for _, tok := range tokens {
		l.push(tok, chattemplate.FromTemplate)
		t.model.Force(tok)
	}
}

func (t *turn) full(l *lane) {
	t.result.Detail = reasoning.DetailContextFull
	t.finish(l, reasoning.FinishLength)
}

// markersFound switches the strategy if the turn's first reasoning comes between markers, although the format has a
// place for reasoning.
func (t *turn) markersFound() {
	if t.output.reasoned {
		return
	}
	t.strategy = reasoning.StrategyMarkers
	t.send(reasoning.Event{Kind: reasoning.StrategySwitched, Info: t.infoNow(),
		Text: "the reasoning came between markers"})
}

// answerBegins records the time of the answer's first text, since the request was asked.
func (t *turn) answerBegins() { t.result.Timing.FirstAnswer = t.r.cfg.Clock().Sub(t.job.asked) }

func (t *turn) failed(l *lane, err error) {
	l.done, t.mainDone = true, true
	t.abort(err)
}

// abort ends the turn and its summary pass with an error.
func (t *turn) abort(err error) {
	if t.err == nil {
		t.err = err
	}
	if t.pass != nil && !t.pass.done {
		t.pass.done = true
		t.r.sched.remove(&t.pass.lane)
	}
	t.end(&t.result.Usage, nil, err)
}

// finish ends the main sequence. The turn ends with it, or with its summary pass if that is still running.
func (t *turn) finish(l *lane, reason reasoning.FinishReason) {
	if t.mainDone {
		return
	}
	l.done, t.mainDone = true, true
	early, thoughts := t.model.State().Early, t.output.thoughtful
	if t.output.finish(); early && t.output.thoughtful == thoughts {
		t.settleEarly(false)
	}
	if stop, ok := t.output.stop.Matched(); ok {
		reason = reasoning.FinishStop
		t.result.Detail, t.result.StopString = reasoning.DetailStopString, stop
	}
	t.result.Finish = reason
	if t.output.rationale != nil {
		count := t.output.rationale.Count()
		t.result.Rationale = &count
	}
	if score, ok := t.output.split.Score(); ok {
		t.result.Score = &score
	}
	t.verify(reason)
	t.remember()
	if t.result.Detail == "" {
		t.result.Detail = t.closed
	}
	end := t.r.cfg.Clock()
	if !t.first.IsZero() {
		t.result.Timing.Decode = end.Sub(t.first)
	}
	t.summarizeLate()
	t.fallBack()
	if t.pass == nil || t.pass.done {
		t.done()
	}
}

// fallBack warns if the requested reasoning did not come. With visibility summary, a complete answer is then explained
// afterwards.
func (t *turn) fallBack() {
	asked := t.wanted()
	if t.output.reasoned || asked == reasoning.VisibilityNone {
		return
	}
	if t.strategy != reasoning.StrategyPosthoc {
		t.strategy = reasoning.StrategyPosthoc
		t.send(reasoning.Event{Kind: reasoning.StrategySwitched, Info: t.infoNow(),
			Text: "the model gave no reasoning"})
	}
	t.result.ReasoningUnavailable = true
	explains := asked == reasoning.VisibilitySummary && t.output.answered &&
		t.result.Finish == reasoning.FinishStop
	why := "reasoning was asked for and the model gave none"
	switch posthoc := t.req.Strategy == reasoning.StrategyPosthoc; {
	case t.req.Continues:
		why = "reasoning was asked for, and the answer had begun without any"
	case t.effortNone():
		why = "reasoning was asked for, and the effort none keeps the model from reasoning"
	case posthoc && explains:
		why = "reasoning was asked for, and strategy posthoc gives none; the answer is explained afterwards"
	case posthoc && asked == reasoning.VisibilityFull:
		why = "reasoning was asked for, and strategy posthoc gives none; visibility summary has the answer explained"
	}
	t.warn(generation.CodeReasoningUnavailable, why)
	if explains {
		t.beginPosthoc()
	}
}

func (t *turn) done() {
	if t.err != nil {
		return
	}
	result := t.result
	if u := &result.Usage; t.hidden() {
		u.Reasoning, u.Answer = u.Reasoning+u.Answer, 0
	}
	t.end(&result.Usage, &result, nil)
}

// end ends the turn with its result or with an error. used is nil if the turn was not begun. Only the first call
// counts, because the scheduler may return to a turn that was abandoned. The only turn of a request ends the request; a
// loop may go on.
func (t *turn) end(used *reasoning.Usage, result *reasoning.Result, err error) {
	if !t.ended.CompareAndSwap(false, true) {
		return
	}
	j := t.job
	j.accounts.end(used)
	t.final = result
	if j.loop == nil {
		if result != nil {
			t.send(reasoning.Event{Kind: reasoning.Done, Result: result})
		}
		if j.tape != nil {
			j.tape.close(err)
		}
		j.ticket.over()
	}
	t.events.close(err)
}

// remember remembers what the turn has thought, and seals the rest of it. It is called when the turn's own text is
// complete; only a summary may follow.
func (t *turn) remember() {
	if sealed, ok := t.job.sealRest(t.of.Specialist); ok {
		t.send(sealed)
	}
	if !t.remembers() {
		return
	}
	of, thoughts := &t.job.req, t.output.thoughts.String()
	for i := range t.output.calls {
		call := &t.output.calls[i]
		at := t.r.moment(of, lastOf(of.Messages), call)
		t.r.cfg.CallMemory.keep(callKey{of.Principal, call.ID}, at, thoughts)
	}
}

// remembers reports whether the reasoning before the turn's calls is remembered.
func (t *turn) remembers() bool {
	return t.r.cfg.CallMemory != nil && !t.req.Unremembered && len(t.req.Tools) > 0 && len(t.conv.Tools) > 0
}
