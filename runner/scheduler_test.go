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

// slowEmbedder takes its time for each text.
type slowEmbedder struct{ *fake.Model }

func (m slowEmbedder) Embed(ctx context.Context, tokens []backend.Token) ([]float32, error) {
	time.Sleep(time.Millisecond)
	return m.Model.Embed(ctx, tokens)
}

// TestEmbeddingsDoNotStallDecoding: however many texts wait for their embeddings, runs go on.
func TestEmbeddingsDoNotStallDecoding(t *testing.T) {
	vocab := fake.Harmony()
	reply := fake.Reply{After: ask("q"), Say: think("x", "a b c d e f g h")}
	r, err := New(slowEmbedder{fake.New(fake.Config{Vocab: vocab, Script: fake.Replies(vocab, reply)})}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tokens, err := r.Tokenize(t.Context(), "", "some text", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = r.Embed(ctx, "", tokens)
			}
		})
	}
	defer wg.Wait()
	defer cancel()
	if g := collect(ctx, r, user("q")); g.err != nil {
		t.Fatal(g.err)
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
