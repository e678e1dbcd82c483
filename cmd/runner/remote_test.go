package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/llamacpp"
	"runner/backend/remote"
	"runner/backend/remote/llamaserver/llamaservertest"
	"runner/chattemplate"
	"runner/chattemplate/families"
	"runner/cmd/runner/cli"
	"runner/generation"
	"runner/models/demo"
	"runner/reasoning"
	"runner/runner"
)

// llamaServer starts a real llama-server with the bundled model.
func llamaServer(tb testing.TB, parallel int) *llamaservertest.Server {
	tb.Helper()
	llamaservertest.Python(tb)
	path, err := demo.Path(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return llamaservertest.Start(tb, llamaservertest.Options{Model: path, Parallel: parallel})
}

// openRemote opens the model at an address for the first time.
func openRemote(ctx context.Context, a cli.Remote, cfg backend.Config) (backend.Model, error) {
	m, _, err := new(addresses).open(ctx, a, cfg, nil)
	return m, err
}

func openRemoteModel(tb testing.TB, url string) backend.Model {
	tb.Helper()
	m, err := openRemote(context.Background(), cli.Remote{URL: url}, backend.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// long reports whether the long tests run.
func long() bool { return os.Getenv("RUNNER_LONG") != "" }

// plainSums returns questions for the bundled model.
func plainSums(n int) (list []string) {
	for i := range n {
		a, b := 11+7*i%880, 5+13*i%790
		op := "+"
		if i%2 == 1 {
			op, a = "-", a+b
		}
		list = append(list, fmt.Sprintf("What is %d %s %d?", a, op, b))
	}
	return list
}

// rendered returns the prompt of a question to a model.
func rendered(tb testing.TB, m backend.Model, text string) []backend.Token {
	tb.Helper()
	return renderedAt(tb, m, text, time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
}

// renderedAt is rendered at a time, which models are told.
func renderedAt(tb testing.TB, m backend.Model, text string, now time.Time) []backend.Token {
	tb.Helper()
	f, err := families.Open(chattemplate.Config{Vocab: m.Vocab(), Tokenize: m.Tokenize, Source: m.Info().ChatTemplate,
		MaxText: 1 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	p, err := f.Render(chattemplate.Conversation{Now: now,
		Messages: []chattemplate.Message{{Role: chattemplate.User, Content: text}}})
	if err != nil {
		tb.Fatal(err)
	}
	return p.Tokens
}

// greedy writes the most likely tokens after a prompt, up to the end of the turn. gaps are how much more likely each
// was than the second best, in nats.
func greedy(tb testing.TB, m backend.Model, prompt []backend.Token) (tokens []backend.Token, gaps []float32) {
	tb.Helper()
	q, err := m.NewSequence()
	if err != nil {
		tb.Fatal(err)
	}
	defer q.Close()
	out := make([]backend.Output, 1)
	for feed := prompt; len(tokens) < 300; feed = tokens[len(tokens)-1:] {
		in := []backend.Input{{Sequence: q, Tokens: feed, Sampling: &backend.Sampling{TopLogprobs: 2}}}
		if err := backend.StepAll(tb.Context(), m, in, out); err != nil {
			tb.Fatal(err)
		}
		tokens, gaps = append(tokens, out[0].Token), append(gaps, out[0].Top[0].Logprob-out[0].Top[1].Logprob)
		if m.Vocab().EndsGeneration(out[0].Token) {
			break
		}
	}
	return tokens, gaps
}

// The bundled model is on no path, and its name names it wherever a model is named.
func TestTokenizerOfTheBundledModel(t *testing.T) {
	w, err := writingOf(t.Context(), cli.Remote{Tokenizer: demo.Name}, &remote.Description{Model: "another"})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := w.tokenize(nil, "What is 17 + 25?")
	if err != nil || len(tokens) < 4 || w.architecture != "gpt-oss" || w.template == "" {
		t.Errorf("tokens %v of a model of %q with a template of %d bytes: %v", tokens, w.architecture, len(w.template), err)
	}
}

// Greedy answers of the bundled model are those in process. Where they differ, two tokens were almost equally likely.
func TestRemoteAnswersAsInProcess(t *testing.T) {
	n := 24
	if long() {
		n = 200
	}
	answersAsInProcess(t, openRemoteModel(t, llamaServer(t, 4).URL), n, 0.05)
}

// answersAsInProcess compares n greedy answers and closes the model. Where they differ, the best two tokens are at most
// near nats apart.
func answersAsInProcess(t *testing.T, there backend.Model, n int, near float32) {
	t.Helper()
	defer there.Close()
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	here, err := llamacpp.Open(t.Context(), path, backend.Config{ContextSize: 2048, Sequences: 1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer here.Close()
	different := 0
	for _, text := range plainSums(n) {
		prompt := rendered(t, here, text)
		want, gaps := greedy(t, here, prompt)
		got, _ := greedy(t, there, prompt)
		if len(want) < 10 {
			t.Errorf("the answer to %q has %d tokens", text, len(want))
		}
		for i := range want {
			if i < len(got) && got[i] == want[i] {
				continue
			}
			different++
			if gaps[i] > near {
				t.Errorf("%q: token %d differs, although the best two are %.3f nats apart", text, i, gaps[i])
			}
			break
		}
	}
	t.Logf("%d of %d answers differ", different, n)
	if different > n/50 {
		t.Errorf("%d of %d answers differ", different, n)
	}
}

// At a high temperature no answer of the engine breaks its schema.
func TestRemoteAnswersMatchTheirSchemas(t *testing.T) {
	answersMatchTheirSchemas(t, openRemoteModel(t, llamaServer(t, 8).URL))
}

// answersMatchTheirSchemas runs many schemas at a high temperature and closes the model.
func answersMatchTheirSchemas(t *testing.T, m backend.Model) {
	t.Helper()
	all, seeds := readSchemas(t), uint64(1)
	if long() {
		seeds = 10
	}
	r, err := runner.New(m, runner.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var wg sync.WaitGroup
	var mu sync.Mutex
	places := make(chan struct{}, 8)
	complete, cut := 0, 0
	for _, schema := range all {
		for seed := range seeds {
			wg.Go(func() {
				places <- struct{}{}
				defer func() { <-places }()
				whole, err := hotRun(t.Context(), r, schema, seed)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					t.Errorf("%s, seed %d: %v", schema, seed, err)
				case whole:
					complete++
				default:
					cut++
				}
			})
		}
	}
	wg.Wait()
	s := r.Stats().Remote
	t.Logf("%d complete answers and %d that were cut at their maximum length; %d streams, %d forms refused, %d tokens "+
		"replaced", complete, cut, s.Streams, s.FormsRefused, s.Replaced)
	if n := r.Stats().Violations; n != 0 || complete < cut {
		t.Errorf("%d violations; %d complete and %d cut", n, complete, cut)
	}
	if n := s.FormsRefused; int(n) > len(all)/2 {
		t.Errorf("the engine refuses %d of %d forms", n, len(all))
	}
}

// formless is an engine that follows no forms.
type formless struct{ remote.Engine }

func (e formless) Describe(ctx context.Context) (remote.Description, error) {
	d, err := e.Engine.Describe(ctx)
	d.Forms = nil
	return d, err
}

// The arguments of strict functions match their schemas at a high temperature. The engine gets the schema where the
// arguments begin, which saves generations that would otherwise be opened again.
func TestRemoteArgumentsMatchTheirSchemas(t *testing.T) {
	s := llamaServer(t, 8)
	var schemas []string
	for _, schema := range readSchemas(t) {
		var object struct {
			Type string `json:"type"`
		}
		if json.Unmarshal([]byte(schema), &object) == nil && object.Type == "object" {
			schemas = append(schemas, schema)
		}
	}
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var streams [2]float64
	for i, follows := range []bool{true, false} {
		f, err := find(t.Context(), cli.Remote{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		w, err := ggufWriting(path)
		if err != nil {
			t.Fatal(err)
		}
		var engine remote.Engine = f.kind.New(f.client, w.vocab)
		if !follows {
			engine = formless{engine}
		}
		m, err := remote.Open(t.Context(), remote.Config{Engine: engine, Vocab: w.vocab, Tokenize: w.tokenize,
			Architecture: w.architecture, ChatTemplate: w.template})
		if err != nil {
			t.Fatal(err)
		}
		r, err := runner.New(m, runner.Config{})
		if err != nil {
			t.Fatal(err)
		}
		began, complete := time.Now(), 0
		for _, schema := range schemas {
			for seed := range uint64(3) {
				whole, err := hotCall(t.Context(), r, schema, seed)
				if err != nil {
					t.Errorf("%s, seed %d: %v", schema, seed, err)
				}
				if whole {
					complete++
				}
			}
		}
		calls, stats := 3*len(schemas), r.Stats()
		streams[i] = float64(stats.Remote.Streams) / float64(calls)
		t.Logf("the engine follows forms %v: %d of %d calls complete, %.2f streams and %.2f replaced tokens a call, %.1f ms",
			follows, complete, calls, streams[i], float64(stats.Remote.Replaced)/float64(calls),
			float64(time.Since(began).Milliseconds())/float64(calls))
		if complete < calls/2 || r.Stats().Violations != 0 {
			t.Errorf("the engine follows forms %v: %d of %d calls are complete, %d violations", follows, complete, calls,
				r.Stats().Violations)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if streams[0] > 0.9*streams[1] { // the header of a call takes most of them, and has no form
		t.Errorf("%.2f streams a call with forms, %.2f without", streams[0], streams[1])
	}
}

// answerOf returns the model's most likely answer.
func answerOf(ctx context.Context, r *runner.Runner, text string) (answer string, err error) {
	for e, err := range r.Generate(ctx, generation.Request{
		Messages: []chattemplate.Message{{Role: chattemplate.User, Content: text}}}, generation.Unobserved{}) {
		if err != nil {
			return answer, err
		}
		if e.Kind == reasoning.SegmentDelta && e.Segment == reasoning.Answer {
			answer += e.Text
		}
	}
	return answer, nil
}

// A server before an engine answers, counts its streams, and says nothing private in its log.
func TestServeBeforeAnEngine(t *testing.T) {
	llamaservertest.Python(t)
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const key = "an-engine-key"
	engine := llamaservertest.Start(t, llamaservertest.Options{Model: path, Key: key})
	s := serve(t, "--verbose", "--engine-key", key, "big=llama-server+"+engine.URL)
	s.healthy()
	status, text := send(t, http.MethodPost, s.url+"/v1/chat/completions", "", `{"model": "big", "temperature": 0,
		"messages": [{"role": "user", "content": "What is 17 + 25?"}]}`)
	if status != http.StatusOK || !strings.Contains(text, "42") {
		t.Errorf("status %d: %s", status, text)
	}
	status, text = send(t, http.MethodPost, s.url+"/v1/chat/completions", "", `{"model": "big", "seed": 3,
		"repetition_penalty": 1.2, "repeat_penalty": 1.2, "messages": [{"role": "user", "content": "What is 17 + 25?"}]}`)
	if status != http.StatusBadRequest || !strings.Contains(text, "repetition_penalty") {
		t.Errorf("a setting that the engine does not have: status %d: %s", status, text)
	}
	if n := s.metric(`runner_remote_streams_total{model="big"}`); n < 1 {
		t.Errorf("%v streams", n)
	}
	engine.Kill()
	answered := make(chan string, 1)
	go func() {
		_, text := send(t, http.MethodPost, s.url+"/v1/chat/completions", "", `{"model": "big", "max_tokens": 5,
			"messages": [{"role": "user", "content": "What is 17 + 25?"}]}`)
		answered <- text
	}()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		status, text := send(t, http.MethodGet, s.url+"/health", "", "")
		if status == http.StatusServiceUnavailable {
			break
		}
		if time.Since(begin) > 20*time.Second {
			t.Fatalf("without its engine the server's health is %s", text)
		}
	}
	u, err := url.Parse(engine.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	again := llamaservertest.Start(t, llamaservertest.Options{Model: path, Key: key, Port: port})
	if text := <-answered; again.URL != engine.URL || !strings.Contains(text, `"completion_tokens":5`) {
		t.Errorf("after the engine came back: %s", text)
	}
	again.Kill()
	llamaservertest.Start(t, llamaservertest.Options{Model: copyOf(t, path, "second.gguf"), Key: key, Port: port})
	time.Sleep(1100 * time.Millisecond) // until the last token is no proof of the model any more
	for range 2 {
		status, text = send(t, http.MethodPost, s.url+"/v1/chat/completions", "", `{"model": "big", "max_tokens": 5,
			"messages": [{"role": "user", "content": "What is 17 + 25?"}]}`)
		if status != http.StatusServiceUnavailable || !strings.Contains(text, "model_changed") {
			t.Errorf("with another model at the address: status %d: %s", status, text)
		}
	}
	if n := strings.Count(s.logged(), "the engine at an address runs another model"); n != 1 {
		t.Errorf("the log says %d times that the engine runs another model:\n%s", n, s.logged())
	}
	if n := s.metric(`runner_remote_other_model{model="big"}`); n != 1 {
		t.Errorf("the metric for another model is %v", n)
	}
	for _, private := range []string{key, u.Host, u.Port(), "17 + 25"} {
		if log := strings.ReplaceAll(s.logged(), s.url, ""); strings.Contains(log, private) {
			t.Errorf("the log has %q:\n%s", private, log)
		}
	}
}

// A command that is no server also says that clients of an engine share prefixes, once.
func TestRunTellsOfSharedPrefixes(t *testing.T) {
	s := llamaServer(t, 1)
	for _, flags := range [][]string{nil, {"--no-shared-cache"}} {
		cmd := exec.Command("runner", append(append([]string{"run"}, flags...), s.URL, "What is 17 + 25?")...)
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		if err != nil || !strings.Contains(string(out), "42") {
			t.Fatalf("%v: %s%s", err, out, &said)
		}
		want := 1 - len(flags)
		if n := strings.Count(said.String(), "does not keep the prompts of different clients"); n != want {
			t.Errorf("with %q it says %d times that prefixes are shared: %s", flags, n, &said)
		}
	}
}

// TestAddressesRememberTheirModels opens the model at an address again after the engine came to run another one.
func TestAddressesRememberTheirModels(t *testing.T) {
	python := llamaservertest.Python(t)
	first, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	second := copyOf(t, first, "second.gguf")
	all, port := new(addresses), 0
	for _, turn := range []struct {
		path  string
		fails bool
	}{{first, false}, {second, true}, {first, false}} {
		engine, err := llamaservertest.Launch(python, llamaservertest.Options{Model: turn.path, Port: port})
		if err != nil {
			t.Fatal(err)
		}
		at, err := url.Parse(engine.URL)
		if err == nil {
			port, err = strconv.Atoi(at.Port())
		}
		if err != nil {
			t.Fatal(err)
		}
		m, _, err := all.open(t.Context(), cli.Remote{URL: engine.URL, Tokenizer: first}, backend.Config{}, nil)
		engine.Kill()
		var hinted interface{ Hint() string }
		switch {
		case turn.fails != errors.Is(err, backend.ErrOtherModel), !turn.fails && err != nil:
			t.Errorf("with %s: %v", filepath.Base(turn.path), err)
		case turn.fails && (!errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), "start runner again")):
			t.Errorf("the error has no advice: %v", err)
		}
		if m != nil {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// copyOf returns a copy of a file that has another name, which is another model to an engine.
func copyOf(t *testing.T, path, name string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}
