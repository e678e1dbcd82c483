package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"runner/models/random"
	"runner/models/random/randomtest"
)

// TestServeManyAtOnce: 64 clients ask at once and some leave early. Everybody gets the answer to their own question,
// and nothing leaks.
func TestServeManyAtOnce(t *testing.T) {
	soak := 10 * time.Second
	switch {
	case os.Getenv("RUNNER_LONG") != "":
		soak = 2 * time.Minute
	case testing.Short():
		soak = 2 * time.Second
	}
	s := serve(t, "--parallel", "8", "--queue", "100")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	questions := map[string]string{} // the answer of the model to each, asked alone
	rng := rand.New(rand.NewPCG(7, 11))
	for len(questions) < 24 {
		a, b := 100+rng.IntN(400), 100+rng.IntN(400)
		q := fmt.Sprintf("What is %d + %d?", a, b)
		got := s.ask(t.Context(), client, q, 0)
		if got.err != nil {
			t.Fatal(got.err)
		}
		if got.text == fmt.Sprintf("%d + %d = %d.", a, b, a+b) {
			questions[q] = got.text
		}
	}
	var list []string
	for q := range questions {
		list = append(list, q)
	}
	rest := func() (goroutines, memory float64) {
		client.CloseIdleConnections()
		s.settled("runner_requests_in_flight", 1) // this request
		s.settled(`runner_runs_active{model="demo"}`, 0)
		s.settled(`runner_runs_waiting{model="demo"}`, 0)
		return s.metric("go_goroutines"), s.metric("process_resident_memory_bytes")
	}
	reportOwner := func(q, text string) {
		for _, another := range list {
			if another != q && strings.Contains(text, strings.TrimSuffix(strings.TrimPrefix(another, "What is "), "?")) {
				t.Errorf("%s was answered with %q, which belongs to %s", q, text, another)
			}
		}
	}
	load := func(d time.Duration) (whole, left, other int64) {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		var nWhole, nLeft, nOther atomic.Int64
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(3, uint64(i)))
				for ctx.Err() == nil {
					q, leave := list[rng.IntN(len(list))], 0
					if rng.IntN(4) == 0 {
						leave = 1 + rng.IntN(12)
					}
					got := s.ask(context.WithoutCancel(ctx), client, q, leave)
					switch {
					case got.err != nil:
						t.Errorf("%s: %v", q, got.err)
					case got.finish == "" && !strings.HasPrefix(questions[q], got.text):
						nOther.Add(1)
						reportOwner(q, got.text)
					case got.finish == "":
						nLeft.Add(1)
					case got.text == questions[q]:
						nWhole.Add(1)
					default:
						nOther.Add(1)
						reportOwner(q, got.text)
					}
				}
			})
		}
		wg.Wait()
		return nWhole.Load(), nLeft.Load(), nOther.Load()
	}
	load(soak / 5) // the first requests allocate what the server keeps
	goroutines, memory := rest()
	whole, left, other := load(soak)
	after, grown := rest()
	t.Logf("%d answers, %d of them different from alone, %d clients left early; %.0f goroutines, then %.0f; %.1f MiB, "+
		"then %.1f", whole+other, other, left,
		goroutines, after, memory/(1<<20), grown/(1<<20))
	if whole == 0 || left == 0 {
		t.Errorf("%d answers, %d left early", whole, left)
	}
	// The order of sums in the engine's own kernels depends on what shares a step, so occasionally another digit is
	// chosen.
	if other > 0 && repeats(t) || other*50 > whole {
		t.Errorf("%d of %d answers differ from those asked alone", other, whole+other)
	}
	if after > goroutines+5 {
		t.Errorf("%.0f goroutines, and %.0f before", after, goroutines)
	}
	if grown > memory+64<<20 {
		t.Errorf("%.1f MiB more memory", (grown-memory)/(1<<20))
	}
}

// TestServeLimitsStoredResponses stores one, so the second one replaces the first.
func TestServeLimitsStoredResponses(t *testing.T) {
	s := serve(t, "--responses", "1")
	var ids []string
	for range 2 {
		status, text := send(t, http.MethodPost, s.url+"/v1/responses", "", `{"input":"What is 17 + 25?"}`)
		var made struct{ ID string }
		if err := json.Unmarshal([]byte(text), &made); err != nil || made.ID == "" {
			t.Fatalf("%d, %v", status, err)
		}
		ids = append(ids, made.ID)
	}
	for i, want := range []int{http.StatusNotFound, http.StatusOK} {
		if status, _ := send(t, http.MethodGet, s.url+"/v1/responses/"+ids[i], "", ""); status != want {
			t.Errorf("response %d: %d, want %d", i, status, want)
		}
	}
}

// TestServeKeepsThePrefixOfAConversation: a second turn prefills only what differs from the first turn.
func TestServeKeepsThePrefixOfAConversation(t *testing.T) {
	s := serve(t, "--ctx-size", "8192")
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	turn := func(messages []message) (text string, prompt, cached int) {
		t.Helper()
		body, err := json.Marshal(map[string]any{"temperature": 0, "max_tokens": 200, "messages": messages})
		if err != nil {
			t.Fatal(err)
		}
		status, answer := send(t, http.MethodPost, s.url+"/v1/chat/completions", "", string(body))
		var reply struct {
			Choices []struct{ Message message }
			Usage   struct {
				Prompt  int `json:"prompt_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal([]byte(answer), &reply); err != nil || len(reply.Choices) != 1 {
			t.Fatalf("%d, %v", status, err)
		}
		return reply.Choices[0].Message.Content, reply.Usage.Prompt, reply.Usage.Details.Cached
	}
	var long strings.Builder
	for i := 0; long.Len() < 7_200; i++ {
		fmt.Fprintf(&long, "Entry %d of the list is %d. ", i, i*i%997)
	}
	messages := []message{{"user", long.String() + "What is 17 + 25?"}}
	text, first, _ := turn(messages)
	messages = append(messages, message{"assistant", text}, message{"user", "What is 532 - 187?"})
	_, second, cached := turn(messages)
	t.Logf("the first prompt has %d tokens, the second %d, of which %d were cached", first, second, cached)
	if first < 4000 {
		t.Fatalf("the conversation has only %d tokens", first)
	}
	if cached*100 < first*95 {
		t.Errorf("%d of %d tokens were reused", cached, first)
	}
}

// TestServeWithKeysOverTLS: the server accepts the keys that the commands make.
func TestServeWithKeysOverTLS(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "keys.json")
	full, none := newKey(t, file, "full", "--reasoning", "full"), newKey(t, file, "none", "--permission", "generate")
	cert, key, roots := certificate(t, dir)
	s := serve(t, "--host", "0.0.0.0", "--api-keys", file, "--tls-cert", cert, "--tls-key", key)
	s.url = regexp.MustCompile(`//[^/]*:`).ReplaceAllString(s.url, "//127.0.0.1:")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	post := func(path, key, body string) (status, major int, text string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		content, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.ProtoMajor, string(content)
	}
	question := `{"messages":[{"role":"user","content":"What is 17 + 25?"}],"temperature":0,"reasoning":%q}`
	for _, c := range []struct {
		path, key, body string
		status          int
		contains        string
	}{
		{"/v1/chat/completions", full, fmt.Sprintf(question, "full"), http.StatusOK, "17 + 25 = 42."},
		{"/v1/chat/completions", none, fmt.Sprintf(question, "none"), http.StatusOK, "17 + 25 = 42."},
		{"/v1/chat/completions", none, fmt.Sprintf(question, "summary"), http.StatusForbidden, "reasoning:summary"},
		{"/v1/completions", none, `{"prompt":"What"}`, http.StatusForbidden, "reasoning:full"},
		{"/v1/embeddings", none, `{"input":"x"}`, http.StatusForbidden, "embed"},
		{"/v1/chat/completions", "rk-wrong", fmt.Sprintf(question, "none"), http.StatusUnauthorized, "invalid_api_key"},
		{"/tokenize", full, `{"content":"What is 17 + 25?"}`, http.StatusOK, "tokens"},
	} {
		status, major, text := post(c.path, c.key, c.body)
		if status != c.status || !strings.Contains(text, c.contains) {
			t.Errorf("%s: %d %s", c.path, status, text)
		}
		if major != 2 {
			t.Errorf("%s: HTTP/%d", c.path, major)
		}
	}
	for path, shape := range map[string]string{"/v1/chat/completions": `{"error":{"message":"this port takes HTTPS only; `,
		"/v1/messages": `{"type":"error","error":{"type":"invalid_request_error","message":"this port takes HTTPS only; `,
		"/api/chat":    `{"error":"this port takes HTTPS only; `} {
		status, text := send(t, http.MethodPost, strings.Replace(s.url, "https:", "http:", 1)+path, none, "{}")
		if status != http.StatusBadRequest || !strings.HasPrefix(text, shape) {
			t.Errorf("%s without TLS: %d %s", path, status, text)
		}
	}
	if log := s.logged(); strings.Contains(log, full) || strings.Contains(log, none) || strings.Contains(log, "17 + 25") ||
		!strings.Contains(log, "key=none") ||
		!regexp.MustCompile(`status=401 .*key=""`).MatchString(log) {
		t.Errorf("the log:\n%s", log)
	}
}

// TestServeSeveralModels: a model is loaded when it is requested, and makes room for another one. The limit allows the
// larger one alone, and less is refused.
func TestServeSeveralModels(t *testing.T) {
	path := filepath.Join(t.TempDir(), "random.gguf")
	if err := randomtest.WriteFile(path, random.Config{Layers: 2, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	largest := int64(0)
	for _, file := range []string{path, filepath.Join("..", "..", "models", "demo", "demo.gguf")} {
		stat, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, stat.Size())
	}
	out, err := exec.Command("runner", "serve", "demo", "other="+path, "--port", "0", "--memory", "1KB").CombinedOutput()
	if want := fmt.Sprintf("use --memory %d or more", largest); err == nil || !strings.Contains(string(out), want) {
		t.Errorf("1KB: %s, %v; want %q", out, err, want)
	}
	s := serve(t, "demo", "other="+path, "--memory", strconv.FormatInt(largest, 10), "--keep-alive", "-1s")
	if _, tags := send(t, http.MethodGet, s.url+"/api/tags", "", ""); strings.Count(tags, `"family":"gpt-oss"`) != 2 ||
		!strings.Contains(tags, `"quantization_level":"MXFP4_MOE"`) || strings.Contains(tags, `"0001-`) {
		t.Errorf("before they are loaded: %s", tags)
	}
	loaded := func() (names []string) {
		t.Helper()
		_, text := send(t, http.MethodGet, s.url+"/metrics", "", "")
		for _, m := range regexp.MustCompile(`runner_model_loaded\{model="(\w+)"\} 1`).FindAllStringSubmatch(text, -1) {
			names = append(names, m[1])
		}
		return names
	}
	for _, model := range []string{"demo", "other", "demo"} {
		body := fmt.Sprintf(`{"model":%q,"max_tokens":4,"messages":[{"role":"user","content":"What is 17 + 25?"}]}`, model)
		status, text := send(t, http.MethodPost, s.url+"/v1/chat/completions", "", body)
		if status != http.StatusOK || !strings.Contains(text, fmt.Sprintf(`"model":%q`, model)) {
			t.Fatalf("%s: %d %s", model, status, text)
		}
		if names := loaded(); len(names) != 1 || names[0] != model {
			t.Errorf("after %s there are %v in memory", model, names)
		}
	}
}
