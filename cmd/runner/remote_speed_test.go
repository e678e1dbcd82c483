package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/backend"
	"runner/testenv"
)

// spoken is what a client saw of a stream.
type spoken struct {
	tokens int
	first  time.Duration
}

// hearStream sends a request and reads the stream of its answer. read returns how many tokens an event says that there
// were in all, or 0, and whether it has text.
func hearStream(url string, body any, read func(data []byte) (tokens int, text bool)) (s spoken, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return s, err
	}
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return s, err
	}
	req.Header["Idempotency-Key"] = nil // it may be sent again if the server has just closed an idle connection
	begin := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return s, fmt.Errorf("status %d: %s", res.StatusCode, text)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		n, text := read(data)
		s.tokens = max(s.tokens, n)
		if text && s.first == 0 {
			s.first = time.Since(begin)
		}
	}
	return s, lines.Err()
}

// complete asks llama-server itself.
func complete(url string, prompt []backend.Token, schema json.RawMessage) (spoken, error) {
	body := map[string]any{"prompt": prompt, "n_predict": 300, "temperature": 0, "stream": true, "return_tokens": true,
		"cache_prompt": true}
	if schema != nil {
		body["json_schema"] = schema
	}
	return hearStream(url+"/completion", body, func(data []byte) (int, bool) {
		var e struct {
			Predicted int             `json:"tokens_predicted"`
			Tokens    []backend.Token `json:"tokens"`
		}
		_ = json.Unmarshal(data, &e) // an event that is no JSON has no tokens, which the test notices
		return e.Predicted, len(e.Tokens) > 0
	})
}

// chat asks the runner.
func chatStream(url, text string, schema json.RawMessage) (spoken, error) {
	body := map[string]any{"model": "big", "temperature": 0, "stream": true, "max_tokens": 300,
		"stream_options": map[string]any{"include_usage": true},
		"messages":       []map[string]string{{"role": "user", "content": text}}}
	if schema != nil {
		body["response_format"] = map[string]any{"type": "json_schema",
			"json_schema": map[string]any{"name": "sum", "schema": schema}}
	}
	return hearStream(url+"/v1/chat/completions", body, func(data []byte) (int, bool) {
		var e struct {
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					Reasoning string `json:"reasoning_content"`
				} `json:"delta"`
			} `json:"choices"`
			Usage struct {
				Completion int `json:"completion_tokens"`
			} `json:"usage"`
		}
		_ = json.Unmarshal(data, &e) // the last event is [DONE]
		text := len(e.Choices) > 0 && e.Choices[0].Delta.Content+e.Choices[0].Delta.Reasoning != ""
		return e.Usage.Completion, text
	})
}

// clientsAsk runs n requests from so many clients. It returns the tokens in a second.
func clientsAsk(t *testing.T, clients, n int, ask func(i int) (spoken, error)) (rate float64, tokens int) {
	t.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	begin := time.Now()
	for range clients {
		wg.Go(func() {
			for i := range next {
				s, err := ask(i)
				mu.Lock()
				if tokens += s.tokens; err != nil || s.tokens == 0 {
					t.Errorf("request %d: %d tokens, %v", i, s.tokens, err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return float64(tokens) / time.Since(begin).Seconds(), tokens
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// processorTime returns how long a process has computed.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the processor time of a process is read on Linux only")
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	var user, system int64
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// arm is a run of all requests: tokens in a second, how many there were, and the processor time of each process for a
// token, in microseconds.
type arm struct {
	rate                    float64
	tokens                  int
	server, engine, clients float64
}

// mostCost is how much processor time of the server a token may take, in microseconds, and leastFormed how many tokens
// with a schema may come for one without. docs/scale.md says what the goals were, and why these are not the same.
const (
	mostCost    = 60
	leastFormed = 0.65
)

// TestRemoteSpeed compares chats through the runner with requests to llama-server itself, with the same token ids.
func TestRemoteSpeed(t *testing.T) {
	testenv.NeedLong(t, "it measures for minutes")
	const clients, requests, pairs = 8, 64, 7
	engine := llamaServer(t, clients)
	m := openRemoteModel(t, engine.URL)
	defer m.Close()
	texts := plainSums(requests)
	prompts := make([][]backend.Token, requests)
	for i, text := range texts {
		prompts[i] = renderedAt(t, m, text, time.Now())
	}
	s := serve(t, "--parallel", fmt.Sprint(clients), "--reasoning", "full", "big="+engine.URL)
	s.healthy()
	schema := json.RawMessage(`{"type":"object","properties":{"sum":{"type":"integer"},"words":{"type":"string",
		"maxLength":120}},"required":["sum","words"],"additionalProperties":false}`)
	direct := func(i int) (spoken, error) { return complete(engine.URL, prompts[i], nil) }
	directFormed := func(i int) (spoken, error) { return complete(engine.URL, prompts[i], schema) }
	plain := func(i int) (spoken, error) { return chatStream(s.url, texts[i], nil) }
	formed := func(i int) (spoken, error) { return chatStream(s.url, texts[i], schema) }
	clientsAsk(t, clients, requests, direct)
	clientsAsk(t, clients, requests, plain)
	measure := func(ask func(int) (spoken, error)) (a arm) {
		pids := [3]int{s.cmd.Process.Pid, engine.PID, os.Getpid()}
		var before, cost [3]time.Duration
		for i, pid := range pids {
			before[i] = processorTime(t, pid)
		}
		a.rate, a.tokens = clientsAsk(t, clients, requests, ask)
		for i, pid := range pids {
			cost[i] = (processorTime(t, pid) - before[i]) / time.Duration(a.tokens)
		}
		us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
		a.server, a.engine, a.clients = us(cost[0]), us(cost[1]), us(cost[2])
		return a
	}
	var ratios, formedRatios, fairRatios, firsts, costs []float64
	for pair := range pairs {
		there, here, held, fair := measure(direct), measure(plain), measure(formed), measure(directFormed)
		t.Logf("pair %d: llama-server %.0f tokens/s (%d), the runner %.0f (%d), with a schema %.0f (%d)", pair, there.rate,
			there.tokens, here.rate, here.tokens, held.rate, held.tokens)
		t.Logf("processor time a token: engine %.0f, %.0f and %.0f us, clients %.0f, %.0f and %.0f us, the runner %.0f and "+
			"%.0f us", there.engine, here.engine, held.engine, there.clients, here.clients, held.clients, here.server,
			held.server)
		ratios, formedRatios = append(ratios, here.rate/there.rate), append(formedRatios, held.rate/there.rate)
		t.Logf("llama-server with the schema: %.0f tokens/s (%d), engine %.0f us", fair.rate, fair.tokens, fair.engine)
		fairRatios = append(fairRatios, held.rate/fair.rate)
		costs = append(costs, here.server)
		for i := range 8 {
			a, err := direct(i)
			if err != nil {
				t.Fatal(err)
			}
			b, err := plain(i)
			if err != nil {
				t.Fatal(err)
			}
			firsts = append(firsts, float64(b.first-a.first)/float64(time.Millisecond))
		}
	}
	t.Logf("medians: plain %.3f, with a schema %.3f, and %.3f against llama-server with the schema, first token %.2f ms "+
		"later, %.1f us a token", middle(ratios), middle(formedRatios), middle(fairRatios), middle(firsts), middle(costs))
	for _, c := range []struct {
		name string
		ok   bool
	}{{"plain chats", middle(ratios) >= 0.95}, {"chats with a schema", middle(formedRatios) >= leastFormed},
		{"the first token", middle(firsts) <= 10}, {"processor time", middle(costs) < mostCost}} {
		if !c.ok {
			t.Errorf("%s miss their goal", c.name)
		}
	}
}
