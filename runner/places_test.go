package runner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/testenv"
)

// The clock of these tests is synctest's, so a busy machine changes nothing.

// stepTime is how long a step of their models takes.
const stepTime = 5 * time.Millisecond

func steady(int) time.Duration { return stepTime }

// unending asks for so many tokens of noise, which depends on all tokens before.
func unending(principal string, number, tokens int) generation.Request {
	seed := uint64(number)
	req := generation.Request{Principal: principal, Prompt: fmt.Sprintf("%d of %s: ", number, principal), IgnoreEnd: true,
		MaxTokens: tokens, Seed: &seed}
	req.Sampling.Temperature = 1
	return req
}

// rereads is a model that may compute other logits when tokens are fed again.
type rereads struct{ *fake.Model }

func (m rereads) Capabilities() backend.Capabilities {
	c := m.Model.Capabilities()
	c.Drafts = false
	return c
}

// tenants is a runner whose steps are watched.
type tenants struct {
	*Runner
	model *fake.Model
	mu    sync.Mutex
	// fed counts a principal's inputs that sampled.
	fed map[string]int
}

func newTenants(t *testing.T, cfg fake.Config, rc Config, again bool, replies ...fake.Reply) *tenants {
	t.Helper()
	n := &tenants{fed: map[string]int{}}
	cfg.Vocab = fake.Harmony()
	if len(replies) > 0 {
		cfg.Script = fake.Replies(cfg.Vocab, replies...)
	}
	slow := cfg.Fail
	cfg.Fail = func(step int, inputs []backend.Input) error {
		if slow != nil {
			return errors.Join(slow(step, inputs), n.note(inputs))
		}
		return n.note(inputs)
	}
	n.model, rc.Clock, rc.Queue, rc.Loops = fake.New(cfg), clock, 1000, loops
	model := backend.Model(n.model)
	if again {
		model = rereads{n.model}
	}
	r, err := New(model, rc)
	if err != nil {
		t.Fatal(err)
	}
	n.Runner = r
	t.Cleanup(func() {
		if err := r.Close(); err != nil || n.model.OpenSequences() != 0 {
			t.Errorf("close: %v, %d sequences leaked", err, n.model.OpenSequences())
		}
	})
	return n
}

func (n *tenants) note(inputs []backend.Input) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range inputs {
		if inputs[i].Sampling != nil {
			n.fed[inputs[i].Owner]++
		}
	}
	return nil
}

// counts returns how often principals sampled since the last call.
func (n *tenants) counts() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	was := n.fed
	n.fed = map[string]int{}
	return was
}

// occupy starts runs that do not end before ctx, and returns when they have begun. gap is the longest time between two
// texts of one of them.
func (n *tenants) occupy(ctx context.Context, t *testing.T, wg *sync.WaitGroup, principal string, runs int, gap *gap) {
	t.Helper()
	for i := range runs {
		wg.Go(func() {
			last := time.Now()
			for e, err := range n.Generate(ctx, unending(principal, i, 0), generation.Unobserved{}) {
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if e.Kind == reasoning.SegmentDelta {
					gap.note(time.Since(last))
					last = time.Now()
				}
			}
		})
	}
	time.Sleep(10 * stepTime)
}

// gap is a longest time.
type gap struct{ longest atomic.Int64 }

func (g *gap) note(d time.Duration) {
	for is := g.longest.Load(); int64(d) > is && !g.longest.CompareAndSwap(is, int64(d)); {
		is = g.longest.Load()
	}
}

// TestPlacesAreShared checks what part of the steps each principal gets over time, and that no run rests for long.
func TestPlacesAreShared(t *testing.T) {
	testenv.SkipRaced(t)
	for _, c := range []struct {
		name             string
		places, sequence int
		runs             []int
		want             []float64 // places
		rests            time.Duration
	}{
		{"one alone", 4, 8, []int{4}, []float64{4}, 50 * time.Millisecond},
		{"two with many", 4, 8, []int{4, 4}, []float64{2, 2}, time.Second},
		{"one that wants little", 4, 8, []int{4, 1}, []float64{3, 1}, time.Second},
		{"two that want little", 4, 8, []int{4, 1, 1}, []float64{2, 1, 1}, time.Second},
		{"places that cannot be divided", 4, 8, []int{4, 4, 4}, []float64{4. / 3, 4. / 3, 4. / 3}, 2 * time.Second},
		{"more principals than places", 4, 8, []int{1, 1, 1, 1, 1}, []float64{.8, .8, .8, .8, .8}, time.Second},
		{"one place", 1, 2, []int{2, 1}, []float64{.5, .5}, 2 * time.Second},
		{"more runs than sequences", 2, 2, []int{2, 2, 1}, []float64{2. / 3, 2. / 3, 2. / 3}, 4 * time.Second},
		{"five places", 5, 10, []int{5, 5}, []float64{2.5, 2.5}, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newTenants(t, fake.Config{Sequences: c.sequence, Delay: steady, ContextSize: 16384},
					Config{Parallel: c.places, Drafts: DraftsOff}, false)
				ctx, end := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				var rests gap
				for i, runs := range c.runs {
					n.occupy(ctx, t, &wg, fmt.Sprint(i), runs, &rests)
				}
				time.Sleep(2 * time.Second)
				rests.longest.Store(0)
				n.counts()
				const span = 20 * time.Second
				time.Sleep(span)
				counts := n.counts()
				for i, want := range c.want {
					got := float64(counts[fmt.Sprint(i)]) * float64(stepTime) / float64(span)
					if got < .85*want || got > 1.15*want {
						t.Errorf("principal %d has %.2f places, want %.2f", i, got, want)
					}
				}
				if is := time.Duration(rests.longest.Load()); is > c.rests {
					t.Errorf("a run rests for %v", is)
				}
				if s := n.Stats(); len(c.runs) == 1 && s.Pauses > 0 || len(c.runs) > 1 && s.Pauses == 0 {
					t.Errorf("%d pauses", s.Pauses)
				}
				end()
				wg.Wait()
				n.rest(t)
			})
		})
	}
}

// rest checks that nothing is left of the runs.
func (n *tenants) rest(t *testing.T) {
	t.Helper()
	time.Sleep(time.Second) // the figures are counted after a step
	synctest.Wait()
	if s := n.Stats(); s.Active+s.Waiting+s.Paused != 0 {
		t.Errorf("at the end %d runs are active, %d wait, %d are paused", s.Active, s.Waiting, s.Paused)
	}
}

// TestQuestionsBesideEndlessRuns checks that a question of another principal waits for no run of one that has all
// places: neither for places, nor for sequences, nor for the cache.
func TestQuestionsBesideEndlessRuns(t *testing.T) {
	testenv.SkipRaced(t)
	reply := fake.Reply{After: ask("q"), Say: think("x", "a b c d e")}
	paced := func(int, int) time.Duration { return stepTime }
	for name, c := range map[string]struct {
		cfg   fake.Config
		again bool
	}{
		"places":                          {cfg: fake.Config{Sequences: 8}},
		"places, kept":                    {fake.Config{Sequences: 8}, true},
		"sequences":                       {cfg: fake.Config{Sequences: 4}},
		"a full cache":                    {cfg: fake.Config{Sequences: 8, ContextSize: 4000, CacheTokens: 4000}},
		"a full cache, kept":              {fake.Config{Sequences: 8, ContextSize: 4000, CacheTokens: 4000}, true},
		"sequences at their own pace":     {cfg: fake.Config{Sequences: 8, Pace: paced}},
		"one at a time at their own pace": {cfg: fake.Config{Sequences: 4, Pace: paced}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := c.cfg
				if cfg.Pace == nil {
					cfg.Delay = steady
				}
				n := newTenants(t, cfg, Config{Parallel: 4, Drafts: DraftsOff}, c.again, reply)
				ctx, end := context.WithCancel(t.Context())
				var wg sync.WaitGroup
				for i := range 4 {
					wg.Go(func() {
						for k := 0; ctx.Err() == nil; k++ {
							req := unending("many", 10*k+i, 0)
							req.Sampling.Bias = []backend.TokenBias{{Token: 97, Bias: 100}}
							for _, err := range n.Generate(ctx, req, generation.Unobserved{}) {
								if err != nil && ctx.Err() == nil {
									t.Error(err)
								}
							}
						}
					})
				}
				var alone time.Duration
				for i := range 12 {
					req := user("q")
					req.Principal = "one"
					began := time.Now()
					if g := collect(ctx, n.Runner, req); g.err != nil || g.text[reasoning.Answer] != "a b c d e" {
						t.Fatalf("question %d: %q, %v", i, g.text[reasoning.Answer], g.err)
					}
					took := time.Since(began)
					if i == 0 {
						alone = took
					}
					if took > 40*stepTime {
						t.Errorf("question %d took %v, the first one %v", i, took, alone)
					}
					time.Sleep(time.Second)
				}
				end()
				wg.Wait()
				n.rest(t)
			})
		})
	}
}

// TestLongSequencesKeepNobodyWaiting checks that a short run beside the long ones of another principal gets half of the
// time, that none of these rests for long, and that they are in every step if their length hardly counts.
func TestLongSequencesKeepNobodyWaiting(t *testing.T) {
	for _, perToken := range []time.Duration{10 * time.Microsecond, 100 * time.Nanosecond} {
		synctest.Test(t, func(t *testing.T) {
			cfg := fake.Config{ContextSize: 16384, Sequences: 8}
			cfg.Fail = func(_ int, inputs []backend.Input) error {
				held := 0
				for i := range inputs {
					held += len(inputs[i].Sequence.Tokens())
				}
				time.Sleep(stepTime + time.Duration(held)*perToken)
				return nil
			}
			n := newTenants(t, cfg, Config{Parallel: 4, Drafts: DraftsOff}, false)
			ctx, end := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var rests gap
			n.occupy(ctx, t, &wg, strings.Repeat("many ", 600), 3, &rests)
			time.Sleep(20 * time.Second)
			n.occupy(ctx, t, &wg, "one", 1, new(gap))
			time.Sleep(3 * time.Second)
			n.counts()
			rests.longest.Store(0)
			const span = 10 * time.Second
			time.Sleep(span)
			counts := n.counts()
			one, many := counts["one"], counts[strings.Repeat("many ", 600)]
			enough := many >= 3*one-3
			if perToken > time.Microsecond {
				enough = one > int(span/stepTime)/5 && many > 0 // together with them it would be a twentieth
			}
			if !enough {
				t.Errorf("with %v for a token, the short run samples %d times, the long ones %d times", perToken, one, many)
			}
			if is := time.Duration(rests.longest.Load()); is > time.Second {
				t.Errorf("a long run rests for %v", is)
			}
			end()
			wg.Wait()
			n.rest(t)
		})
	}
}

// TestLongPromptsKeepNobodyWaiting checks that a run beside the long prompts of another principal gets half of the
// time, that the prompts are read meanwhile, and that a short prompt among long ones is read in the next step.
func TestLongPromptsKeepNobodyWaiting(t *testing.T) {
	const perToken = 200 * time.Microsecond
	synctest.Test(t, func(t *testing.T) {
		cfg := fake.Config{ContextSize: 16384, Sequences: 8}
		var read atomic.Int64
		cfg.Fail = func(_ int, inputs []backend.Input) error {
			n := 0
			for i := range inputs {
				n += len(inputs[i].Tokens)
				if inputs[i].Owner == "many" {
					read.Add(int64(len(inputs[i].Tokens)))
				}
			}
			time.Sleep(stepTime + time.Duration(n)*perToken)
			return nil
		}
		n := newTenants(t, cfg, Config{Parallel: 4, Drafts: DraftsOff}, false)
		ctx, end := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				for k := 0; ctx.Err() == nil; k++ {
					req := unending("many", 100*i+k, 1)
					req.Prompt += strings.Repeat("word ", 600)
					if g := collect(ctx, n.Runner, req); g.err != nil && ctx.Err() == nil {
						t.Error(g.err)
					}
				}
			})
		}
		time.Sleep(5 * time.Second)
		began := time.Now()
		if g := collect(t.Context(), n.Runner, unending("one", 1, 1)); g.err != nil {
			t.Fatal(g.err)
		}
		if most := 3 * (stepTime + 512*perToken); time.Since(began) > most {
			t.Errorf("the first token of a short prompt took %v, at most %v is expected", time.Since(began), most)
		}
		n.occupy(ctx, t, &wg, "one", 1, new(gap))
		time.Sleep(time.Second)
		n.counts()
		const span = 10 * time.Second
		before := read.Load()
		time.Sleep(span)
		one, many := n.counts()["one"], int(read.Load()-before)
		if steps := int(span / (stepTime + perToken)); one < 2*steps/5 {
			t.Errorf("the run samples %d times, %d would be alone", one, steps)
		}
		if all := int(span / perToken); many < 2*all/5 {
			t.Errorf("%d tokens are read, %d would be alone", many, all)
		}
		end()
		wg.Wait()
		n.rest(t)
	})
}

// TestPlacesForget checks that principals that are gone leave nothing behind.
func TestPlacesForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTenants(t, fake.Config{Delay: steady}, Config{Parallel: 1}, false)
		for i := range 100 {
			var wg sync.WaitGroup
			for _, who := range []string{"a", "b"} { // the runs of one are paused for the other
				wg.Go(func() {
					for _, err := range n.Generate(t.Context(), unending(fmt.Sprint(who, i), i, 100), generation.Unobserved{}) {
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			time.Sleep(orderTime / 10)
		}
		if p := &n.sched.places; len(p.served) > 22 || len(p.gave) > 2 || n.Stats().Pauses == 0 {
			t.Errorf("%d are remembered in order, and %d as paused, after %d pauses", len(p.served), len(p.gave),
				n.Stats().Pauses)
		}
	})
}

// TestTurnsNeedPlaces checks that runs of many turns keep nobody waiting, although each of their turns goes first among
// the runs of its principal.
func TestTurnsNeedPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		replies := append(delegates(), fake.Reply{After: ask("q"), Say: think("x", "a b c d e")})
		n := newTenants(t, fake.Config{ContextSize: 4096, Sequences: 4, Delay: steady},
			Config{Parallel: 2, Drafts: DraftsOff}, false, replies...)
		ctx, end := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for ctx.Err() == nil {
					req := byModel("2+2?")
					req.Principal = "many"
					if g := collect(ctx, n.Runner, req); g.err != nil && ctx.Err() == nil {
						t.Error(g.err)
					}
				}
			})
		}
		for i := range 20 {
			time.Sleep(200 * time.Millisecond)
			req := user("q")
			req.Principal = "one"
			began := time.Now()
			if g := collect(t.Context(), n.Runner, req); g.err != nil || g.text[reasoning.Answer] != "a b c d e" {
				t.Errorf("question %d: %q, %v", i, g.text[reasoning.Answer], g.err)
			}
			if took := time.Since(began); took > 40*stepTime {
				t.Errorf("question %d took %v", i, took)
			}
		}
		end()
		wg.Wait()
		n.rest(t)
	})
}

// TestPausedTextsAreTheSame plays random requests of several principals, some of which leave, on models that are too
// small for all of them. What is not cut short must be as if it had been alone, and all must end.
func TestPausedTextsAreTheSame(t *testing.T) {
	testenv.SkipRaced(t)
	rounds := uint64(30)
	if testing.Short() {
		rounds = 6
	}
	pauses := int64(0)
	for seed := range rounds {
		synctest.Test(t, func(t *testing.T) { pauses += pausedRound(t, seed) })
		if t.Failed() {
			t.Fatalf("in round %d", seed)
		}
	}
	if pauses < int64(rounds) {
		t.Errorf("only %d pauses in %d rounds", pauses, rounds)
	}
}

// pausedRound plays one model and returns how often runs were paused.
func pausedRound(t *testing.T, seed uint64) int64 {
	rng := rand.New(rand.NewPCG(seed, 44))
	places, principals := 1+rng.IntN(4), 1+rng.IntN(5)
	script := babble(fake.Harmony(), soakText["harmony"], 10)
	requests := make([]generation.Request, 30)
	for i := range requests {
		requests[i] = unending(fmt.Sprint(rng.IntN(principals)), i, 1+rng.IntN(400))
		if i%2 == 0 {
			seed := uint64(i)
			requests[i] = user(fmt.Sprintf("question %d.", i))
			requests[i].Principal, requests[i].Seed = fmt.Sprint(rng.IntN(principals)), &seed
			requests[i].Visibility, requests[i].MaxTokens = reasoning.Visibility(rng.IntN(3)), 1+rng.IntN(400)
		}
	}
	alone := newTenants(t, fake.Config{ContextSize: 2048, Script: script}, Config{}, false)
	want := make([]got, len(requests))
	for i, req := range requests {
		want[i] = collect(t.Context(), alone.Runner, req)
	}
	cfg := fake.Config{ContextSize: 2048, Script: script, Sequences: places + rng.IntN(places+1),
		BatchSize: []int{512, 512, 32, 3}[rng.IntN(4)]}
	again := rng.IntN(3) == 0
	switch {
	case rng.IntN(4) == 0:
		cfg.Pace = func(id, length int) time.Duration { return time.Duration((id*13+length*7)%5) * time.Millisecond }
	default:
		cfg.Delay = func(tokens int) time.Duration { return time.Millisecond + time.Duration(tokens)*time.Millisecond/20 }
	}
	if rng.IntN(3) == 0 {
		cfg.CacheTokens = 2048 + rng.IntN(1000)
	}
	n := newTenants(t, cfg, Config{Parallel: places, PrefillChunk: 1 + rng.IntN(100)}, again)
	var wg sync.WaitGroup
	var told atomic.Int64
	for i, req := range requests {
		comes, stays := time.Duration(rng.IntN(4000))*time.Millisecond, time.Hour
		if rng.IntN(5) == 0 {
			stays = time.Duration(rng.IntN(3000)) * time.Millisecond
		}
		var paused atomic.Bool
		by := &observes{paused: func(now bool) {
			if paused.Swap(now) == now {
				t.Errorf("run %d is told twice that it is paused: %v", i, now)
			}
			if now {
				told.Add(1)
			}
		}}
		wg.Go(func() {
			time.Sleep(comes)
			ctx, cancel := context.WithTimeout(t.Context(), stays)
			defer cancel()
			g := collect(ctx, n.Runner, req, by)
			if paused.Load() {
				t.Errorf("run %d ends while it is paused", i)
			}
			if errors.Is(g.err, context.DeadlineExceeded) && stays < time.Hour {
				return
			}
			w := want[i]
			w.result.Usage.Cached, g.result.Usage.Cached = 0, 0
			if g.err != nil || g.result.Finish != w.result.Finish || g.result.Usage != w.result.Usage {
				t.Errorf("run %d: %v, %v %+v, alone %v %+v", i, g.err, g.result.Finish, g.result.Usage, w.result.Finish,
					w.result.Usage)
			}
			for _, s := range []reasoning.Segment{reasoning.Reasoning, reasoning.Answer, reasoning.Summary} {
				if g.text[s] != w.text[s] {
					t.Errorf("run %d, %v: %q, alone %q", i, s, g.text[s], w.text[s])
				}
			}
		})
	}
	wg.Wait()
	n.rest(t)
	if got := n.Stats().Pauses; told.Load() != got {
		t.Errorf("%d pauses are counted, runs were told of %d", got, told.Load())
	}
	return n.Stats().Pauses
}

// TestKeptSequencesAreNotComputedAgain checks that a model gets no token twice if that could change a text.
func TestKeptSequencesAreNotComputedAgain(t *testing.T) {
	for _, sequences := range []int{2, 3, 4} {
		synctest.Test(t, func(t *testing.T) {
			n := newTenants(t, fake.Config{Sequences: sequences, Delay: steady}, Config{Parallel: 2}, true)
			var wg sync.WaitGroup
			var tokens atomic.Int64
			for i := range 9 {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 100 * time.Millisecond)
					g := collect(t.Context(), n.Runner, unending(fmt.Sprint(i/3), i, 300))
					if g.err != nil {
						t.Error(g.err)
					}
					tokens.Add(int64(g.result.Usage.Prompt - g.result.Usage.Cached + g.result.Usage.Completion - 1))
				})
			}
			wg.Wait()
			n.rest(t)
			s := n.Stats()
			if s.Tokens != tokens.Load() {
				t.Errorf("%d sequences: %d tokens were fed, %d were needed", sequences, s.Tokens, tokens.Load())
			}
			if (s.Pauses > 0) != (sequences > 2) {
				t.Errorf("%d sequences: %d pauses", sequences, s.Pauses)
			}
		})
	}
}

// TestComputingAgainCostsLittle checks that runs that must give their sequences up spend most of the time on new
// tokens, that what they report as cached does not count what was computed again, and that they start once.
func TestComputingAgainCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newTenants(t, fake.Config{Sequences: 1, ContextSize: 16384, Delay: func(tokens int) time.Duration {
			return time.Duration(tokens) * time.Millisecond
		}}, Config{Parallel: 1, Drafts: DraftsOff}, false)
		var wg sync.WaitGroup
		needed := 0
		for i := range 3 {
			req := unending(fmt.Sprint(i), i, 4000)
			req.Prompt += strings.Repeat("x", 300)
			needed += 4300
			wg.Go(func() {
				g := collect(t.Context(), n.Runner, req)
				started := len(slices.DeleteFunc(g.order, func(k reasoning.Kind) bool { return k != reasoning.Started }))
				if g.err != nil || g.result.Usage.Cached != 0 || started != 1 {
					t.Errorf("run %d: %v, %d cached, started %d times", i, g.err, g.result.Usage.Cached, started)
				}
			})
		}
		wg.Wait()
		s := n.Stats()
		if s.Pauses < 6 || s.Tokens < int64(needed+1000) || s.Tokens > int64(needed)*3/2 {
			t.Errorf("%d pauses, %d tokens were fed, %d were needed", s.Pauses, s.Tokens, needed)
		}
	})
}
