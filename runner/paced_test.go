package runner

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
)

// Runs are the same on a model whose sequences go at their own pace, with summaries, forms, budgets and stop strings.
func TestPacedRunsAreTheSame(t *testing.T) {
	var requests []generation.Request
	var replies []fake.Reply
	for i := range 12 {
		name := fmt.Sprintf("question %c", 'a'+i)
		replies = append(replies, fake.Reply{After: ask(name),
			Say: think("the reasoning about "+name+" is long, and it goes on", "the answer to "+name+" is 42 and more")})
		req := user(name)
		seed := uint64(i)
		req.Seed, req.Principal = &seed, fmt.Sprint(i%3)
		switch i % 4 {
		case 0:
			req.Visibility = reasoning.VisibilitySummary
		case 1:
			req.Visibility, req.Budget = reasoning.VisibilityFull, 6
		case 2:
			req.Sampling.Temperature, req.MaxTokens = 1, 40
		case 3:
			req.Stop = []string{"is 42"}
		}
		requests = append(requests, req)
	}
	play := func(pace func(id, length int) time.Duration) []got {
		f := start(t, fake.Config{Pace: pace}, Config{Parallel: 4}, replies...)
		results := make([]got, len(requests))
		var wg sync.WaitGroup
		for i, req := range requests {
			wg.Go(func() { results[i] = collect(context.Background(), f.Runner, req) })
		}
		wg.Wait()
		return results
	}
	want := play(nil)
	paced := play(func(id, length int) time.Duration {
		return time.Duration((id*13+length*7)%5) * 100 * time.Microsecond
	})
	for i := range want {
		a, b := want[i], paced[i]
		if a.err != nil || b.err != nil || i%4 == 0 && a.text[reasoning.Answer] == "" {
			t.Fatalf("run %d: %v, paced %v", i, a.err, b.err)
		}
		for _, s := range []reasoning.Segment{reasoning.Reasoning, reasoning.Answer} {
			if a.text[s] != b.text[s] {
				t.Errorf("run %d, %v: %q, and %q at its own pace", i, s, a.text[s], b.text[s])
			}
		}
		if a.result.Finish != b.result.Finish || a.result.Usage.Completion != b.result.Usage.Completion {
			t.Errorf("run %d: %v %+v, paced %v %+v", i, a.result.Finish, a.result.Usage, b.result.Finish, b.result.Usage)
		}
	}
}

// A sequence that takes for ever delays neither others nor new ones, and ends at once when it is cancelled. The clock
// is synctest's, so a busy machine changes nothing.
func TestPacedLanesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stuck atomic.Int64
		begun := make(chan struct{})
		f := start(t, fake.Config{Pace: func(id, _ int) time.Duration {
			if stuck.CompareAndSwap(0, int64(id)) {
				close(begun)
			}
			if int64(id) == stuck.Load() {
				return time.Hour
			}
			return 0
		}}, Config{}, fake.Reply{After: ask("quick"), Say: think("short", "done")})
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- collect(ctx, f.Runner, user("slow")).err }()
		<-begun
		for range 20 {
			within, stop := context.WithTimeout(context.Background(), 5*time.Second)
			if g := collect(within, f.Runner, user("quick")); g.err != nil || g.text[reasoning.Answer] != "done" {
				t.Fatalf("beside a stuck run: %q, %v", g.text[reasoning.Answer], g.err)
			}
			stop()
		}
		cancel()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a cancelled run has no error")
			}
		case <-time.After(time.Second):
			t.Error("a cancelled run does not end")
		}
		synctest.Wait() // the caller hears of the end before the scheduler counts it
		if s := f.Stats(); s.Active != 0 {
			t.Errorf("%d runs are still active", s.Active)
		}
	})
}

// While nothing comes, the scheduler waits. It does not ask again and again.
func TestPacedSchedulerRests(t *testing.T) {
	asked := make(chan struct{}, 1000)
	m := &restingModel{Model: fake.New(fake.Config{Pace: func(int, int) time.Duration { return 50 * time.Millisecond }}),
		asked: asked}
	r, err := New(m, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	req := user("hello")
	req.MaxTokens = 8
	if g := collect(context.Background(), r, req); g.err != nil {
		t.Fatal(g.err)
	}
	if n := len(asked); n > 60 {
		t.Errorf("%d steps for 8 tokens", n)
	}
}

// restingModel counts steps.
type restingModel struct {
	*fake.Model
	asked chan struct{}
}

func (m *restingModel) Step(ctx context.Context, in []backend.Input, out []backend.Output) error {
	m.asked <- struct{}{}
	return m.Model.Step(ctx, in, out)
}

// An input that is pending is handed in again only when something came for its sequence.
func TestWaitingLanesAreLeftOut(t *testing.T) {
	const runs = 8
	pace := func(id, length int) time.Duration {
		return time.Duration(id%4+1) * time.Duration(length%3) * time.Millisecond
	}
	m := &countingModel{Model: fake.New(fake.Config{Pace: pace}), waits: map[backend.Sequence]bool{}}
	r, err := New(m, Config{Parallel: runs})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range runs {
		wg.Go(func() {
			req := user("hello")
			req.MaxTokens = 30
			if g := collect(context.Background(), r, req); g.err != nil {
				t.Error(g.err)
			}
		})
	}
	wg.Wait()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if m.idle > 0 || m.results < 100 {
		t.Errorf("%d inputs were handed in for nothing, beside %d results", m.idle, m.results)
	}
}

// countingModel counts the inputs of which the model knew that their results had not come. It is used by the scheduler
// alone, and read after its runs.
type countingModel struct {
	*fake.Model
	waits         map[backend.Sequence]bool
	idle, results int
}

func (m *countingModel) Step(ctx context.Context, in []backend.Input, out []backend.Output) error {
	for i := range in {
		if m.waits[in[i].Sequence] && !in[i].Sequence.(backend.Arriving).Arrived() {
			m.idle++
		}
	}
	err := m.Model.Step(ctx, in, out)
	for i := range in {
		if m.waits[in[i].Sequence] = err == nil && out[i].Pending; !m.waits[in[i].Sequence] {
			m.results++
		}
	}
	return err
}
