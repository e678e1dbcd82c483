package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
)

var errInjected = errors.New("injected failure")

// soakText is what the scripted models have read: their own format, well formed and broken.
var soakText = map[string][]string{
	"harmony": {
		again + "<|channel|>analysis<|message|>" + thought + " so it is 4. <|end|>" + again + finalTag +
			"It is 4 and that is the answer.<|return|>",
		again + "<|channel|>analysis<|message|>hm hm hm " + thought + " hm hm <|return|>",
		again + "<|channel|>analysis<|message|>use it<|end|>" + again + "<|channel|>commentary<|message|>I will add.<|end|>" +
			again +
			"<|channel|>commentary to=functions.add <|constrain|>json<|message|>{\"a\": 12}<|call|>",
		again + "<|channel|>commentary<|channel|>analysis<|message|>again " + thought +
			"<|channel|>final<|message|>four<|end|>",
		again + finalTag + "<<REASONING>>\n" + thought + "\n<</REASONING>>\nfour 🙂 é<|return|>",
		again + "analysis" + thought + "<|start|><|start|>user<|message|>what<|end|><|endoftext|>",
		finalTag + "Summary: they were added, and four came out.<|end|>" + again,
	},
	"tags": {
		"assistant\n<think>\n" + thought + " so it is 4.\n</think>\n\nIt is 4 and that is the answer.<|im_end|>",
		"assistant\n<think>hm hm hm " + thought + " hm hm<|im_end|>",
		"assistant\nIt is <think>again " + thought + "</think> and </think> four<|im_start|><|endoftext|>",
		"assistant\n<<REASONING>>\n" + thought + "\n<</REASONING>>\nfour 🙂 é<|im_end|>",
		"</think>\n\nThey were added, and <tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 2}}</tool_call> came " +
			"out.<|im_end|>",
	},
}

// babble returns a script that continues as the texts do after the last two tokens, or after the last one. Sometimes
// it leaves the choice to the noise.
func babble(v *backend.Vocab, texts []string, noise uint64) fake.Script {
	next := map[[2]backend.Token][]backend.Token{}
	for _, text := range texts {
		tokens := fake.Encode(v, text)
		for i := 1; i < len(tokens); i++ {
			one := [2]backend.Token{backend.NoToken, tokens[i-1]}
			next[one] = append(next[one], tokens[i])
			if i > 1 {
				two := [2]backend.Token{tokens[i-2], tokens[i-1]}
				next[two] = append(next[two], tokens[i])
			}
		}
	}
	return func(tokens []backend.Token) backend.Token {
		n := len(tokens)
		h := uint64(n)*0x9e3779b97f4a7c15 + noise
		for _, t := range tokens[max(0, n-5):] {
			h = (h ^ uint64(t)) * 0xbf58476d1ce4e5b9
			h ^= h >> 29
		}
		if h%100 < noise {
			return backend.NoToken
		}
		if n > 1 {
			if of := next[[2]backend.Token{tokens[n-2], tokens[n-1]}]; len(of) > 0 {
				return of[(h>>8)%uint64(len(of))]
			}
		}
		if of := next[[2]backend.Token{backend.NoToken, tokens[n-1]}]; len(of) > 0 {
			return of[(h>>8)%uint64(len(of))]
		}
		return backend.NoToken
	}
}

// TestSoak runs random requests on random small models and checks what must hold for every run. RUNNER_LONG=1 makes it
// long. RUNNER_TEST_SEED repeats the rounds from a seed that a failure names.
func TestSoak(t *testing.T) {
	d := 2 * time.Second
	if os.Getenv("RUNNER_LONG") != "" {
		d = 5 * time.Minute
	}
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("RUNNER_TEST_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	goroutines := runtime.NumGoroutine()
	rounds, runs := 0, 0
	for end := time.Now().Add(d); time.Now().Before(end) && !t.Failed(); rounds++ {
		runs += soakRound(t, seed+uint64(rounds))
		if t.Failed() {
			t.Logf("RUNNER_TEST_SEED=%d", seed+uint64(rounds))
		}
	}
	for i := 0; runtime.NumGoroutine() > goroutines; i++ {
		if i == 100 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines)
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d rounds, %d runs", rounds, runs)
}

// soakRound makes one model, runs requests on it concurrently and closes it. It returns the number of requests.
func soakRound(t *testing.T, seed uint64) int {
	rng := rand.New(rand.NewPCG(seed, 1))
	cfg, family := fake.Config{Vocab: fake.Harmony()}, "harmony"
	switch rng.IntN(4) {
	case 0:
		cfg, family = thinkModel(), "tags"
	case 1:
		cfg, family = plainModel(), "tags"
	}
	if noise := []uint64{0, 2, 10, 40, 100}[rng.IntN(5)]; noise < 100 {
		cfg.Script = babble(cfg.Vocab, soakText[family], noise)
	}
	cfg.ContextSize = 350 + rng.IntN(500)
	cfg.Sequences = 1 + rng.IntN(5)
	cfg.BatchSize = []int{1, 3, 17, 64, 512}[rng.IntN(5)]
	cfg.CacheTokens = cfg.ContextSize/2 + rng.IntN(cfg.ContextSize*cfg.Sequences)
	if rng.IntN(4) == 0 {
		cfg.Fail = failNowAndThen(seed)
	}
	m := fake.New(cfg)
	r, err := New(m, Config{PrefillChunk: rng.IntN(64), Queue: 4 + rng.IntN(20), Parallel: rng.IntN(4),
		CallMemory: NewCallMemory(rng.IntN(3), 0)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n := 1 + rng.IntN(12)
	early := rng.IntN(8) == 0
	var wg sync.WaitGroup
	for i := range n {
		s := soakRun{t: t, r: r, seed: seed, rng: rand.New(rand.NewPCG(seed, uint64(i)+2)), closes: early}
		wg.Go(func() { s.run(ctx) })
	}
	if early {
		time.Sleep(time.Duration(rng.IntN(3000)) * time.Microsecond)
	} else {
		wg.Wait()
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.Errorf("a round did not come to its end")
	}
	if open, used := m.OpenSequences(), m.UsedCells(); open != 0 || used != 0 {
		t.Errorf("%d sequences and %d cells leaked", open, used)
	}
	return n
}

// failNowAndThen returns a model's hook that fails some steps, as a whole or for one input.
func failNowAndThen(seed uint64) func(int, []backend.Input) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	return func(_ int, inputs []backend.Input) error {
		switch rng.IntN(400) {
		case 0, 1:
			return &backend.InputError{Index: rng.IntN(len(inputs)), Err: errInjected}
		case 2:
			return backend.ErrCacheFull
		case 3:
			return errInjected
		}
		return nil
	}
}

// soakRun is one reader of one run.
type soakRun struct {
	t      *testing.T
	r      *Runner
	seed   uint64
	rng    *rand.Rand
	closes bool // the runner may be closed during the run
}

func (s *soakRun) request() generation.Request {
	rng := s.rng
	pick := func(p int) bool { return rng.IntN(p) == 0 }
	req := user(strings.Repeat("so what is it ", rng.IntN(4)) + "2+2?")
	if pick(3) {
		req.Messages = append([]chattemplate.Message{{Role: chattemplate.System, Content: "Be brief."}}, req.Messages...)
	}
	req.Visibility = reasoning.Visibility(rng.IntN(3))
	efforts := []reasoning.Effort{"", reasoning.EffortNone, reasoning.EffortLow, reasoning.EffortHigh}
	req.Effort = efforts[rng.IntN(len(efforts))]
	strategies := []reasoning.Strategy{"", reasoning.StrategyAuto, reasoning.StrategyMarkers, reasoning.StrategyPosthoc}
	if s.r.About().MarksReasoning {
		strategies = append(strategies, reasoning.StrategyNative, reasoning.StrategyNative, reasoning.StrategyNative)
	}
	req.Strategy = strategies[rng.IntN(len(strategies))]
	if s.r.About().Tools && pick(2) {
		req.Tools = addTool
	}
	if pick(2) {
		req.Budget = 1 + rng.IntN(40)
	}
	if pick(2) {
		req.MaxTokens = 1 + rng.IntN(120)
	}
	req.AnswerReserve = []int{-1, 0, 0, 5, 1000}[rng.IntN(5)]
	for _, stop := range []string{"the", "<", "\n", "four", "so it is 4", "\uFFFD"} {
		if pick(10) {
			req.Stop = append(req.Stop, stop)
		}
	}
	req.DetailedSummary = pick(4)
	if pick(2) {
		req.SummaryTokens = 1 + rng.IntN(30)
	}
	if pick(3) {
		req.Logprobs, req.Sampling.TopLogprobs = true, rng.IntN(4)
	}
	if pick(3) {
		req.Sampling.Temperature = 1.5
	}
	seed := rng.Uint64()
	req.Seed, req.Principal = &seed, fmt.Sprint(rng.IntN(3))
	return req
}

func (s *soakRun) run(ctx context.Context) {
	req := s.request()
	leave := -1
	if s.rng.IntN(4) == 0 {
		leave = s.rng.IntN(60)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	breaks := s.rng.IntN(2) == 0
	first := s.watch(ctx, req, func(n int) bool {
		if n == leave && !breaks {
			cancel()
		}
		return n != leave || !breaks
	})
	if first.result == nil || req.Strategy != reasoning.StrategyNative {
		return
	}
	// The rest must look the same whatever the length of the reasoning.
	for v := range reasoning.VisibilityFull + 1 {
		other := req
		other.Visibility = v
		o := s.watch(ctx, other, func(int) bool { return true })
		if o.result == nil || o.result.Detail == reasoning.DetailContextFull ||
			first.result.Detail == reasoning.DetailContextFull {
			continue
		}
		for _, seg := range []reasoning.Segment{reasoning.Answer, reasoning.Preamble, reasoning.ToolCall} {
			if o.text[seg].String() != first.text[seg].String() {
				s.t.Errorf("segment %v is %q under visibility %v and %q under %v", seg, o.text[seg].String(), v,
					first.text[seg].String(), req.Visibility)
			}
		}
	}
}

// seen is what a reader saw. result is nil if the run did not get to Done.
type seen struct {
	text   [reasoning.Answer + 1]strings.Builder
	calls  int
	result *reasoning.Result
}

// watch reads a run and checks every event and the end. It calls on with the number of events so far.
func (s *soakRun) watch(ctx context.Context, req generation.Request, on func(int) bool) *seen {
	w := &seen{}
	var open [reasoning.Answer + 1]bool
	fail := func(format string, args ...any) {
		s.t.Helper()
		s.t.Errorf("%s (%v, visibility %v, effort %q, strategy %q, budget %d, max %d)", fmt.Sprintf(format, args...),
			s.r.About().Reasoning, req.Visibility, req.Effort, req.Strategy, req.Budget, req.MaxTokens)
	}
	n, ended, left := 0, false, false
	for e, err := range s.r.Generate(ctx, req, generation.Unobserved{}) {
		if ended {
			fail("an event after the end: %v, %v", e.Kind, err)
		}
		if err != nil {
			ended = true
			if !s.mayFail(ctx, err) {
				fail("ended with %v", err)
			}
			continue
		}
		if (e.Kind == reasoning.Started) != (n == 0) {
			fail("event %d is of kind %v", n, e.Kind)
		}
		n++
		switch e.Kind {
		case reasoning.SegmentStart, reasoning.SegmentDelta, reasoning.SegmentEnd:
			if e.Segment == reasoning.Header || e.Segment == reasoning.Reasoning && req.Visibility != reasoning.VisibilityFull ||
				e.Segment == reasoning.Summary && req.Visibility != reasoning.VisibilitySummary {
				fail("an event of segment %v", e.Segment)
			}
			if open[e.Segment] != (e.Kind != reasoning.SegmentStart) {
				fail("segment %v: event of kind %v while open is %v", e.Segment, e.Kind, open[e.Segment])
			}
			open[e.Segment] = e.Kind != reasoning.SegmentEnd
		}
		switch e.Kind {
		case reasoning.SegmentStart:
			if e.Segment == reasoning.ToolCall {
				w.calls++
			}
		case reasoning.SegmentDelta:
			if e.Text == "" || !utf8.ValidString(e.Text) || e.Logprobs != nil && (e.Segment != reasoning.Answer ||
				!req.Logprobs) {
				fail("delta %q of segment %v with %d log probabilities", e.Text, e.Segment, len(e.Logprobs))
			}
			w.text[e.Segment].WriteString(e.Text)
		case reasoning.Done:
			ended, w.result = true, e.Result
			for seg, is := range open {
				if is {
					fail("segment %v is open at the end", reasoning.Segment(seg))
				}
			}
			s.checkResult(req, w, fail)
		}
		if !on(n) {
			left = true
			break
		}
	}
	if !ended && !left {
		fail("no end after %d events", n)
	}
	return w
}

// mayFail reports whether a run may end with an error.
func (s *soakRun) mayFail(ctx context.Context, err error) bool {
	return errors.Is(err, errInjected) || errors.Is(err, generation.ErrQueueFull) ||
		errors.Is(err, generation.ErrClosed) && s.closes ||
		errors.Is(err, context.Canceled) && ctx.Err() != nil || errors.As(err, new(*generation.PromptTooLongError))
}

func (s *soakRun) checkResult(req generation.Request, w *seen, fail func(string, ...any)) {
	r, u := w.result, w.result.Usage
	limit := s.r.Info().ContextSize - u.Prompt
	if req.MaxTokens > 0 {
		limit = min(limit, req.MaxTokens)
	}
	if u.Completion > limit || u.Reasoning+u.Answer > u.Completion || u.Prompt > 0 && u.Cached >= u.Prompt {
		fail("usage %+v, limit %d", u, limit)
	}
	most := 160
	if req.DetailedSummary {
		most = 400
	}
	if req.SummaryTokens > 0 {
		most = req.SummaryTokens
	}
	summary := w.text[reasoning.Summary].Len() > 0
	if u.Summary > most || u.Summary > 0 && req.Visibility != reasoning.VisibilitySummary ||
		summary != (r.SummarySource != "") {
		fail("a summary is %v, source %q, %d tokens of %d", summary, r.SummarySource, u.Summary, most)
	}
	harmony := isHarmony(s.r) && len(req.Tools) == 0 &&
		req.Strategy == reasoning.StrategyNative
	if harmony && req.Budget > 0 && u.Reasoning > req.Budget { // text between markers counts, also with effort none
		fail("%d tokens of reasoning", u.Reasoning)
	}
	switch r.Finish {
	case reasoning.FinishLength:
	case reasoning.FinishToolCalls:
		if w.calls == 0 {
			fail("finished for calls without any")
		}
	case reasoning.FinishStop:
		if (r.Detail == reasoning.DetailStopString) != (r.StopString != "") {
			fail("detail %q and stop string %q", r.Detail, r.StopString)
		}
	default:
		fail("finish %q", r.Finish)
	}
	for _, stop := range req.Stop {
		if strings.Contains(w.text[reasoning.Answer].String(), stop) && !strings.Contains("\n\n", stop) {
			fail("the answer holds the stop string %q", stop)
		}
	}
}
