package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"runner/backend/fake"
	"runner/backend/mlx/fromgguf"
	"runner/backend/remote/standin"
	"runner/backend/tokenizer/folder"
	"runner/models/demo"
)

// bundledText writes the files of the bundled model that say how it writes into a new folder.
func bundledText(t *testing.T) string {
	t.Helper()
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := fromgguf.Convert(path, dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// cached puts a folder's files into the cache that HF_HUB_CACHE names, as the downloaded files of a repository. Only
// with ref is there a reference to its commit.
func cached(t *testing.T, from, repo string, ref bool) {
	t.Helper()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	to := filepath.Join(os.Getenv("HF_HUB_CACHE"), "models--"+strings.ReplaceAll(repo, "/", "--"))
	if err := os.MkdirAll(filepath.Join(to, "refs"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(to, "snapshots", commit), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	if !ref {
		return
	}
	if err := os.WriteFile(filepath.Join(to, "refs", "main"), []byte(commit), 0o644); err != nil {
		t.Fatal(err)
	}
}

// changed returns a copy of a folder in which a change was made to tokenizer.json.
func changed(t *testing.T, from string, change func(tokenizer map[string]any)) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "changed")
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "tokenizer.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	change(all)
	if data, err = json.Marshal(all); err == nil {
		err = os.WriteFile(path, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// vocabularyIn returns the vocabulary in the contents of a tokenizer.json.
func vocabularyIn(all map[string]any) map[string]any {
	return all["model"].(map[string]any)["vocab"].(map[string]any)
}

// A tokenizer is read from a tokenizer.json, from its folder and from the cache of downloaded models, whatever the
// engine is called. One that is not that of the engine's model is refused.
func TestTokenizersOfAnEngine(t *testing.T) {
	s := llamaServer(t, 2)
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	text := bundledText(t)
	cached(t, text, "openai/gpt-oss-20b", true)
	cached(t, text, "openai/without-a-reference", false)
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cached(t, filepath.Dir(copyOf(t, path, "demo-Q4_0.gguf")), "someone/demo-GGUF", true)
	alone := t.TempDir()
	data, err := os.ReadFile(filepath.Join(text, "tokenizer.json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(alone, "tokenizer.json"), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	exchanged := changed(t, text, func(all map[string]any) {
		v := vocabularyIn(all)
		v["a"], v["b"] = v["b"], v["a"]
	})
	cached(t, exchanged, "openai/another", true)
	for _, c := range []struct{ tokenizer, refused string }{
		{tokenizer: filepath.Join(text, "tokenizer.json")},
		{tokenizer: text},
		{tokenizer: filepath.Join(alone, "tokenizer.json")},
		{tokenizer: "openai/gpt-oss-20b"},
		{tokenizer: "OpenAI/GPT-OSS-20b"},
		{tokenizer: "hf.co/openai/gpt-oss-20b"},
		{tokenizer: "openai/without-a-reference"},
		{tokenizer: "someone/demo-GGUF"},
		{tokenizer: path},
		{tokenizer: filepath.Join(exchanged, "tokenizer.json"), refused: "the tokenizer is not that of the engine's model"},
		{tokenizer: "openai/another", refused: "the tokenizer is not that of the engine's model"},
		{tokenizer: "openai/nowhere", refused: "openai/nowhere"},
		{tokenizer: filepath.Join(text, "config.json"),
			refused: "config.json is neither a GGUF file nor called tokenizer.json"},
	} {
		cmd := exec.Command("runner", "run", s.URL, "--tokenizer", c.tokenizer, "--temperature", "0", "What is 17 + 25?")
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.Output()
		switch {
		case c.refused == "" && (err != nil || strings.TrimSpace(string(out)) != "17 + 25 = 42."):
			t.Errorf("--tokenizer %s: %v, %s%s", c.tokenizer, err, out, &said)
		case c.refused != "" && (err == nil || !strings.Contains(unwrapped(said.String()), c.refused)):
			t.Errorf("--tokenizer %s: %v, want %q: %s%s", c.tokenizer, err, c.refused, out, &said)
		}
	}
	served := serve(t, "big=llama-server+"+s.URL, "--tokenizer", "big=openai/gpt-oss-20b", "--temperature", "0")
	served.healthy()
	status, reply := send(t, http.MethodPost, served.url+"/v1/chat/completions", "",
		`{"messages": [{"role": "user", "content": "What is 17 + 25?"}]}`)
	if status != http.StatusOK || !strings.Contains(reply, "17 + 25 = 42.") {
		t.Errorf("served: status %d: %s", status, reply)
	}
}

// unwrapped joins the lines of a text that was wrapped.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

// byteModel writes the files of a model whose tokens are single bytes and the bundled model's control tokens.
func byteModel(t *testing.T) string {
	t.Helper()
	dir := changed(t, bundledText(t), func(all map[string]any) {
		model, v := all["model"].(map[string]any), map[string]any{}
		var letters []string
		for piece := range vocabularyIn(all) {
			if utf8.RuneCountInString(piece) == 1 {
				letters = append(letters, piece)
			}
		}
		slices.Sort(letters)
		for i, piece := range letters {
			v[piece] = i
		}
		model["vocab"], model["merges"] = v, []string{}
		for i, added := range all["added_tokens"].([]any) {
			added.(map[string]any)["id"] = len(letters) + i
		}
	})
	// Both name tokens by the ids that they had.
	for _, name := range []string{"config.json", "generation_config.json"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"model_type": "gpt_oss"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// byteEngine returns a stand-in for an engine with the model in a folder that byteModel wrote. It answers every
// question with "It is 42." and keeps its pace.
func byteEngine(t *testing.T, dir string, c standin.Config) *standin.Server {
	t.Helper()
	f, err := folder.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	c.Model = fake.Config{Vocab: f.Vocab, ContextSize: 4096, Script: fake.Replies(f.Vocab,
		fake.Reply{After: "<|start|>assistant", Say: "<|channel|>final<|message|>It is 42."})}
	return standin.New(c)
}

// listening serves an engine and returns its address.
func listening(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// Without --tokenizer, the engine's name for its model is looked up in the cache of downloaded models.
func TestTokenizerByTheEnginesName(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	dir := byteModel(t)
	cached(t, dir, "openai/gpt-oss-20b", true)
	for _, kind := range []string{"vllm", "sglang"} {
		known := listening(t, byteEngine(t, dir, standin.Config{Kind: kind, Name: "openai/gpt-oss-20b"}))
		out, err := exec.Command("runner", "run", known, "Hi").Output()
		if err != nil || strings.TrimSpace(string(out)) != "It is 42." {
			t.Errorf("%s: %v: %s", kind, err, out)
		}
		s := serve(t, "--temperature", "0", known)
		s.healthy()
		status, reply := send(t, http.MethodPost, s.url+"/v1/chat/completions", "",
			`{"model": "openai/gpt-oss-20b", "messages": [{"role": "user", "content": "Hi"}]}`)
		if status != http.StatusOK || !strings.Contains(reply, "It is 42.") {
			t.Errorf("%s, served: status %d: %s", kind, status, reply)
		}
		unknown := listening(t, byteEngine(t, dir, standin.Config{Kind: kind, Name: "openai/nowhere"}))
		all, err := exec.Command("runner", "run", unknown, "Hi").CombinedOutput()
		if err == nil || !strings.Contains(unwrapped(string(all)), `there is no tokenizer for "openai/nowhere"`) {
			t.Errorf("%s, a name that nothing here has: %v: %s", kind, err, all)
		}
	}
}

// What doctor says of an engine that tells little has no gaps, and no advice that has no effect.
func TestDoctorOfAnEngine(t *testing.T) {
	dir := byteModel(t)
	for _, c := range []struct {
		config      standin.Config
		has, hasNot []string
	}{
		{standin.Config{Kind: "vllm", Name: "big"},
			[]string{"engine     vllm 0.33.0 at", "model      big, gpt-oss\n", "it keeps those of different API keys apart"},
			[]string{"--no-shared-cache", "parameters"}},
		{standin.Config{Kind: "sglang", Name: "big"},
			[]string{"engine     sglang 0.5.23 at", "model      big, gpt-oss\n", "it keeps those of different API keys apart"},
			[]string{"--no-shared-cache", "parameters"}},
		{standin.Config{Kind: "sglang", Name: "big", Version: "0.5.10"},
			[]string{"all its clients share them", "--no-shared-cache has no effect on this engine",
				"--disable-radix-cache turns them off", "accept this, or turn its prefix cache off"},
			[]string{"asks it not to", "use --no-shared-cache"}},
		{standin.Config{Kind: "sglang", Name: "big", Version: "0.5.10", NoPrefixes: true},
			[]string{"it keeps those of different API keys apart"}, []string{"--no-shared-cache"}},
	} {
		out, err := exec.Command("runner", "doctor", listening(t, byteEngine(t, dir, c.config)), "--tokenizer",
			filepath.Join(dir, "tokenizer.json")).CombinedOutput()
		if err != nil {
			t.Errorf("%+v: %v", c.config, err)
		}
		for _, want := range c.has {
			if !strings.Contains(string(out), want) && !strings.Contains(unwrapped(string(out)), want) {
				t.Errorf("%+v: %q is missing in\n%s", c.config, want, out)
			}
		}
		for _, not := range c.hasNot {
			if strings.Contains(unwrapped(string(out)), not) {
				t.Errorf("%+v: %q is in\n%s", c.config, not, out)
			}
		}
	}
	old := listening(t, byteEngine(t, dir, standin.Config{Kind: "sglang", Name: "big", Version: "0.5.10"}))
	out, err := exec.Command("runner", "run", old, "--tokenizer", dir, "--no-shared-cache", "Hi").CombinedOutput()
	if err != nil || !strings.Contains(unwrapped(string(out)), "it ignores --no-shared-cache") {
		t.Errorf("with a flag that has no effect: %v: %s", err, out)
	}
}

// Without --parallel, as many requests run at a time as the engine computes; with it, as many as it says.
func TestEnginesAtAddressesGetManyRequests(t *testing.T) {
	const requests = 6
	dir := byteModel(t)
	for _, c := range []struct {
		flags []string
		most  float64
	}{{nil, requests}, {[]string{"--parallel", "2"}, 2}} {
		url := listening(t, byteEngine(t, dir, standin.Config{Kind: "vllm", Name: "big", Pace: 100 * time.Millisecond}))
		s := serve(t, append(c.flags, "--tokenizer", dir, url)...)
		s.healthy()
		var all sync.WaitGroup
		var ended atomic.Bool
		for range requests {
			all.Go(func() {
				status, reply := send(t, http.MethodPost, s.url+"/v1/chat/completions", "",
					`{"model": "big", "messages": [{"role": "user", "content": "Hi"}]}`)
				if ended.Store(true); status != http.StatusOK {
					t.Errorf("status %d: %s", status, reply)
				}
			})
		}
		most := 0.0
		for !ended.Load() {
			most = max(most, s.metric(`runner_runs_active{model="big"}`))
		}
		if all.Wait(); most != c.most {
			t.Errorf("%v: %v requests run at a time, want %v", c.flags, most, c.most)
		}
	}
}

// A server does not start with a setting that its engine does not have: all requests would be refused.
func TestSettingsThatAnEngineLacks(t *testing.T) {
	dir := byteModel(t)
	for _, kind := range []string{"vllm", "sglang"} {
		url := listening(t, byteEngine(t, dir, standin.Config{Kind: kind, Name: "big"}))
		out, err := exec.Command("runner", "serve", "--port", "0", "--tokenizer", dir, "--repeat-penalty", "1.1",
			url).CombinedOutput()
		if err == nil || !strings.Contains(unwrapped(string(out)), "--repeat-penalty: ") {
			t.Errorf("%s: %v: %s", kind, err, out)
		}
	}
}

// A tokenizer may have control tokens that the engine's model does not have. One with more text is refused.
func TestTokenizerWithMoreTokens(t *testing.T) {
	dir := byteModel(t)
	url := listening(t, byteEngine(t, dir, standin.Config{Kind: "vllm", Name: "big"}))
	for _, special := range []bool{true, false} {
		more := changed(t, dir, func(all map[string]any) {
			added := all["added_tokens"].([]any)
			last := added[len(added)-1].(map[string]any)
			all["added_tokens"] = append(added, map[string]any{"id": last["id"].(float64) + 1, "content": "<image>",
				"special": special})
		})
		out, err := exec.Command("runner", "run", url, "--tokenizer", more, "Hi").CombinedOutput()
		if (err == nil) != special || !special && !strings.Contains(unwrapped(string(out)), "tokens and the engine's has") {
			t.Errorf("one more token, a control token %v: %v: %s", special, err, out)
		}
	}
}
