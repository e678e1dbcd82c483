package runner

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/testenv"
)

// endless is a script that opens a channel and then writes words until a limit ends it. It does not allocate.
func endless(v *backend.Vocab, channel string) fake.Script {
	ids := fake.Encode(v, "<|start|>assistant<|channel|>"+channel+"<|message|>")
	words := fake.Encode(v, " and that was it\n so the answer is 12 🙂 é")
	return func(tokens []backend.Token) backend.Token {
		last := tokens[len(tokens)-1]
		for i := 1; i+1 < len(ids); i++ {
			if last == ids[i] {
				return ids[i+1]
			}
		}
		return words[len(tokens)%len(words)]
	}
}

// decodeCases are settings that must not cost memory per token. Only log probabilities may, because the caller gets
// them.
var decodeCases = []struct {
	name, channel string
	change        func(*generation.Request)
}{
	{"answer", "final", func(*generation.Request) {}},
	{"hidden", "analysis", func(r *generation.Request) { r.MaySee = reasoning.VisibilityFull }},
	{"full", "analysis", func(r *generation.Request) { r.Visibility = reasoning.VisibilityFull }},
	{"summary", "final", func(r *generation.Request) { r.Visibility = reasoning.VisibilitySummary }},
	{"stop", "final", func(r *generation.Request) { r.Stop = []string{" and then", "the answer was"} }},
	{"tools", "final", func(r *generation.Request) { r.Tools, r.Effort = addTool, reasoning.EffortNone }},
	{"traced", "analysis", func(r *generation.Request) {
		r.MaySee = reasoning.VisibilityFull
	}},
	{"sampled", "final", func(r *generation.Request) { r.Sampling = backend.Sampling{Temperature: 1, TopP: 0.9} }},
	{"penalised", "final", func(r *generation.Request) {
		r.Sampling = backend.Sampling{PresencePenalty: 0.1, PenaltyWindow: 64, Bias: []backend.TokenBias{{Token: 1, Bias: 1}}}
	}},
}

// observerOf returns the observer of a case.
func observerOf(name string) generation.Observer {
	if name == "traced" {
		return forgetful{}
	}
	return generation.Unobserved{}
}

// forgetful is an observer whose recorder keeps nothing.
type forgetful struct{ generation.Unobserved }

func (forgetful) Trace(context.Context, *generation.TracedRun) (generation.Recorder, error) {
	return forgetful{}, nil
}
func (forgetful) Record(reasoning.Event)    {}
func (forgetful) Flush()                    {}
func (forgetful) End(error) (string, error) { return "", nil }

func decodeRunner(tb testing.TB, channel string, d Drafts) *Runner {
	tb.Helper()
	v := fake.Harmony()
	r, err := New(fake.New(fake.Config{Vocab: v, Script: endless(v, channel), ContextSize: 16384}), Config{Drafts: d})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

// decode generates n tokens and reads all events.
func decode(tb testing.TB, r *Runner, change func(*generation.Request), o generation.Observer, n int) {
	req := user("go on")
	change(&req)
	req.MaxTokens, req.AnswerReserve = n, -1
	for e, err := range r.Generate(tb.Context(), req, o) {
		if err != nil {
			tb.Error(err)
		}
		if e.Kind == reasoning.Done && e.Result.Usage.Completion != n {
			tb.Errorf("%d tokens, want %d", e.Result.Usage.Completion, n)
		}
	}
}

// BenchmarkDecode measures one token, from the scheduler to the reader, with the fake model's own time in it.
func BenchmarkDecode(b *testing.B) {
	logprobs := decodeCases[0]
	logprobs.name, logprobs.change = "logprobs", func(r *generation.Request) {
		r.Logprobs, r.Sampling.TopLogprobs = true,
			5
	}
	for _, c := range append(decodeCases[:len(decodeCases):len(decodeCases)], logprobs) {
		b.Run(c.name, func(b *testing.B) {
			r := decodeRunner(b, c.channel, DraftsOff)
			b.ReportAllocs()
			for n := b.N; n > 0; n -= 8192 {
				decode(b, r, c.change, observerOf(c.name), min(n, 8192))
			}
		})
	}
	b.Run("together", func(b *testing.B) {
		r := decodeRunner(b, "final", DraftsOff)
		b.ReportAllocs()
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				for n := (b.N + i) / 4; n > 0; n -= 8192 {
					decode(b, r, func(*generation.Request) {}, generation.Unobserved{}, min(n, 8192))
				}
			})
		}
		wg.Wait()
	})
}

// TestDecodingAllocatesNothingPerToken compares a long run with a short one, to exclude the cost of a request itself.
func TestDecodingAllocatesNothingPerToken(t *testing.T) {
	testenv.SkipRaced(t)
	const short, long = 512, 8192
	for i := range 2 * len(decodeCases) {
		c, guesses := decodeCases[i/2], []Drafts{DraftsOff, DraftsOn}[i%2]
		r := decodeRunner(t, c.channel, guesses)
		mallocs := func(n int) float64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			decode(t, r, c.change, observerOf(c.name), n)
			runtime.ReadMemStats(&after)
			return float64(after.Mallocs - before.Mallocs)
		}
		mallocs(long) // grows the reused buffers
		// Growing slices and text between tokens' pieces cost a little. One allocation per token would give 1.
		if per := (mallocs(long) - mallocs(short)) / (long - short); per > 0.05 {
			t.Errorf("%s, guesses %d: %.3f allocations per token", c.name, guesses, per)
		} else {
			t.Logf("%s, guesses %d: %.4f allocations per token", c.name, guesses, per)
		}
		if s := r.Stats(); guesses == DraftsOn && s.Accepted < long/2 {
			t.Errorf("%s: only %d guesses were right", c.name, s.Accepted)
		}
	}
}
