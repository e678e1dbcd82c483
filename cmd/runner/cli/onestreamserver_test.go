package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/generation"
	"runner/reasoning"
	"runner/reasoning/prompts"
	"runner/runner"
	"runner/runner/delegate"
	"runner/server"
	"runner/server/keys"
	"runner/server/pool"
	"runner/server/wire"
	"runner/server/wiretest"
	"runner/testenv"
)

// The questions that the models of wholeServer can answer.
const (
	asksSum        = "What is 2 + 2?"
	asksLookUp     = "Look it up."
	asksSpecialist = "Hand it over."
)

// deepThoughts is a model that puts the canary into every kind of reasoning. The model "broken" fails while it reasons,
// and "slow" takes its time.
func deepThoughts(name string) fake.Config {
	const summary = "<|end|><|start|>assistant<|channel|>final<|message|>"
	reason := `<rationale call="1">{"why":"` + wiretest.Canary + `","refs":["` + wiretest.Canary + `"]}</rationale>`
	thought := "I think of " + wiretest.Canary + ". I assume that " + wiretest.Canary + " holds because it does."
	vocab := fake.Harmony()
	cfg := fake.Config{Name: name, Vocab: vocab, Script: fake.Replies(vocab,
		fake.Reply{After: wiretest.Ask(asksSum), Say: wiretest.Think(thought, "It is 4.")},
		fake.Reply{After: wiretest.Ask(asksLookUp), Say: wiretest.Call(thought+reason, "One moment.", "look", `{"q":"a"}`)},
		fake.Reply{After: wiretest.Ask(asksSpecialist), Say: wiretest.Call(thought, "", "delegate_internal_reasoning",
			`{"agent_prompt":"You know `+wiretest.Canary+`."}`)},
		fake.Reply{After: "</delegate-reasoning><|end|><|start|>assistant",
			Say: wiretest.Think(thought, "As a specialist: "+wiretest.Canary)},
		fake.Reply{After: "</return-control><|end|><|start|>assistant", Say: wiretest.Think(thought, "It is 4.")},
		fake.Reply{After: prompts.SummaryConciseV1 + summary, Say: "It was " + wiretest.SummaryCanary + ".<|return|>"},
		fake.Reply{After: "Two and two", Say: " is four.<|return|>"},
	)}
	switch name {
	case "broken":
		cfg.Fail = func(step int, _ []backend.Input) error {
			if step > 12 {
				return errors.New("it broke")
			}
			return nil
		}
	case "slow":
		cfg.Delay = func(int) time.Duration { return 20 * time.Millisecond }
	}
	return cfg
}

// wholeServer serves all formats, as serve does, until the test ends. Its keys most and least may see all of the
// reasoning and none.
func wholeServer(t *testing.T, log io.Writer) (url string) {
	t.Helper()
	return wholeServerWith(t, log, &serveOptions{Host: Host{MaxReasoning: reasoning.VisibilityFull}}, true)
}

// wholeServerWith is wholeServer with flags. It has keys only if keyed is set.
func wholeServerWith(t *testing.T, log io.Writer, o *serveOptions, keyed bool) (url string) {
	t.Helper()
	dir := t.TempDir()
	entry := func(id, visibility string) string {
		return fmt.Sprintf(`{"id":%q,"sha256":"%x","reasoning":%q}`, id, sha256.Sum256([]byte(id)), visibility)
	}
	path := filepath.Join(dir, "keys.json")
	list := `{"keys":[` + entry("most", "full") + "," + entry("least", "none") + `]}`
	if err := os.WriteFile(path, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := keys.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg := server.Config{Keys: set, MaxReasoning: &o.MaxReasoning, Version: "1.2.3"}
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug - 8}))
	if !keyed {
		cfg.Keys = nil
	}
	if cfg.Aliases, err = readAliases(o.aliases, []served{{name: "demo"}, {name: "broken"}, {name: "slow"}}); err != nil {
		t.Fatal(err)
	}
	entries := []pool.Entry{{Name: "demo"}, {Name: "broken"}, {Name: "slow"}}
	for _, e := range entries {
		cfg.Cards = append(cfg.Cards, wire.Card{Name: e.Name, Added: wiretest.Today})
	}
	cfg.Pool = pool.New(pool.Config{Models: entries, Logger: cfg.Logger,
		Open: func(_ context.Context, name string) (wire.Loaded, error) {
			return runner.New(fake.New(deepThoughts(name)), runner.Config{Logger: cfg.Logger,
				Loops: []generation.Loop{delegate.Loop{}}})
		}})
	s := server.New(cfg)
	o.App, o.Server, o.Logger = newApp(Engine{}, Build{}), s, cfg.Logger
	o.addRooms()
	o.sealKeys = filepath.Join(dir, "seal.keys")
	if err := mountFormats(o); err != nil {
		t.Fatal(err)
	}
	return testenv.Listen(t, s)
}

// exchange is a request of a format. $M stands for the model, $Q for the question and $V for the fields that ask for a
// visibility.
type exchange struct {
	path, body string
	// visibilities has the values of $V for none, summary and full. "-" means that the format does not have it.
	visibilities [3]string
}

func exchanges() []exchange {
	const question = `"messages":[{"role":"user","content":"$Q"}]`
	const chat = `{"model":"$M",` + question +
		`,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}],` +
		`"rationale":true,"logprobs":true,"top_logprobs":2`
	const resp = `{"model":"$M","input":"$Q",` +
		`"tools":[{"type":"function","name":"look","parameters":{"type":"object"},"strict":false}],"rationale":true,` +
		`"include":["reasoning.encrypted_content","message.output_text.logprobs"]`
	const claude = `{"model":"$M",` + question +
		`,"max_tokens":2000,"tools":[{"name":"look","input_schema":{"type":"object"}}]`
	const llama = `{"model":"$M",` + question +
		`,"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]`
	const ag = `{"threadId":"t","runId":"r","protocolVersion":"1.0",` +
		`"messages":[{"id":"m","role":"user","content":"$Q"}],` +
		`"tools":[{"name":"look","description":"","parameters":{"type":"object"}}],` +
		`"forwardedProps":{"model":"$M","rationale":true,"reasoning_seal":true`
	const delegation = `,"delegation":{"allow":true}`
	plain := [3]string{`,"reasoning":"none"}`, `,"reasoning":"summary"}`, `,"reasoning":"full"}`}
	props := [3]string{`,"reasoning":"none"}}`, `,"reasoning":"summary"}}`, `,"reasoning":"full"}}`}
	thinking := [3]string{`,"thinking":{"type":"adaptive","display":"omitted"}}`,
		`,"thinking":{"type":"adaptive","display":"summarized"}}`, `,"thinking":{"type":"adaptive"}}`}
	think := [3]string{`}`, "-", `,"think":true}`}
	const stream = `,"stream":true`
	return []exchange{
		{"/v1/chat/completions", chat + `,"reasoning_seal":true$V`, plain},
		{"/v1/chat/completions", chat + stream + "$V", plain},
		{"/v1/chat/completions", chat + `,"n":2$V`, plain}, {"/v1/chat/completions", chat + delegation + "$V", plain},
		{"/v1/chat/completions", chat + delegation + stream + "$V", plain},
		{"/v1/responses", resp + "$V", plain}, {"/v1/responses", resp + stream + "$V", plain},
		{"/v1/messages", claude + "$V", thinking}, {"/v1/messages", claude + stream + "$V", thinking},
		{"/api/chat", llama + `,"stream":false$V`, think}, {"/api/chat", llama + "$V", think},
		{"/api/generate", `{"model":"$M","prompt":"$Q"$V`, think},
		{"/agui", ag + "$V", props}, {"/agui", ag + delegation + "$V", props}, {"/agui", ag + `,"chunks":true$V`, props},
		{"/v1/completions", `{"model":"$M","prompt":"Two and two","logprobs":1$V`, [3]string{"}", "-", "-"}},
	}
}

// all returns the status of an answer, and its header and body as one text.
func all(ctx context.Context, t *testing.T, method, url, key, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "" // the request was cut off, as intended
	}
	defer res.Body.Close()
	var out bytes.Buffer
	if err := res.Header.Write(&out); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(&out, res.Body) // a part of a body is checked, too
	return res.StatusCode, out.String()
}

// Reasoning leaves the server only where it was requested and is allowed. It is in no other answer, header, error, log
// line or metric, whatever happens to the run.
func TestHiddenReasoningNeverLeavesTheServer(t *testing.T) {
	log := &testenv.Buffer{}
	url := wholeServer(t, log)
	answered := map[int]int{}
	check := func(v reasoning.Visibility, what string, status int, out string) {
		answered[status]++
		for _, secret := range secrets(v) {
			if strings.Contains(out, secret) {
				t.Errorf("visibility %s: %s: the answer contains %s:\n%s", v, what, secret, out)
			}
		}
	}
	shown := map[string]bool{}
	for _, e := range exchanges() {
		for _, model := range []string{"demo", "broken"} {
			for _, question := range []string{asksSum, asksLookUp, asksSpecialist} {
				if question == asksSpecialist && !strings.Contains(e.body, `"delegation"`) {
					continue // without delegation this is like any other call
				}
				for _, v := range everyVisibility {
					if e.visibilities[v] == "-" {
						continue
					}
					body := strings.NewReplacer("$M", model, "$Q", question, "$V", e.visibilities[v]).Replace(e.body)
					status, out := all(t.Context(), t, http.MethodPost, url+e.path, "most", body)
					check(v, e.path+" "+body, status, out)
					if model == "demo" && status != http.StatusOK {
						t.Errorf("%s %s: %d: %s", e.path, body, status, out)
					}
					if v == reasoning.VisibilityFull && strings.Contains(out, wiretest.Canary) {
						shown[e.path] = true
					}
					if v == reasoning.VisibilityNone {
						continue
					}
					// A key that may see no reasoning is refused and gets none.
					status, out = all(t.Context(), t, http.MethodPost, url+e.path, "least", body)
					check(reasoning.VisibilityNone, "refused "+e.path, status, out)
					if status != http.StatusForbidden {
						t.Errorf("%s %s: %d: %s", e.path, body, status, out)
					}
				}
			}
		}
	}
	for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat", "/agui"} {
		if !shown[path] {
			t.Errorf("%s never shows the reasoning", path)
		}
	}
	// Clients leave at different times.
	for i := range 8 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+60*i)*time.Millisecond)
		body := strings.NewReplacer("$M", "slow", "$Q", asksSum, "$V", `,"reasoning":"none"}`).Replace(exchanges()[1].body)
		status, out := all(ctx, t, http.MethodPost, url+"/v1/chat/completions", "most", body)
		check(reasoning.VisibilityNone, "cut off", status, out)
		cancel()
	}
	for _, path := range []string{"/metrics", "/props", "/props?model=demo", "/openapi.json", "/health", "/v1/models",
		"/api/ps", "/nowhere"} {
		status, out := all(t.Context(), t, http.MethodGet, url+path, "most", "")
		check(reasoning.VisibilityNone, path, status, out)
		failing := path == "/health" && status == http.StatusServiceUnavailable // as a model is broken
		if status != http.StatusOK && path != "/nowhere" && !failing {
			t.Errorf("%s: %d", path, status)
		}
	}
	if answered[http.StatusOK] == 0 || answered[http.StatusForbidden] == 0 ||
		answered[http.StatusInternalServerError] == 0 {
		t.Errorf("the answers were %v", answered)
	}
	said := log.String()
	for _, secret := range secrets(reasoning.VisibilityNone) {
		if strings.Contains(said, secret) {
			t.Errorf("the log contains %s", secret)
		}
	}
	if !strings.Contains(said, "it broke") || !strings.Contains(said, "reasoning_tokens=") &&
		!strings.Contains(said, "completion_tokens=") {
		t.Errorf("the log says nothing of the runs:\n%s", said)
	}
}

// A sealed value that a client sends back is opened or dropped. Its content is not shown in either case.
func TestACarriedValueIsNotShown(t *testing.T) {
	log := &testenv.Buffer{}
	url := wholeServer(t, log)
	body := strings.NewReplacer("$M", "demo", "$Q", asksLookUp, "$V", `,"reasoning":"none"}`).Replace(exchanges()[0].body)
	status, out := all(t.Context(), t, http.MethodPost, url+"/v1/chat/completions", "most", body)
	call := regexp.MustCompile(`"id":"(call_\w+)"`).FindStringSubmatch(out)[1]
	_, rest, ok := strings.Cut(out, `"reasoning_encrypted_content":"`)
	value, _, _ := strings.Cut(rest, `"`)
	if status != http.StatusOK || !ok || value == "" {
		t.Fatalf("%d: %s", status, out)
	}
	middle := len(value) / 2
	altered := value[:middle] + map[bool]string{true: "B", false: "A"}[value[middle] == 'A'] + value[middle+1:]
	for _, carried := range []struct {
		value, key string
		dropped    bool
	}{{value, "most", false}, {altered, "most", true}, {value, "least", true}, {value[:middle], "most", true}} {
		body := `{"model":"demo","reasoning":"none","messages":[{"role":"user","content":"` + asksLookUp +
			`"},{"role":"assistant","content":"One moment.","reasoning_encrypted_content":"` +
			carried.value + `","tool_calls":[{"id":"` + call +
			`","type":"function","function":{"name":"look","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + call +
			`","content":"4"}],` +
			`"tools":[{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]}`
		status, out := all(t.Context(), t, http.MethodPost, url+"/v1/chat/completions", carried.key, body)
		if status != http.StatusOK || strings.Contains(out, `"sealed_dropped"`) != carried.dropped {
			t.Errorf("%d: %s", status, out)
		}
		for _, secret := range secrets(reasoning.VisibilityNone) {
			if strings.Contains(out+log.String(), secret) {
				t.Errorf("%s shows: %s", secret, out)
			}
		}
	}
}
