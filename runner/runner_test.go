package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/reasoning"
)

const (
	thought  = "two and two are four"
	finalTag = "<|channel|>final<|message|>"
	again    = "<|start|>assistant"
)

// ask is the marker after which a scripted reply to a user's text starts.
func ask(text string) string { return text + "<|end|><|start|>assistant" }

// think is a reply with reasoning and an answer.
func think(reasoning, answer string) string {
	return "<|channel|>analysis<|message|>" + reasoning + "<|end|>" + again + finalTag + answer + "<|return|>"
}

// summaryReply answers the summary pass.
func summaryReply(prompt, say string) fake.Reply {
	return fake.Reply{After: prompt + "<|end|>" + again + finalTag, Say: say + "<|return|>"}
}

type fixture struct {
	*Runner
	model *fake.Model
}

func start(t *testing.T, cfg fake.Config, rc Config, replies ...fake.Reply) fixture {
	t.Helper()
	if cfg.Vocab == nil {
		cfg.Vocab = fake.Harmony()
	}
	if cfg.Script == nil {
		cfg.Script = fake.Replies(cfg.Vocab, replies...)
	}
	cfg.Record = true
	m := fake.New(cfg)
	r, err := New(m, rc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if n := m.OpenSequences(); n != 0 {
			t.Errorf("%d sequences leaked", n)
		}
	})
	return fixture{r, m}
}

// got is a run folded together.
type got struct {
	text     map[reasoning.Segment]string
	order    []reasoning.Kind
	calls    []reasoning.Call
	codes    []string
	switched []reasoning.Strategy
	info     *reasoning.Info
	result   reasoning.Result
	err      error
}

func collect(ctx context.Context, r *Runner, req Request) got {
	g := got{text: map[reasoning.Segment]string{}}
	open := map[reasoning.Segment]bool{}
	for e, err := range r.Generate(ctx, req) {
		if err != nil {
			g.err = err
			return g
		}
		g.order = append(g.order, e.Kind)
		switch e.Kind {
		case reasoning.Started:
			g.info = e.Info
		case reasoning.SegmentStart:
			if open[e.Segment] {
				g.err = fmt.Errorf("segment %v opened twice", e.Segment)
			}
			open[e.Segment] = true
			if e.Segment == reasoning.ToolCall {
				g.calls = append(g.calls, e.Call)
			}
		case reasoning.SegmentDelta:
			if !open[e.Segment] {
				g.err = fmt.Errorf("delta outside segment %v", e.Segment)
			}
			g.text[e.Segment] += e.Text
		case reasoning.SegmentEnd:
			open[e.Segment] = false
		case reasoning.Warning:
			g.codes = append(g.codes, e.Code)
		case reasoning.StrategySwitched:
			g.switched = append(g.switched, e.Info.Strategy)
		case reasoning.Done:
			g.result = *e.Result
		}
	}
	for s, o := range open {
		if o && g.err == nil {
			g.err = fmt.Errorf("segment %v never closed", s)
		}
	}
	return g
}

func user(text string) Request {
	return Request{Messages: []chattemplate.Message{{Role: chattemplate.User, Content: text}}}
}

func (f fixture) must(t *testing.T, req Request) got {
	t.Helper()
	g := collect(t.Context(), f.Runner, req)
	if g.err != nil {
		t.Fatalf("generate: %v", g.err)
	}
	if len(g.order) < 2 || g.order[0] != reasoning.Started || g.order[len(g.order)-1] != reasoning.Done {
		t.Fatalf("events %v do not run from Started to Done", g.order)
	}
	return g
}

func (g got) want(t *testing.T, s reasoning.Segment, text string) {
	t.Helper()
	if g.text[s] != text {
		t.Errorf("%v is %q, want %q", s, g.text[s], text)
	}
}

func TestVisibilityDecidesWhatIsSeen(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(thought, "It is 4.")},
		summaryReply(reasoning.SummaryConciseV1, "I added them."))
	for _, c := range []struct {
		v                  reasoning.Visibility
		reasoning, summary string
	}{
		{reasoning.VisibilityNone, "", ""},
		{reasoning.VisibilitySummary, "", "I added them."},
		{reasoning.VisibilityFull, thought, ""},
	} {
		req := user("2+2?")
		req.Visibility = c.v
		g := f.must(t, req)
		g.want(t, reasoning.Answer, "It is 4.")
		g.want(t, reasoning.Reasoning, c.reasoning)
		g.want(t, reasoning.Summary, c.summary)
		if g.result.Finish != reasoning.FinishStop || g.result.ReasoningUnavailable || len(g.codes) > 0 {
			t.Errorf("%v: result %+v, warnings %v", c.v, g.result, g.codes)
		}
		if (g.result.SummarySource == "reasoning") != (c.summary != "") {
			t.Errorf("%v: summary source %q", c.v, g.result.SummarySource)
		}
		u := g.result.Usage
		if u.Reasoning == 0 || u.Answer == 0 || u.Completion <= u.Reasoning+u.Answer || (u.Summary > 0) != (c.summary != "") {
			t.Errorf("%v: usage %+v", c.v, u)
		}
		if g.info.Strategy != reasoning.StrategyNative || g.info.Visibility != c.v {
			t.Errorf("info %+v", g.info)
		}
	}
}

func TestSummarySharesBatchesWithTheAnswer(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(strings.Repeat(thought+", ", 20), strings.Repeat("It is 4. ", 20))},
		summaryReply(reasoning.SummaryConciseV1, "Added, step by step, until done."))
	req := user("2+2?")
	req.Visibility = reasoning.VisibilitySummary
	f.must(t, req)
	shared, refed := 0, 0
	for _, s := range f.model.Steps() {
		if len(s.Inputs) == 2 {
			shared++
		}
		for _, in := range s.Inputs {
			if in.ID > 1 && in.Before == 0 {
				refed++
			}
		}
	}
	if shared < 10 || refed > 0 {
		t.Errorf("%d steps held answer and summary; %d prefilled the summary's prefix anew", shared, refed)
	}
}

func TestEffortNoneSkipsReasoning(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(thought, "slow")},
		fake.Reply{After: ask("2+2?") + finalTag, Say: "quick<|return|>"})
	req := user("2+2?")
	req.Effort, req.Visibility = chattemplate.EffortNone, reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "quick")
	if g.result.Usage.Reasoning != 0 || !g.result.ReasoningUnavailable || len(g.switched) != 1 {
		t.Errorf("%+v, switched %v", g.result, g.switched)
	}
}

var addTool = []chattemplate.Tool{{Name: "add", Parameters: []byte(`{"type":"object","properties":{"a":{"type":"number"}}}`)}}

func TestEffortNoneWithToolsStillCalls(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: "<|channel|>analysis<|message|>" + thought + "<|end|>"},
		fake.Reply{After: ask("2+2?") + "<|channel|>", Say: "commentary to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"},
		fake.Reply{After: ask("2+2?") + "<|channel|>commentary", Say: " to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"})
	req := user("2+2?")
	req.Effort, req.Tools, req.Visibility = chattemplate.EffortNone, addTool, reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, "")
	if g.result.Finish == reasoning.FinishToolCalls {
		g.want(t, reasoning.ToolCall, `{"a":2}`)
	} else {
		// The script's vote for the analysis channel was refused; what the noise chose must still be a legal header.
		g.want(t, reasoning.ToolCall, "")
	}
	if g.result.Usage.Reasoning != 0 {
		t.Errorf("usage %+v", g.result.Usage)
	}
}

func TestToolCall(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?"),
		Say: "<|channel|>analysis<|message|>use it<|end|><|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"})
	req := user("2+2?")
	req.Tools, req.Visibility = addTool, reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.ToolCall, `{"a":2}`)
	g.want(t, reasoning.Reasoning, "use it")
	if g.result.Finish != reasoning.FinishToolCalls || len(g.calls) != 1 || g.calls[0].Name != "add" || g.calls[0].ID == "" {
		t.Errorf("%+v %+v", g.result, g.calls)
	}
}

func TestHiddenReasoningOfPendingCallsComesBack(t *testing.T) {
	call := "<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\":2}<|call|>"
	f := start(t, fake.Config{}, Config{CallMemory: 2},
		fake.Reply{After: ask("2+2?"), Say: "<|channel|>analysis<|message|>use it<|end|><|start|>assistant" + call},
		fake.Reply{Prompt: "use it", After: "tool says 4<|end|>" + again, Say: think("", "It is 4.")},
		fake.Reply{After: "tool says 4<|end|>" + again, Say: think("", "I forgot why.")})
	req := user("2+2?")
	req.Tools = addTool
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, "")
	req.Messages = append(req.Messages,
		chattemplate.Message{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{{ID: g.calls[0].ID, Name: "add", Arguments: g.text[reasoning.ToolCall]}}},
		chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: g.calls[0].ID, ToolName: "add", Content: "tool says 4"})
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "It is 4.")
	if req.Messages[1].Reasoning != "" {
		t.Error("the caller's message was changed")
	}
}

func TestBudgetClosesReasoning(t *testing.T) {
	closing := reasoning.BudgetV1 + "<|end|>" + again + finalTag
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(strings.Repeat("hm ", 200), "late")},
		fake.Reply{After: closing, Say: "in time<|return|>"})
	req := user("2+2?")
	req.Budget, req.Visibility = 20, reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "in time")
	if g.result.Detail != reasoning.DetailReasoningBudget || g.result.Usage.Reasoning != 20 {
		t.Errorf("%+v", g.result)
	}
	if !strings.HasPrefix(strings.Repeat("hm ", 200), g.text[reasoning.Reasoning]) || g.text[reasoning.Reasoning] == "" {
		t.Errorf("reasoning %q holds what the model did not write", g.text[reasoning.Reasoning])
	}
}

func TestReserveIsKeptForTheAnswer(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(strings.Repeat("hm ", 500), "late")},
		fake.Reply{After: reasoning.BudgetV1 + "<|end|>" + again + finalTag, Say: "4<|return|>"})
	req := user("2+2?")
	req.MaxTokens = 80
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "4")
	if g.result.Detail != reasoning.DetailAnswerReserve || g.result.Finish != reasoning.FinishStop {
		t.Errorf("%+v", g.result)
	}
}

func TestReserveHoldsInASmallContext(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 400}, Config{},
		fake.Reply{After: ask("2+2?"), Say: think(strings.Repeat("hm ", 500), "late")},
		fake.Reply{After: reasoning.BudgetV1 + "<|end|>" + again + finalTag, Say: "4<|return|>"})
	g := f.must(t, user("2+2?"))
	g.want(t, reasoning.Answer, "4")
	if g.result.Detail != reasoning.DetailAnswerReserve {
		t.Errorf("%+v", g.result)
	}
}

func TestEmptyPromptIsRefused(t *testing.T) {
	for _, template := range []string{`{{ "" }}`, `{{ messages[messages[0].content] }}`} {
		f := start(t, thinkModel(), Config{ChatTemplate: template})
		var re *RequestError
		if g := collect(t.Context(), f.Runner, user("a")); !errors.As(g.err, &re) || re.Hint() == "" {
			t.Errorf("%s: %v", template, g.err)
		}
	}
}

func TestEndingInsideReasoningIsTakenToAnAnswer(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?"), Say: "<|channel|>analysis<|message|>" + thought + "<|return|>"},
		fake.Reply{After: thought + "<|end|>" + again + finalTag, Say: "4<|return|>"})
	g := f.must(t, user("2+2?"))
	g.want(t, reasoning.Answer, "4")
	if len(g.codes) != 1 || g.codes[0] != "answer_forced" {
		t.Errorf("warnings %v", g.codes)
	}
}

func TestStopStringsAndLength(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("count"), Say: think("STOP is not here", "one two STOP three")})
	req := user("count")
	req.Stop = []string{"STOP", "xyz"}
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "one two ")
	if g.result.StopString != "STOP" || g.result.Finish != reasoning.FinishStop {
		t.Errorf("%+v", g.result)
	}
	req = user("count")
	req.MaxTokens, req.AnswerReserve = 3, -1
	if g := f.must(t, req); g.result.Finish != reasoning.FinishLength || g.result.Usage.Completion != 3 {
		t.Errorf("%+v", g.result)
	}
}

func TestSecondTurnReusesThePrefix(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("first"), Say: think(thought, "one")}, fake.Reply{After: ask("second"), Say: think(thought, "two")})
	long := strings.Repeat("words words words ", 200)
	req := Request{Messages: []chattemplate.Message{{Role: chattemplate.System, Content: long}, {Role: chattemplate.User, Content: "first"}}}
	g := f.must(t, req)
	if g.result.Usage.Cached != 0 {
		t.Errorf("cached %d before anything ran", g.result.Usage.Cached)
	}
	req.Messages = append(req.Messages, chattemplate.Message{Role: chattemplate.Assistant, Content: g.text[reasoning.Answer]},
		chattemplate.Message{Role: chattemplate.User, Content: "second"})
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "two")
	if u := g.result.Usage; u.Cached*100 < u.Prompt*95 {
		t.Errorf("cached %d of %d", u.Cached, u.Prompt)
	}
}

func TestManyAtOnceGetTheirOwnAnswers(t *testing.T) {
	for _, cfg := range []fake.Config{
		{Sequences: 4},
		{Sequences: 3, BatchSize: 64},
		{Sequences: 4, CacheTokens: 1200, ContextSize: 1100}, // too small for all: lanes yield and come back
	} {
		var replies []fake.Reply
		for i := range 24 {
			replies = append(replies, fake.Reply{After: ask(fmt.Sprintf("question %d.", i)),
				Say: think(fmt.Sprintf("thinking of %d", i), fmt.Sprintf("answer %d", i))})
		}
		replies = append(replies, summaryReply(reasoning.SummaryConciseV1, "Short."))
		f := start(t, cfg, Config{}, replies...)
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				req := user(strings.Repeat("some padding text. ", i*2) + fmt.Sprintf("question %d.", i))
				req.Visibility = reasoning.Visibility(i % 3)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if i%8 == 7 {
					time.AfterFunc(time.Duration(i)*time.Millisecond/4, cancel)
				}
				g := collect(ctx, f.Runner, req)
				if g.err != nil {
					if i%8 != 7 || !errors.Is(g.err, context.Canceled) {
						t.Errorf("%d: %v", i, g.err)
					}
					return
				}
				g.want(t, reasoning.Answer, fmt.Sprintf("answer %d", i))
				if i%3 == 1 {
					g.want(t, reasoning.Summary, "Short.")
					if g.text[reasoning.Summary] == "" {
						t.Logf("%v %+v", g.codes, g.result)
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestLongPrefillDoesNotStallDecoding(t *testing.T) {
	f := start(t, fake.Config{BatchSize: 128, ContextSize: 16384, Delay: func(int) time.Duration { return time.Millisecond }}, Config{PrefillChunk: 32},
		fake.Reply{After: ask("talk"), Say: think("", strings.Repeat("la ", 300))}, fake.Reply{After: ask("long"), Say: think("", "ok")})
	talking := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		for e, err := range f.Generate(t.Context(), user("talk")) {
			if err != nil {
				t.Error(err)
			}
			if e.Kind == reasoning.SegmentDelta {
				once.Do(func() { close(talking) })
			}
		}
	})
	<-talking
	f.must(t, user(strings.Repeat("x", 3000)+"long"))
	wg.Wait()
	mixed := 0
	for _, s := range f.model.Steps() {
		if len(s.Inputs) == 2 {
			mixed++
			if n := max(s.Inputs[0].Tokens, s.Inputs[1].Tokens); n > 32 {
				t.Fatalf("a step that decodes prefilled %d tokens", n)
			}
		}
	}
	if mixed < 50 {
		t.Errorf("only %d steps mixed prefill and decode", mixed)
	}
}

func TestCancelEndsWithinOneStepAndKeepsThePrefix(t *testing.T) {
	f := start(t, fake.Config{Delay: func(int) time.Duration { return 2 * time.Millisecond }}, Config{},
		fake.Reply{After: ask("go on"), Say: think("", strings.Repeat("more ", 5000))})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	deltas := 0
	var end error
	var at time.Time
	for e, err := range f.Generate(ctx, user(strings.Repeat("pad ", 300)+"go on")) {
		if err != nil {
			end = err
			break
		}
		if e.Kind == reasoning.SegmentDelta {
			if deltas++; deltas == 5 {
				at = time.Now()
				cancel()
			}
		}
	}
	if !errors.Is(end, context.Canceled) {
		t.Fatalf("ended with %v", end)
	}
	if d := time.Since(at); d > 500*time.Millisecond {
		t.Errorf("took %v", d)
	}
	req := user(strings.Repeat("pad ", 300) + "go on")
	req.MaxTokens = 5
	if g := f.must(t, req); g.result.Usage.Cached < 300 {
		t.Errorf("cached %d", g.result.Usage.Cached)
	}
}

func TestASlowReaderDelaysNobody(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("a"), Say: think("", strings.Repeat("la ", 200))})
	release := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, err := range f.Generate(t.Context(), user("a")) {
			if err != nil {
				t.Error(err)
			}
			<-release
		}
	})
	for range 5 {
		f.must(t, user("a"))
	}
	close(release)
	wg.Wait()
}

func TestBreakingOffCancels(t *testing.T) {
	f := start(t, fake.Config{Delay: func(int) time.Duration { return time.Millisecond }}, Config{},
		fake.Reply{After: ask("a"), Say: think("", strings.Repeat("la ", 3000))})
	for e, err := range f.Generate(t.Context(), user("a")) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == reasoning.SegmentDelta {
			break
		}
	}
	before := len(f.model.Steps())
	time.Sleep(50 * time.Millisecond)
	if after := len(f.model.Steps()); after > before+2 {
		t.Errorf("%d more steps after the reader left", after-before)
	}
}

func TestRefusals(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 300}, Config{})
	for name, req := range map[string]Request{
		"Messages":   {},
		"Budget":     {Messages: user("a").Messages, Budget: -1},
		"Stop":       {Messages: user("a").Messages, Stop: []string{""}},
		"Effort":     {Messages: user("a").Messages, Effort: "extreme"},
		"Strategy":   {Messages: user("a").Messages, Strategy: reasoning.StrategyJSON, Tools: []chattemplate.Tool{{Name: "f"}}},
		"ToolChoice": {Messages: user("a").Messages, ToolChoice: ToolChoiceRequired},
		"ToolName":   {Messages: user("a").Messages, Tools: []chattemplate.Tool{{Name: "f"}}, ToolChoice: ToolChoiceFunction, ToolName: "g"},
		"Sampling":   {Messages: user("a").Messages, Sampling: backend.Sampling{Temperature: -1}},
	} {
		var re *RequestError
		if g := collect(t.Context(), f.Runner, req); !errors.As(g.err, &re) || re.Field != name {
			t.Errorf("%s: %v", name, g.err)
		}
	}
	var long *PromptTooLongError
	if g := collect(t.Context(), f.Runner, user(strings.Repeat("q", 1000))); !errors.As(g.err, &long) || long.Tokens < 1000 || long.Hint() == "" {
		t.Errorf("long prompt: %v", g.err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if g := collect(t.Context(), f.Runner, user("a")); !errors.Is(g.err, ErrClosed) {
		t.Errorf("after close: %v", g.err)
	}
}

func TestContextFullEndsWithLength(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 260}, Config{}, fake.Reply{After: ask("a"), Say: think("", strings.Repeat("z", 2000))})
	req := user("a")
	req.AnswerReserve = -1
	g := f.must(t, req)
	if g.result.Finish != reasoning.FinishLength || g.result.Detail != reasoning.DetailContextFull {
		t.Errorf("%+v", g.result)
	}
}

func TestQueueIsBounded(t *testing.T) {
	f := start(t, fake.Config{Sequences: 1, Delay: func(int) time.Duration { return time.Millisecond }}, Config{Queue: 2},
		fake.Reply{After: ask("a"), Say: think("", strings.Repeat("la ", 100))})
	var wg sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for range 10 {
		wg.Go(func() {
			if g := collect(t.Context(), f.Runner, user("a")); errors.Is(g.err, ErrQueueFull) {
				mu.Lock()
				refused++
				mu.Unlock()
			} else if g.err != nil {
				t.Error(g.err)
			}
		})
	}
	wg.Wait()
	if refused != 7 {
		t.Errorf("%d of 10 refused, want 7", refused)
	}
}

func TestEngineFailureReachesEveryone(t *testing.T) {
	f := start(t, fake.Config{Fail: func(step int, _ []backend.Input) error {
		if step == 3 {
			return fmt.Errorf("device lost: %w", backend.ErrBroken)
		}
		return nil
	}}, Config{}, fake.Reply{After: ask("a"), Say: think("", strings.Repeat("la ", 100))})
	for range 2 {
		if g := collect(t.Context(), f.Runner, user("a")); !errors.Is(g.err, backend.ErrBroken) {
			t.Errorf("got %v", g.err)
		}
	}
}

func thinkModel() fake.Config {
	return fake.Config{Vocab: fake.Think(), ChatTemplate: fake.ThinkTemplate}
}

func TestThinkTags(t *testing.T) {
	turn := "q<|im_end|>\n<|im_start|>assistant\n"
	f := start(t, thinkModel(), Config{},
		fake.Reply{After: turn, Say: "<think>\n" + thought + "\n</think>\n\nfour<|im_end|>"},
		fake.Reply{After: turn + "<think>\n\n</think>\n\n", Say: "quick<|im_end|>"},
		fake.Reply{After: reasoning.BudgetV1 + "\n</think>\n\n", Say: "hurried<|im_end|>"},
		fake.Reply{After: reasoning.SummaryConciseV1 + "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", Say: "Added them up.<|im_end|>"})
	req := user("q")
	req.Visibility = reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "four")
	if !strings.Contains(g.text[reasoning.Reasoning], thought) {
		t.Errorf("reasoning %q", g.text[reasoning.Reasoning])
	}
	req.Budget = 5
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "hurried")
	if g.result.Detail != reasoning.DetailReasoningBudget || g.result.Usage.Reasoning != 5 {
		t.Errorf("%+v", g.result)
	}
	req.Budget, req.Effort = 0, chattemplate.EffortNone
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "quick")
	g.want(t, reasoning.Reasoning, "")
	req.Effort, req.Visibility = "", reasoning.VisibilitySummary
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "four")
	g.want(t, reasoning.Summary, "Added them up.")
}

func TestMarkersStrategy(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?") + finalTag,
		Say: "<<REASONING>>\n" + thought + "\n<</REASONING>>\nfour<|return|>"},
		fake.Reply{After: ask("bare") + finalTag, Say: "just four<|return|>"})
	req := user("2+2?")
	req.Strategy, req.Visibility = reasoning.StrategyMarkers, reasoning.VisibilityFull
	g := f.must(t, req)
	if !strings.Contains(g.text[reasoning.Reasoning], thought) || strings.TrimSpace(g.text[reasoning.Answer]) != "four" {
		t.Errorf("%q", g.text)
	}
	req.Visibility = reasoning.VisibilityNone
	g = f.must(t, req)
	g.want(t, reasoning.Reasoning, "")
	if strings.Contains(g.text[reasoning.Answer], "two") || strings.Contains(g.text[reasoning.Answer], "<<") {
		t.Errorf("answer %q", g.text[reasoning.Answer])
	}
	req = user("bare")
	req.Strategy, req.Visibility = reasoning.StrategyMarkers, reasoning.VisibilityFull
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "just four")
	if !g.result.ReasoningUnavailable || len(g.switched) != 1 || g.switched[0] != reasoning.StrategyPosthoc {
		t.Errorf("%+v %v", g.result, g.switched)
	}
}

func TestMarkersInsteadOfTheChannelAreUnderstood(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("2+2?"),
		Say: finalTag + "<<REASONING>>" + thought + "<</REASONING>>four<|return|>"})
	req := user("2+2?")
	req.Visibility = reasoning.VisibilityFull
	g := f.must(t, req)
	g.want(t, reasoning.Reasoning, thought)
	g.want(t, reasoning.Answer, "four")
	if len(g.switched) != 1 || g.switched[0] != reasoning.StrategyMarkers || g.result.ReasoningUnavailable {
		t.Errorf("%v %+v", g.switched, g.result)
	}
}

func TestPosthocExplainsAnAnswerAndSaysSo(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("2+2?") + finalTag, Say: "four<|return|>"}, summaryReply(reasoning.PosthocV1, "It follows by adding."))
	req := user("2+2?")
	req.Strategy, req.Visibility = reasoning.StrategyPosthoc, reasoning.VisibilitySummary
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "four")
	g.want(t, reasoning.Summary, "It follows by adding.")
	if g.result.SummarySource != "posthoc" || !g.result.ReasoningUnavailable {
		t.Errorf("%+v", g.result)
	}
}

func TestSeedDecidesTheText(t *testing.T) {
	f := start(t, fake.Config{Script: func([]backend.Token) backend.Token { return backend.NoToken }}, Config{})
	run := func(seed uint64) string {
		req := user("a")
		req.Seed, req.MaxTokens, req.Visibility = &seed, 40, reasoning.VisibilityFull
		req.Sampling.Temperature = 1
		g := f.must(t, req)
		return fmt.Sprint(g.text)
	}
	first := run(1)
	if again := run(1); again != first {
		t.Error("one seed, two texts")
	}
	if run(2) == first {
		t.Error("two seeds, one text")
	}
}

func TestNothingIsLeftRunning(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 20 {
		m := fake.New(fake.Config{Script: fake.Replies(fake.Harmony(), fake.Reply{After: ask("a"), Say: think("", "b")})})
		r, err := New(m, Config{})
		if err != nil {
			t.Fatal(err)
		}
		if g := collect(t.Context(), r, user("a")); g.err != nil {
			t.Fatal(g.err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		if runtime.NumGoroutine() <= before+1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}
