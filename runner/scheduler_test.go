package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

func TestSecondTurnReusesThePrefix(t *testing.T) {
	f := start(t, fake.Config{}, Config{},
		fake.Reply{After: ask("first"), Say: think(thought, "one")},
		fake.Reply{After: ask("second"), Say: think(thought, "two")})
	long := strings.Repeat("words words words ", 200)
	req := generation.Request{Messages: []chattemplate.Message{{Role: chattemplate.System, Content: long},
		{Role: chattemplate.User, Content: "first"}}}
	g := f.must(t, req)
	if g.result.Usage.Cached != 0 {
		t.Errorf("cached %d before anything ran", g.result.Usage.Cached)
	}
	req.Messages = append(req.Messages, chattemplate.Message{Role: chattemplate.Assistant,
		Content: g.text[reasoning.Answer]},
		chattemplate.Message{Role: chattemplate.User, Content: "second"})
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "two")
	if u := g.result.Usage; u.Cached*100 < u.Prompt*95 {
		t.Errorf("cached %d of %d", u.Cached, u.Prompt)
	}
}

func TestConcurrentRunsGetTheirOwnAnswers(t *testing.T) {
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
		replies = append(replies, summaryReply(prompts.SummaryConciseV1, "Short."))
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
	f := start(t, fake.Config{BatchSize: 128, ContextSize: 16384, Delay: func(int) time.Duration {
		return time.Millisecond
	}}, Config{PrefillChunk: 32},
		fake.Reply{After: ask("talk"), Say: think("", strings.Repeat("la ", 300))},
		fake.Reply{After: ask("long"), Say: think("", "ok")})
	talking := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	wg.Go(func() {
		for e, err := range f.Generate(t.Context(), user("talk"), generation.Unobserved{}) {
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
	for e, err := range f.Generate(ctx, user(strings.Repeat("pad ", 300)+"go on"), generation.Unobserved{}) {
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

// TestEmbeddingsDoNotStallDecoding checks that a run gets about half of the time, however long the texts are and
// however many wait, and that each piece of a text is short. A step takes time in proportion to its tokens.
func TestEmbeddingsDoNotStallDecoding(t *testing.T) {
	const perToken = time.Millisecond
	var running, embedded, longest int
	began, ended := false, false
	cfg := fake.Config{Vocab: fake.Harmony(), Delay: func(n int) time.Duration { return time.Duration(n) * perToken }}
	cfg.Fail = func(_ int, inputs []backend.Input) error { // sees every step
		for _, in := range inputs {
			switch n := len(in.Tokens); {
			case in.Hidden != nil:
				if longest = max(longest, n); began && !ended {
					embedded += n
				}
			case in.Sampling != nil && n == 1:
				began = true
				running++
			}
		}
		return nil
	}
	cfg.Script = fake.Replies(cfg.Vocab, fake.Reply{After: ask("q"), Say: think("x", strings.Repeat("a b ", 60))})
	r, err := New(fake.New(cfg), Config{Parallel: 2, Drafts: DraftsOff}) // the steps are counted in tokens
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := r.Embed(ctx, fmt.Sprint(i%2), make([]backend.Token, 2000)); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for s := r.Stats(); s.Active < 2; s = r.Stats() {
		time.Sleep(time.Millisecond)
	}
	req := user("q")
	req.Principal = "another"
	g := collect(ctx, r, req)
	if err := r.sched.do(t.Context(), func() { ended = true }); err != nil || g.err != nil {
		t.Fatal(err, g.err)
	}
	cancel()
	wg.Wait()
	if running < 100 || embedded == 0 || embedded > 3*running+2*mostPiece || longest > mostPiece {
		t.Errorf("while the run had %d steps, %d tokens of texts were embedded, at most %d at once", running,
			embedded, longest)
	}
}

// TestEmbeddingDependsOnItsTextOnly checks that the embedding is the same whatever else runs and however the text is
// cut, and that no sequence is left.
func TestEmbeddingDependsOnItsTextOnly(t *testing.T) {
	f := start(t, fake.Config{Sequences: 4, ContextSize: 512, CacheTokens: 700}, Config{Parallel: 2},
		fake.Reply{After: ask("q"), Say: think("x", strings.Repeat("a b ", 100))})
	text := make([]backend.Token, 500)
	for i := range text {
		text[i] = backend.Token(i % 50)
	}
	alone, err := f.Embed(t.Context(), "a", text)
	if err != nil {
		t.Fatal(err)
	}
	length := 0.0
	for _, x := range alone {
		length += float64(x) * float64(x)
	}
	if math.Abs(length-1) > 1e-5 {
		t.Errorf("its length is %v", math.Sqrt(length))
	}
	var wg sync.WaitGroup
	for range 4 { // more than fit into the cache
		wg.Go(func() {
			for range 3 {
				if got, err := f.Embed(t.Context(), "a", text); err != nil || !slices.Equal(got, alone) {
					t.Errorf("another embedding, or %v", err)
				}
			}
		})
		wg.Go(func() { f.must(t, user("q")) })
	}
	wg.Wait()
	if _, err := f.Embed(t.Context(), "a", make([]backend.Token, 513)); err == nil {
		t.Error("a text that is longer than the context is embedded")
	}
	if err := f.sched.do(t.Context(), func() { f.sched.cache.close() }); err != nil {
		t.Fatal(err)
	}
	if n := f.model.OpenSequences(); n != 0 {
		t.Errorf("%d sequences are left", n)
	}
}

func TestSlowReaderDelaysNobody(t *testing.T) {
	f := start(t, fake.Config{}, Config{}, fake.Reply{After: ask("a"), Say: think("", strings.Repeat("la ", 200))})
	release := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, err := range f.Generate(t.Context(), user("a"), generation.Unobserved{}) {
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
	synctest.Test(t, func(t *testing.T) {
		f := start(t, fake.Config{Delay: func(int) time.Duration { return time.Millisecond }}, Config{},
			fake.Reply{After: ask("a"), Say: think("", strings.Repeat("la ", 3000))})
		for e, err := range f.Generate(t.Context(), user("a"), generation.Unobserved{}) {
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
	})
}

func TestQueueIsBounded(t *testing.T) {
	f := start(t, fake.Config{Sequences: 1, Delay: func(int) time.Duration { return time.Millisecond }}, Config{Queue: 2},
		fake.Reply{After: ask("a"), Say: think("", strings.Repeat("la ", 100))})
	var wg sync.WaitGroup
	var mu sync.Mutex
	refused := 0
	for range 10 {
		wg.Go(func() {
			if g := collect(t.Context(), f.Runner, user("a")); errors.Is(g.err, generation.ErrQueueFull) {
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
