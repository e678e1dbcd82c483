package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
	"runner/chattemplate/reader"
	"runner/generation"
	"runner/generation/delegation"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/filter"
)

// turn is one request on its way from prompt to Done. After begin everything in it belongs to the scheduler's
// goroutine.
type turn struct {
	r        *Runner
	ctx      context.Context
	req      generation.Request
	stage    *stage // nil where the run is this turn alone
	conv     chattemplate.Conversation
	strategy reasoning.Strategy
	seed     uint64
	out      *stream
	tape     *tape // nil where the run is not traced

	lane    *lane
	prompt  int // tokens of the prompt
	dropped int // tokens of earlier reasoning that the format leaves out of it, where decisions are traced
	limit   int // most tokens to generate
	reserve int // of these, kept for the answer
	output  *output
	sight   sight
	mask    mask
	// model reads what the model writes and says what may come next. check looks at the answer afterwards; nil where
	// nothing can.
	model family.Turn
	check *check
	// reports counts the calls of report_reasoning.
	reports int
	// closed says why the reasoning was closed early.
	closed string
	// rescued says that an ending without an answer was prevented once.
	rescued bool

	// reasoned is the length of the sequence at the end of the last closed reasoning; 0 before.
	reasoned int
	pass     *summaryPass
	// summarized says that a summary was started or found impossible; there is one per run.
	summarized bool

	result   reasoning.Result
	told     atomic.Bool // the result's usage
	mainDone bool
	asked    time.Time
	began    time.Time
	first    time.Time
	err      error
}

// newTurn checks and renders a request. It runs on the caller's goroutine.
func (r *Runner) newTurn(ctx context.Context, req generation.Request, of *stage) (*turn, error) {
	t, err := r.plan(ctx, req, of)
	if err != nil {
		return nil, err
	}
	p, err := t.render()
	if err != nil {
		return nil, err
	}
	if len(p.Tokens) >= r.info.ContextSize {
		return nil, &generation.PromptTooLongError{Tokens: len(p.Tokens), Context: r.info.ContextSize,
			Field: t.req.PromptField()}
	}
	t.prompt = len(p.Tokens)
	t.dropped = t.droppedTokens()
	t.setLimits()
	t.output, err = newOutput(t, p.Start)
	if err != nil {
		return nil, err
	}
	t.lane = &lane{ctx: ctx, owner: t, principal: req.Principal}
	t.lane.tokens = append(make([]backend.Token, 0, min(t.prompt+t.limit, t.prompt+4096)+smallRun), p.Tokens...)
	if req.PromptLogprobs {
		t.lane.scoring = newScoring(r.model.Vocab(), &req, p.Tokens)
	}
	t.lane.silent = req.PromptOnly
	t.follow(t.lane)
	t.model.Warm(ctx)
	return t, nil
}

// plan checks a request and settles what it is to come to.
func (r *Runner) plan(ctx context.Context, req generation.Request, of *stage) (*turn, error) {
	if err := r.Validate(&req); err != nil {
		return nil, err
	}
	t := &turn{r: r, ctx: ctx, req: req, stage: of, out: newStream(), asked: r.cfg.Clock()}
	t.strategy, _ = r.strategy(&req)
	// The run may outlive its reader by a step, and with it what the caller may change again.
	t.req.Stop, t.req.Sampling.Bias = slices.Clone(req.Stop), slices.Clone(req.Sampling.Bias)
	req.Messages = r.restore(&req)
	if req.Seed != nil {
		t.seed = *req.Seed
	} else {
		t.seed = r.cfg.Seed() >> 11 // JavaScript's numbers hold 53 bits, so a client can send back the seed that it was told
	}
	t.conv = chattemplate.Conversation{
		Messages: req.Messages, Tools: req.Tools, ResponseFormat: req.ResponseFormat, Effort: req.Effort,
		Now: t.asked, KeepReasoning: req.KeepReasoning, Args: req.TemplateArgs,
	}
	t.look()
	if !req.IsRaw() {
		t.instruct()
	}
	return t, t.holdToForms()
}

// render makes the prompt.
func (t *turn) render() (chattemplate.Prompt, error) {
	if t.req.IsRaw() {
		return t.r.rawPrompt(&t.req)
	}
	p, err := t.r.family.Render(t.conv)
	if errors.Is(err, chattemplate.ErrTooLong) {
		return p, t.r.tooMuch(generation.MessagesField)
	}
	if err != nil {
		return p, err
	}
	if p.Continues && t.hidesReasoning() {
		return p, &generation.RequestError{
			Field: "Messages", Err: errors.New("the chat template has the model continue the last message, " +
				"where its reasoning could not be told from its answer"),
			Advice: "end with a message of the user or a tool, or ask for visibility full",
		}
	}
	skip := t.conv.Effort == reasoning.EffortNone || t.effortNone()
	if err := t.model.Open(&p, skip); err != nil {
		return p, refused(err)
	}
	if len(p.Tokens) == 0 {
		return p, &generation.RequestError{Field: "Messages", Err: errors.New("the chat template renders them to nothing"),
			Advice: "correct the template, or give another one"}
	}
	return p, nil
}

// hidesReasoning reports whether the turn may have reasoning that its caller is not to see.
func (t *turn) hidesReasoning() bool {
	asked := t.strategy == reasoning.StrategyMarkers || t.strategy == reasoning.StrategyJSON ||
		t.strategy == reasoning.StrategyTool
	return !t.sight.sees && (asked || t.family().About().MarksReasoning)
}

// family is how the model writes this turn. After a raw prompt nothing is marked.
func (t *turn) family() family.Family {
	if t.req.IsRaw() {
		return t.r.raw
	}
	return t.r.family
}

// holdToForms prepares what keeps the model to the forms that were asked for.
func (t *turn) holdToForms() error {
	form, err := t.form()
	if err != nil {
		return err
	}
	if t.model, err = t.family().Turn(t.ctx, t.turnConfig(form)); err != nil {
		if t.ctx.Err() != nil {
			return context.Cause(t.ctx) // the form is not to blame
		}
		return refused(err)
	}
	if t.req.ToolChoice == generation.ToolChoiceNone && !t.family().About().ForbidsCalls {
		t.conv.Tools, t.req.Tools = nil, nil // what is not shown is not called
	}
	t.check, err = t.r.newCheck(t.req.Form)
	return err
}

// turnConfig says what the turn is to be held to.
func (t *turn) turnConfig(form grammar.Source) family.TurnConfig {
	cfg := family.TurnConfig{
		Grammars: t.r.grammars(), Form: form, FormAt: t.sight.formAt, Tools: t.req.Tools, Admits: t.admits,
		NoCalls: t.req.ToolChoice == generation.ToolChoiceNone, MustCall: t.req.MustCall(), SingleCall: t.req.SingleCall,
		Args: t.req.TemplateArgs, Markers: t.strategy == reasoning.StrategyMarkers && !t.effortNone(),
		Native: t.strategy == reasoning.StrategyNative, Effort: t.conv.Effort,
	}
	if t.strategy == reasoning.StrategyTool && !t.effortNone() {
		tool := reportTool()
		cfg.Report = &tool
	}
	return cfg
}

// refused makes of what a family refuses an error that names the request's field.
func refused(err error) error {
	if e := (*family.RefusedError)(nil); errors.As(err, &e) {
		return &generation.RequestError{Field: e.Field, Err: e.Err, Advice: e.Advice}
	}
	return err
}

func (t *turn) setLimits() {
	t.limit = t.stage.share(t.r.info.ContextSize - t.prompt)
	if t.req.MaxTokens > 0 {
		t.limit = min(t.limit, t.req.MaxTokens)
	}
	switch {
	case t.req.AnswerReserve < 0:
	case t.req.AnswerReserve > 0:
		t.reserve = min(t.req.AnswerReserve, t.limit)
	default:
		t.reserve = min(t.limit/4, 1024)
	}
}

// withInstruction returns messages with text at the end of the system prompt.
func withInstruction(messages []chattemplate.Message, text string) []chattemplate.Message {
	if first := messages[0]; first.Role == chattemplate.System || first.Role == chattemplate.Developer {
		first.Content += "\n\n" + text
		return append([]chattemplate.Message{first}, messages[1:]...)
	}
	return append([]chattemplate.Message{{Role: chattemplate.System, Content: text}}, messages...)
}

// begin queues the turn. From here on it belongs to the scheduler's goroutine.
func (t *turn) begin() {
	if t.r.sched.broken != nil {
		t.refuse(t.r.sched.broken)
		return
	}
	t.output.send(reasoning.Event{Kind: reasoning.Started, Info: t.infoNow()})
	if t.dropped > 0 {
		t.output.send(reasoning.Event{Kind: reasoning.Curated, Code: filter.CuratedHistory,
			Text: fmt.Sprintf("reasoning of earlier turns, %d tokens of the prompt, was left out as the format wants it",
				t.dropped)})
	}
	if t.model.Ignored() {
		t.output.warn(generation.CodeStrictIgnored,
			"this model's format has no place where a call could be held to its parameters")
	}
	if t.sight.withholds(&t.req.Sampling) {
		t.output.warn(generation.CodeSamplingWithheld,
			"bias and penalties do not act where the model may give hidden reasons for its calls")
	}
	t.r.sched.add(t.lane, t.stage.isLater())
}

// infoNow says what is in effect.
func (t *turn) infoNow() *reasoning.Info {
	return &reasoning.Info{
		Model: t.r.info.Name, Visibility: t.req.Visibility, Effort: t.family().Effort(t.req.Effort, nil),
		Strategy: t.strategy, Seed: t.seed, Budget: t.req.Budget, Prompt: t.prompt, Iteration: t.iteration(),
	}
}

func (t *turn) started(_ *lane, cached int) {
	if !t.began.IsZero() {
		return
	}
	t.began = t.r.cfg.Clock()
	t.result.Timing.Queue = t.began.Sub(t.asked)
	t.result.Usage.Prompt, t.result.Usage.Cached = t.prompt, cached
}

func (t *turn) accept(l *lane, out *backend.Output) {
	if t.first.IsZero() {
		t.first = t.r.cfg.Clock()
		t.result.Timing.Prefill = t.first.Sub(t.began)
		t.result.Timing.FirstToken = t.first.Sub(t.asked)
		if l.scoring != nil {
			t.output.send(l.scoring.event())
		}
	}
	if l.silent {
		t.finish(l, reasoning.FinishLength)
		return
	}
	tok := out.Token
	before := t.output.segment()
	t.count(before)
	if before == reasoning.Reasoning && t.r.model.Vocab().EndsGeneration(tok) && !t.rescued &&
		!t.model.State().InObject && t.result.Usage.Completion < t.limit {
		t.rescued = true
		t.output.warn("answer_forced", "the model ended its turn inside its reasoning; it was taken on to an answer")
		t.closeReasoning(l, "")
		t.follow(l)
		return
	}
	if t.take(l, tok, out) {
		return
	}
	if !t.req.Logprobs {
		for forced := t.model.Forced(); len(forced) > 0; forced = t.model.Forced() {
			for _, tok := range forced {
				if hold := t.model.Hold(); hold != nil && !hold.Allows(tok) {
					return // closing the reasoning has led elsewhere
				}
				t.count(t.output.segment())
				if t.take(l, tok, nil) {
					return
				}
			}
		}
	}
}

// take appends a token of the model, or one that it could not but choose, and reports whether the turn is finished.
func (t *turn) take(l *lane, tok backend.Token, out *backend.Output) bool {
	before := t.model.State()
	l.tokens = append(l.tokens, tok)
	t.model.PushOutput(tok, out)
	after := t.model.State()
	t.sight.note(tok, &before, &after)
	if t.finished(l, tok, before.Place, after.Place) {
		return true
	}
	if before.Segment == reasoning.Reasoning && after.Segment != reasoning.Reasoning {
		t.reasoned = len(l.tokens)
	}
	if after.Segment == reasoning.Answer || after.Segment == reasoning.ToolCall {
		t.beginSummary()
	}
	if after.Segment == reasoning.Reasoning {
		t.limitReasoning(l)
	}
	t.force(l, t.model.Follow())
	t.follow(l)
	return false
}

// follow brings the constraint and the sampling up to where the output stands.
func (t *turn) follow(l *lane) {
	st := t.model.State()
	if t.output.onMarkers != nil && st.Segment == reasoning.Answer {
		st.Steering = false // nobody asked for markers, so the answer has begun
	}
	l.sampling = t.sight.next(&st)
	l.constraint = nil
	if t.model.Hold() != nil {
		t.mask.turn = t
		l.constraint = &t.mask
	}
}

// admits reports whether the choice of tools lets the model call a function. A demand for any call does not let it
// return control, which it has under the original prompt, nor delegate more than once: both would only put off the
// call of the client's.
func (t *turn) admits(name string) bool {
	switch t.req.ToolChoice {
	case generation.ToolChoiceFunction:
		return name == t.req.ToolName
	case generation.ToolChoiceRequired:
		return !t.stage.answers(name) || name == delegation.DelegateName && !t.stage.called
	}
	return true
}

// count adds a sampled token to the usage.
func (t *turn) count(s reasoning.Segment) {
	u := &t.result.Usage
	u.Completion++
	t.generated()
	switch s {
	case reasoning.Reasoning:
		if t.strategy == reasoning.StrategyJSON && t.effortNone() {
			return // the quote that ends the empty string
		}
		u.Reasoning++
	case reasoning.Answer:
		u.Answer++
	}
}

// generated tells who asked for it that there is one token more.
func (t *turn) generated() {
	if t.req.Generated != nil {
		t.req.Generated.Add(1)
	}
}

// finished ends the main sequence when its last token says so: a stop string, the end of the turn, the end of an answer
// or a call even where the model does not end its turn with it, or a limit.
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
	case t.result.Usage.Completion >= t.limit:
		t.finish(l, reasoning.FinishLength)
	default:
		return false
	}
	return true
}

// limitReasoning closes the reasoning when its budget is spent or when it would eat the answer's reserve.
func (t *turn) limitReasoning(l *lane) {
	u := &t.result.Usage
	switch {
	case t.req.Budget > 0 && u.Reasoning >= t.req.Budget:
		t.closeReasoning(l, reasoning.DetailReasoningBudget)
	case t.reserve > 0 && (u.Completion >= t.limit-t.reserve || len(l.tokens)+t.r.closing.cost+
		t.reserve >= t.r.info.ContextSize):
		t.closeReasoning(l, reasoning.DetailAnswerReserve)
	}
}

// closeReasoning ends the reasoning in the model's place and leads on to the answer; with tools, to a header that may
// still become a call. detail, when not empty, is why, and the model is told.
func (t *turn) closeReasoning(l *lane, detail string) {
	if t.model.State().InObject {
		t.closeObject(l, detail)
		return
	}
	if detail != "" {
		t.closed = detail
		l.tokens = append(l.tokens, t.r.closing.words...)
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

// closeObject ends the reasoning of an object and leads on to its answer, or ends the call of report_reasoning. In the
// middle of an escape or a character it waits for a later token.
func (t *turn) closeObject(l *lane, detail string) {
	tokens, ok := t.model.EndObject()
	if !ok {
		return
	}
	t.closed = detail
	for _, tok := range tokens {
		l.tokens = append(l.tokens, tok)
		t.model.Push(tok)
	}
	t.reasoned = len(l.tokens)
}

// force appends tokens that the model did not choose.
func (t *turn) force(l *lane, tokens []backend.Token) {
	for _, tok := range tokens {
		l.tokens = append(l.tokens, tok)
		t.model.Force(tok)
	}
}

func (t *turn) full(l *lane) {
	t.result.Detail = reasoning.DetailContextFull
	t.finish(l, reasoning.FinishLength)
}

// markersFound notes that the model put its reasoning between markers and not where its format has a place for it.
func (t *turn) markersFound() {
	if t.output.reasoned {
		return
	}
	t.strategy = reasoning.StrategyMarkers
	t.output.send(reasoning.Event{Kind: reasoning.StrategySwitched, Info: t.infoNow(),
		Text: "the reasoning came between markers"})
}

// answerBegins notes when the first text of the answer came.
func (t *turn) answerBegins() { t.result.Timing.FirstAnswer = t.r.cfg.Clock().Sub(t.asked) }

func (t *turn) failed(l *lane, err error) {
	l.done, t.mainDone = true, true
	t.abort(err)
}

// abort ends the whole turn, its summary pass included, with an error.
func (t *turn) abort(err error) {
	if t.err == nil {
		t.err = err
	}
	if t.pass != nil && !t.pass.done {
		t.pass.done = true
		t.r.sched.remove(&t.pass.lane)
	}
	t.account()
	t.close(err)
}

// close ends the run's events, and those of its trace. Only the first time counts.
func (t *turn) close(err error) {
	if t.output.tape != nil {
		t.output.tape.close(err)
	}
	t.out.close(err)
}

// refuse closes a turn that has not begun. Where it is one of several, what it has used is waited for: nothing.
func (t *turn) refuse(err error) {
	if t.stage != nil {
		t.account()
	}
	t.close(err)
}

// abandon ends the turn for its reader and its trace while the scheduler, whose everything else of it is, does not
// come back. What it has used is told as far as it is known outside.
func (t *turn) abandon(err error) {
	used := reasoning.Usage{Prompt: t.prompt}
	if t.req.Generated != nil && t.stage == nil {
		used.Completion = int(t.req.Generated.Load())
	}
	t.tell(used)
	t.out.close(err)
	if t.tape != nil {
		t.tape.close(err)
	}
}

// account says once what the run has used.
func (t *turn) account() { t.tell(t.result.Usage) }

func (t *turn) tell(used reasoning.Usage) {
	if t.req.Account != nil && t.told.CompareAndSwap(false, true) {
		t.req.Account(used)
	}
}

// seal hands the reasoning to who may seal it.
func (t *turn) seal() {
	if t.req.Seal == nil || t.output.thoughts.Len() == 0 {
		return
	}
	sealed, err := t.req.Seal(t.output.thoughts.String(), len(t.output.calls) > 0)
	if err != nil {
		t.output.warn(generation.CodeNotSealed, "the reasoning could not be sealed")
		return
	}
	t.result.Sealed = sealed
}

// remembers reports whether what leads to the turn's calls is to be remembered.
func (t *turn) remembers() bool {
	return t.r.cfg.CallMemory != nil && !t.req.Unremembered && len(t.req.Tools) > 0
}

// remember remembers the reasoning before the turn's calls.
func (t *turn) remember() {
	if !t.remembers() {
		return
	}
	for i := range t.output.calls {
		call := &t.output.calls[i]
		at := t.r.moment(&t.req, t.stage.asked(t.req.Messages), call)
		t.r.cfg.CallMemory.keep(callKey{t.req.Principal, call.ID}, at, t.output.thoughts.String())
	}
}

// finish ends the main sequence; the turn ends with it unless a summary is still to come.
func (t *turn) finish(l *lane, reason reasoning.FinishReason) {
	if t.mainDone {
		return
	}
	l.done, t.mainDone = true, true
	t.output.finish()
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
	t.seal()
	if t.result.Detail == "" {
		t.result.Detail = t.closed
	}
	t.remember()
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

// fallBack makes good, as far as can be, for reasoning that was asked for and did not come.
func (t *turn) fallBack() {
	if t.output.reasoned || t.output.inner || t.req.Visibility == reasoning.VisibilityNone {
		return
	}
	if t.strategy != reasoning.StrategyPosthoc {
		t.strategy = reasoning.StrategyPosthoc
		t.output.send(reasoning.Event{Kind: reasoning.StrategySwitched, Info: t.infoNow(),
			Text: "the model gave no reasoning"})
	}
	t.result.ReasoningUnavailable = true
	explains := t.req.Visibility == reasoning.VisibilitySummary && t.output.answered &&
		t.result.Finish == reasoning.FinishStop
	why := "reasoning was asked for and the model gave none"
	switch posthoc := t.req.Strategy == reasoning.StrategyPosthoc; {
	case t.effortNone():
		why = "reasoning was asked for, and the effort none keeps the model from reasoning"
	case posthoc && explains:
		why = "reasoning was asked for, and strategy posthoc gives none; the answer is explained afterwards"
	case posthoc && t.req.Visibility == reasoning.VisibilityFull:
		why = "reasoning was asked for, and strategy posthoc gives none; visibility summary has the answer explained"
	}
	t.output.warn("reasoning_unavailable", why)
	if explains {
		t.beginPosthoc()
	}
}

func (t *turn) done() {
	if t.err != nil {
		return
	}
	result := t.result
	t.account()
	t.output.send(reasoning.Event{Kind: reasoning.Done, Result: &result})
	t.close(nil)
}
