package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/llamacpp"
	"runner/generation"
	"runner/models/demo"
	"runner/reasoning"
	"runner/runner"
	"runner/server"
	"runner/server/openai"
	"runner/server/pool"
	"runner/server/wire"
	"runner/testenv"
)

// usual is the sampling that the command line has by default.
var usual = backend.Sampling{Temperature: 0.8, TopK: 40, TopP: 0.95, MinP: 0.05, TypicalP: 1, RepetitionPenalty: 1}

// timedText is a text to write with and without guesses of next tokens.
type timedText struct {
	kind   string
	tokens int
	prompt []backend.Token
	bias   []backend.TokenBias
	// script is what a scripted model says, or nil if the model says what it likes.
	script []backend.Token
}

// timedTexts are a text that repeats one token, what the model writes of its own accord, and a copy of the prompt.
func timedTexts(tb testing.TB, path string, sizes ...int) (texts []timedText) {
	tb.Helper()
	source, err := os.ReadFile("testdata/drafts/code.txt")
	if err != nil {
		tb.Fatal(err)
	}
	m, err := llamacpp.Open(tb.Context(), path, backend.Config{ContextSize: 512, Sequences: 1})
	if err != nil {
		tb.Fatal(err)
	}
	defer m.Close()
	encode := func(text string) []backend.Token {
		tokens, err := m.Tokenize(nil, text)
		if err != nil {
			tb.Fatal(err)
		}
		return tokens
	}
	code, begin := encode(strings.Repeat(string(source), 4)), encode("Once upon a time there was a")
	letter := encode("a")[0]
	for _, n := range sizes {
		texts = append(texts,
			timedText{"looping", n, begin, []backend.TokenBias{{Token: letter, Bias: 100}}, nil},
			timedText{"honest", n, begin, nil, nil},
			timedText{"copied", n, code[:n], nil, code[:n]})
	}
	return texts
}

// load loads a model that says what the text needs.
func (x *timedText) load(tb testing.TB, path string, threads int, cfg runner.Config) *runner.Runner {
	tb.Helper()
	var model backend.Model
	m, err := llamacpp.Open(context.Background(), path, backend.Config{ContextSize: 8192, Sequences: 2, Threads: threads})
	if err != nil {
		tb.Fatal(err)
	}
	model = m
	if x.script != nil {
		model = &scripted{Model: m, start: len(x.prompt), script: x.script}
	}
	r, err := runner.New(model, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// took is how long a text took, and how much time of the processor.
type took struct{ wall, cpu float64 }

func timed(f func() string) (text string, t took) {
	t.cpu = cpuOf(func() { t.wall = wallOf(func() { text = f() }) })
	return text, t
}

// alone writes the text as `runner run` does: with a model that was just loaded, and nothing is known about its steps.
func (x *timedText) alone(tb testing.TB, path string, threads int, d runner.Drafts) (text string, t took,
	s generation.Stats) {
	r := x.load(tb, path, threads, runner.Config{Drafts: d})
	defer r.Close()
	seed := uint64(7)
	req := generation.Request{PromptTokens: x.prompt, MaxTokens: x.tokens, IgnoreEnd: true, Sampling: usual, Seed: &seed}
	req.Sampling.Bias = x.bias
	text, t = timed(func() string {
		var b strings.Builder
		for e, err := range r.Generate(context.Background(), req, generation.Unobserved{}) {
			if err != nil {
				tb.Fatal(err)
			}
			b.WriteString(e.Text)
			if e.Kind == reasoning.Done && e.Result.Usage.Completion != x.tokens {
				tb.Fatalf("%d tokens, want %d", e.Result.Usage.Completion, x.tokens)
			}
		}
		return b.String()
	})
	return text, t, r.Stats()
}

// served loads a model for a server with the usual sampling, and returns a function that asks it for the text.
func (x *timedText) served(tb testing.TB, path string, threads int, d runner.Drafts) (ask func() string,
	r wire.Loaded) {
	tb.Helper()
	open := func(context.Context, string) (wire.Loaded, error) {
		return x.load(tb, path, threads, runner.Config{Drafts: d, MeasureCosts: true}), nil
	}
	p := pool.New(pool.Config{Models: []pool.Entry{{Name: "model"}}, Open: open})
	s := server.New(server.Config{Pool: p, Cards: []wire.Card{{Name: "model"}}})
	s.Mount(openai.New(s, openai.Config{Defaults: generation.Request{Sampling: usual}}))
	url := testenv.Listen(tb, s) + "/v1/completions"
	r, release, err := p.Use(tb.Context(), "model")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(release)
	bias := map[string]float32{}
	for _, b := range x.bias {
		bias[fmt.Sprint(b.Token)] = b.Bias
	}
	body, err := json.Marshal(map[string]any{"prompt": x.prompt, "max_tokens": x.tokens, "ignore_eos": true, "seed": 7,
		"logit_bias": bias})
	if err != nil {
		tb.Fatal(err)
	}
	return func() string {
		res, err := http.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			tb.Fatal(err)
		}
		defer res.Body.Close()
		var answer struct {
			Choices []struct{ Text string }
			Usage   struct {
				Completion int `json:"completion_tokens"`
			}
		}
		text, err := io.ReadAll(res.Body)
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		if err != nil || answer.Usage.Completion != x.tokens || len(answer.Choices) != 1 {
			tb.Fatalf("%d, %v: %.300s", res.StatusCode, err, text)
		}
		return answer.Choices[0].Text
	}, r
}

// compare writes the text with and without guesses, in turns, and returns the ratios of the times with guesses to those
// without.
func (x *timedText) compare(tb testing.TB, path, way string, threads, pairs int) (wall, cpu []float64,
	s generation.Stats) {
	tb.Helper()
	ways := [2]runner.Drafts{runner.DraftsOff, runner.DraftsAuto}
	var ask [2]func() (string, took)
	for i, d := range ways {
		if way == "alone" {
			ask[i] = func() (string, took) {
				text, t, of := x.alone(tb, path, threads, d)
				if d == runner.DraftsAuto {
					s = of
				}
				return text, t
			}
			continue
		}
		served, r := x.served(tb, path, threads, d)
		time.Sleep(300 * time.Millisecond) // the server measures
		served()
		ask[i] = func() (string, took) {
			text, t := timed(served)
			if d == runner.DraftsAuto {
				s = r.Stats()
			}
			return text, t
		}
	}
	for pair := range pairs {
		var t [2]took
		var text [2]string
		for i := range ways {
			which := (i + pair) % 2
			text[which], t[which] = ask[which]()
		}
		if text[0] != text[1] {
			tb.Fatalf("with guesses\n%.500s\nwithout\n%.500s", text[1], text[0])
		}
		wall, cpu = append(wall, t[1].wall/t[0].wall), append(cpu, t[1].cpu/t[0].cpu)
	}
	return wall, cpu, s
}

// BenchmarkDraftsTime compares the time of texts with and without guesses of next tokens, in alternating pairs of which
// -benchtime says the number. It also compares the processor's time, which other programs change less.
// RUNNER_DRAFTS_MODEL names another model than the bundled one, and RUNNER_DRAFTS_THREADS a number of threads.
func BenchmarkDraftsTime(b *testing.B) {
	path, threads := os.Getenv("RUNNER_DRAFTS_MODEL"), 0
	if path == "" {
		path, _ = demo.Path(b.Context())
	}
	_, _ = fmt.Sscan(os.Getenv("RUNNER_DRAFTS_THREADS"), &threads)
	for _, x := range timedTexts(b, path, 64, 512, 4000) {
		for _, way := range []string{"alone", "served"} {
			b.Run(fmt.Sprintf("%s/%s/%d/%s", filepath.Base(path), x.kind, x.tokens, way), func(b *testing.B) {
				wall, cpu, s := x.compare(b, path, way, threads, b.N)
				report(b, "times", wall)
				report(b, "times-cpu", cpu)
				b.ReportMetric(float64(s.Drafted), "guesses")
				b.ReportMetric(float64(s.Accepted), "taken")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// TestDraftsTakeNoLonger checks that no text takes over 1.05 times as long with guesses of next tokens as without, in
// the median of 11 pairs. Another program may disturb a comparison, so after one that fails there are 11 pairs more, up
// to 33, and the median of all counts.
func TestDraftsTakeNoLonger(t *testing.T) {
	if !long() {
		t.Skip("it takes a quarter of an hour; RUNNER_LONG=1 runs it")
	}
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range timedTexts(t, path, 64, 512, 4000) {
		for _, way := range []string{"alone", "served"} {
			t.Run(fmt.Sprintf("%s/%d/%s", x.kind, x.tokens, way), func(t *testing.T) {
				got, pairs := 0.0, []float64(nil)
				for range 3 {
					wall, _, s := x.compare(t, path, way, 0, 11)
					pairs = append(pairs, wall...)
					slices.Sort(pairs)
					got = pairs[len(pairs)/2]
					t.Logf("%.3f times, %d guesses, %d tokens came of them", got, s.Drafted, s.Accepted)
					if got <= 1.05 {
						return
					}
				}
				t.Errorf("it takes %.3f times as long with guesses", got)
			})
		}
	}
}
