package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/backend/llamacpp"
	"runner/backend/tokenizer/o200ktest"
	"runner/chattemplate"
	"runner/generation"
	"runner/models/random"
	"runner/models/random/randomtest"
	"runner/reasoning"
	"runner/runner"
	"runner/server"
	"runner/server/openai"
	"runner/server/pool"
	"runner/server/wire"
	"runner/testenv"
)

// BenchmarkServeToken measures the cost of a streamed token without the model: the CPU time of the whole process,
// including the client, for answers over loopback, minus the cost of the same answers without a server. The model is
// scripted and takes almost no time.
func BenchmarkServeToken(b *testing.B) {
	const tokens = 4000
	question := "tell me a long story"
	vocab := fake.Harmony()
	model := fake.Config{Vocab: vocab, Sequences: 8,
		Script: fake.Replies(vocab, fake.Reply{After: question + "<|end|><|start|>assistant",
			Say: "<|channel|>final<|message|>" + strings.Repeat("a b ", tokens/4) + "<|return|>"})}
	open := func(context.Context, string) (wire.Loaded, error) {
		return runner.New(fake.New(model), runner.Config{})
	}
	url, r := serveModel(b, open)
	body := fmt.Sprintf(`{"stream":true,"temperature":0,"messages":[{"role":"user","content":%q}]}`, question)
	served := func() {
		if n := frames(b, url, body); n < tokens {
			b.Fatalf("%d frames", n)
		}
	}
	direct := func() {
		asked := []chattemplate.Message{{Role: chattemplate.User, Content: question}}
		if n := deltas(b, r, generation.Request{Messages: asked}); n < tokens {
			b.Fatalf("%d deltas", n)
		}
	}
	served()
	direct()
	var of, without, more []float64
	for b.Loop() {
		s, d := cpuOf(served)/tokens, cpuOf(direct)/tokens
		of, without, more = append(of, s), append(without, d), append(more, s-d)
	}
	report(b, "us-served/token", of)
	report(b, "us-direct/token", without)
	report(b, "us-more/token", more)
}

// BenchmarkServeEndToEnd decodes with and without a server, alternating. The model has random weights and a step of at
// least 20 ms. It also measures the time from a request to its first token when the prompt is cached.
func BenchmarkServeEndToEnd(b *testing.B) {
	const tokens = 40
	path := filepath.Join(b.TempDir(), "random.gguf")
	if err := randomtest.WriteFile(path, random.Config{Layers: 14, Width: 1024, Heads: 16, HeadSize: 64, Experts: 4,
		FeedForward: 1024,
		Vocabulary:  o200ktest.Size, Seed: 1}); err != nil {
		b.Fatal(err)
	}
	url, r := serveModel(b, func(ctx context.Context, _ string) (wire.Loaded, error) {
		m, err := llamacpp.Open(ctx, path, backend.Config{Threads: 1, Sequences: 2, ContextSize: 1024})
		if err != nil {
			return nil, err
		}
		return runner.New(m, runner.Config{})
	})
	seed := uint64(1)
	req := generation.Request{PromptTokens: []generation.Token{1, 2, 3}, MaxTokens: tokens, Seed: &seed}
	req.Sampling.Temperature = 1
	body := fmt.Sprintf(
		`{"stream":true,"temperature":1,"top_k":0,"top_p":1,"min_p":0,"seed":1,"prompt":[1,2,3],"max_tokens":%d}`, tokens)
	url = strings.Replace(url, "/chat/completions", "/completions", 1)
	direct := func() { deltas(b, r, req) }
	served := func() { frames(b, url, body) }
	direct()
	served()
	var ratios, with, without, first []float64
	for b.Loop() {
		w, d := wallOf(served)/tokens, wallOf(direct)/tokens
		with, without, ratios = append(with, w), append(without, d), append(ratios, w/d)
		one := strings.Replace(body, fmt.Sprintf(`"max_tokens":%d`, tokens), `"max_tokens":1`, 1)
		first = append(first, wallOf(func() { frames(b, url, one) })-d)
	}
	report(b, "ms-served/token", with)
	report(b, "ms-direct/token", without)
	report(b, "ratio", ratios)
	report(b, "ms-to-first-token-less-a-step", first)
}

// serveModel serves a model over loopback until the benchmark ends. It returns the address of chat completions and the
// runner of the model.
func serveModel(b *testing.B, open func(context.Context, string) (wire.Loaded, error)) (url string,
	r wire.Loaded) {
	b.Helper()
	p := pool.New(pool.Config{Models: []pool.Entry{{Name: "model"}}, Open: open})
	s := server.New(server.Config{Pool: p, Cards: []wire.Card{{Name: "model"}}})
	s.Mount(openai.New(s, openai.Config{}))
	url = testenv.Listen(b, s) + "/v1/chat/completions"
	r, release, err := p.Use(b.Context(), "model")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(release)
	return url, r
}

// frames requests an answer and counts its frames.
func frames(b *testing.B, url, body string) int {
	b.Helper()
	res, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		b.Fatalf("%d, %v: %.200s", res.StatusCode, err, text)
	}
	return bytes.Count(text, []byte("data: "))
}

// deltas runs a request without a server and counts its deltas.
func deltas(b *testing.B, r wire.Loaded, req generation.Request) (n int) {
	b.Helper()
	for e, err := range r.Generate(context.Background(), req, generation.Unobserved{}) {
		if err != nil {
			b.Fatal(err)
		}
		if e.Kind == reasoning.SegmentDelta {
			n++
		}
	}
	return n
}

// wallOf returns the duration of f in milliseconds.
func wallOf(f func()) float64 {
	began := time.Now()
	f()
	return float64(time.Since(began)) / float64(time.Millisecond)
}

// cpuOf returns the CPU time that the process spends in f, in microseconds.
func cpuOf(f func()) float64 {
	before := cpu()
	f()
	return float64(cpu()-before) / float64(time.Microsecond)
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report reports the median of values for a benchmark.
func report(b *testing.B, name string, values []float64) {
	slices.Sort(values)
	b.ReportMetric(values[len(values)/2], name)
}
