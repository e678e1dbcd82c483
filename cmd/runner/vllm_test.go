package main

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/backend"
	"runner/cmd/runner/cli"
	"runner/models/demo"
	"runner/runner"
)

// realVLLM returns the address of a real vLLM that computes the bundled model, as scripts/vllm_server.sh starts one.
// It skips the test if there is none.
func realVLLM(tb testing.TB) string {
	tb.Helper()
	url := os.Getenv("RUNNER_VLLM")
	if url == "" {
		tb.Skip("there is no vLLM; start one with scripts/vllm_server.sh and name its address in RUNNER_VLLM")
	}
	return url
}

// openVLLM opens the model of a real vLLM.
func openVLLM(tb testing.TB) backend.Model {
	tb.Helper()
	url := realVLLM(tb)
	path, err := demo.Path(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	m, err := openRemote(context.Background(), cli.Remote{URL: url, Kind: "vllm", Tokenizer: path,
		Key: os.Getenv("RUNNER_VLLM_KEY")}, backend.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Greedy answers are those in process.
func TestVLLMAnswersAsInProcess(t *testing.T) {
	n := 24
	if long() {
		n = 200
	}
	// vLLM computes in 32 bits, and the engine of the program rounds more.
	answersAsInProcess(t, openVLLM(t), n, 0.3)
}

// At a high temperature no answer breaks its schema.
func TestVLLMAnswersMatchTheirSchemas(t *testing.T) { answersMatchTheirSchemas(t, openVLLM(t)) }

// vllmMetric reads one of vLLM's own metrics: the sum of the lines with a name.
func vllmMetric(tb testing.TB, name string) (sum float64) {
	tb.Helper()
	res, err := http.Get(realVLLM(tb) + "/metrics")
	if err != nil {
		tb.Fatal(err)
	}
	defer res.Body.Close()
	found := false
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "vllm:"+name+"{"); ok {
			x, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
			if err != nil {
				tb.Fatal(err)
			}
			sum, found = sum+x, true
		}
	}
	if !found {
		tb.Fatalf("vLLM has no metric %s", name)
	}
	return sum
}

// idle waits until vLLM computes nothing, and returns how long that took.
func idle(tb testing.TB) time.Duration {
	tb.Helper()
	begin := time.Now()
	for vllmMetric(tb, "num_requests_running")+vllmMetric(tb, "num_requests_waiting") > 0 {
		time.Sleep(5 * time.Millisecond)
		if time.Since(begin) > 10*time.Second {
			tb.Fatal("vLLM still computes for a request that nobody reads")
		}
	}
	return time.Since(begin)
}

// A request whose client leaves ends in vLLM at once.
func TestVLLMRequestsAreAborted(t *testing.T) {
	url := realVLLM(t)
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--tokenizer", path, "--engine-key", os.Getenv("RUNNER_VLLM_KEY"), "big=vllm+"+url)
	s.healthy()
	idle(t)
	for range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		// The bias makes an answer that ends at its limit only.
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/chat/completions", strings.NewReader(
			`{"model": "big", "stream": true, "max_tokens": 3000, "reasoning_effort": "none", "logit_bias": {"100": 100},
			"messages": [{"role": "user", "content": "Hello"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bufio.NewScanner(res.Body); !lines.Scan() {
			t.Fatal("there is no stream")
		}
		for begin := time.Now(); vllmMetric(t, "num_requests_running") != 1; time.Sleep(5 * time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				t.Fatal("vLLM does not compute while the client reads")
			}
		}
		cancel()
		res.Body.Close()
		took, before := idle(t), vllmMetric(t, "generation_tokens_total")
		time.Sleep(200 * time.Millisecond)
		if after := vllmMetric(t, "generation_tokens_total"); after != before {
			t.Errorf("%v tokens after the end", after-before)
		}
		t.Logf("vLLM was idle %v after the client left", took)
	}
}

// vLLM computes a prompt again for another owner, and once only for the same one.
func TestVLLMKeepsPrefixesApart(t *testing.T) {
	m := openVLLM(t)
	defer m.Close()
	prompt := rendered(t, m, strings.Repeat("What is 17 + 25? ", 40)) // several of vLLM's blocks
	hits := func(owner string) float64 {
		before := vllmMetric(t, "prefix_cache_hits_total")
		q, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		out := make([]backend.Output, 1)
		in := []backend.Input{{Sequence: q, Tokens: prompt, Owner: owner, Sampling: &backend.Sampling{TopLogprobs: -1}}}
		if err := backend.StepAll(t.Context(), m, in, out); err != nil {
			t.Fatal(err)
		}
		return vllmMetric(t, "prefix_cache_hits_total") - before
	}
	for i, c := range []struct {
		owner string
		again bool
	}{{"a", false}, {"a", true}, {"b", false}, {"b", true}, {"a", true}} {
		if n := hits(c.owner); c.again && n < float64(len(prompt))/2 || !c.again && n > 0 {
			t.Errorf("request %d, of %s: vLLM had %v of %d tokens", i, c.owner, n, len(prompt))
		}
	}
}

// Eight clients at a time get the answers that each gets alone, and vLLM computes them together.
func TestVLLMClientsTogether(t *testing.T) {
	r, err := runner.New(openVLLM(t), runner.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	texts := plainSums(16)
	want := make([]string, len(texts))
	for i, text := range texts {
		if want[i], err = answerOf(t.Context(), r, text); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	places, other, most := make(chan struct{}, 8), 0, 0.0
	for i, text := range texts {
		wg.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			got, err := answerOf(t.Context(), r, text)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			} else if got != want[i] {
				other++
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-time.After(20 * time.Millisecond):
			most = max(most, vllmMetric(t, "num_requests_running"))
		}
	}
	t.Logf("%d of %d answers differ from those alone; vLLM ran up to %v requests at a time", other, len(texts), most)
	if other > 1 || most < 4 {
		t.Error("too many answers differ, or the requests did not run together")
	}
}

// A chat has the same answer in every format, with a schema, a tool and probabilities.
func TestVLLMFormats(t *testing.T) {
	url := realVLLM(t)
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--tokenizer", path, "--engine-key", os.Getenv("RUNNER_VLLM_KEY"), "big=vllm+"+url)
	s.healthy()
	const ask = `"messages": [{"role": "user", "content": "What is 17 + 25?"}]`
	for _, c := range []struct{ path, body, want string }{
		{"/v1/chat/completions", `{"model": "big", "temperature": 0, ` + ask + `}`, "17 + 25 = 42."},
		{"/v1/chat/completions", `{"model": "big", "temperature": 0, "stream": true, ` + ask + `}`,
			`"delta":{"content":"4"}`},
		{"/v1/chat/completions", `{"model": "big", "temperature": 0, "stop": ["= 4"], ` + ask + `}`, `"17 + 25 "`},
		{"/v1/chat/completions", `{"model": "big", "temperature": 0, "presence_penalty": 0.1, ` + ask + `}`, `"stop"`},
		{"/v1/chat/completions", `{"model": "big", "seed": 1, "n": 3, "logprobs": true, "top_logprobs": 2, ` + ask + `}`,
			`"index":2`},
		{"/v1/chat/completions", `{"model": "big", "temperature": 0, ` + ask + `, "response_format": {"type": "json_schema",
			"json_schema": {"name": "sum", "schema": {"type": "object", "properties": {"sum": {"type": "integer"}},
			"required": ["sum"], "additionalProperties": false}}}}`, `{\"sum\": 42}`},
		{"/v1/responses", `{"model": "big", "temperature": 0, "input": "What is 17 + 25?", "reasoning": {"summary": "auto"}}`,
			`"summary_text"`},
		{"/v1/messages", `{"model": "big", "temperature": 0, "max_tokens": 300, ` + ask + `}`, "17 + 25 = 42."},
		{"/api/chat", `{"model": "big", "stream": false, "think": true, "options": {"temperature": 0}, ` + ask + `}`,
			`"thinking":"The task`},
	} {
		status, text := send(t, http.MethodPost, s.url+c.path, "", c.body)
		if status != http.StatusOK || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: status %d, want %s: %s", c.path, c.body, status, c.want, text)
		}
	}
	status, text := send(t, http.MethodPost, s.url+"/v1/chat/completions", "", `{"model": "big", "temperature": 0,
		"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "tools": [{"type": "function",
		"function": {"name": "get_weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
		"required": ["city"]}}}]}`)
	if status != http.StatusOK || !strings.Contains(text, `"tool_calls"`) {
		t.Errorf("a tool: status %d: %s", status, text)
	}
	if n := s.metric(`runner_remote_forms_refused_total{model="big"}`); n > 0 {
		t.Errorf("vLLM refused %v forms", n)
	}
}
