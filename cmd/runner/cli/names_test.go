package cli

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/hint"
	"runner/models"
	"runner/reasoning"
)

// TestWordsAreNamesOrPrompts holds what one argument of run means. A word that looks like the name of a model is
// refused with advice if there is no such model, and never sent to the demo model.
func TestWordsAreNamesOrPrompts(t *testing.T) {
	home := t.TempDir()
	for _, v := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("OLLAMA_MODELS", home)
	t.Chdir(home)
	for _, name := range []string{"a.gguf", "folder/m.gguf",
		".cache/huggingface/hub/models--ggml-org--gpt-oss-20b-GGUF/snapshots/c1/gpt-oss-20b-mxfp4.gguf"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("GGUF"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, model := range []string{"demo", "a.gguf", "folder", "gpt-oss-20b", "GPT-OSS:20b", "ggml-org/gpt-oss-20b",
		"https://huggingface.co/ggml-org/gpt-oss-20b-GGUF"} {
		got, typed, given, err := new(runOptions).arguments([]string{model})
		if err != nil || got != model || typed != "" || given {
			t.Errorf("%q: model %q, prompt %q, %v", model, got, typed, err)
		}
	}
	for _, prompt := range []string{"17-5", "12/4", "3.14", "2+2", "hello", "What is 17-5?",
		"Which is faster, gpt-oss:20b?", "x=3.5", "", "-", "well-known", "1:2", "100/7", "gut1", "naïve-1"} {
		model, typed, given, err := new(runOptions).arguments([]string{prompt})
		if err != nil || model != models.DemoName || typed != prompt || !given {
			t.Errorf("%q: model %q, prompt %q, %v", prompt, model, typed, err)
		}
	}
	for word, want := range map[string]string{"gpt-os-20b": "gpt-oss", "lama3.2": "llama3.2",
		"qwen3:8b": "runner pull Qwen/", "GPT-4": "runner run demo GPT-4", "org/repo": "runner pull org/repo",
		"a/b": "runner pull", "b.gguf": "path", "org/repo:Q5_K_M": "runner pull org/repo:Q5_K_M",
		"hf.co/org/repo@v2:m.gguf": "runner pull org/repo@v2:m.gguf",
		"llama3.2:3b-q8_0":         "runner pull bartowski/Llama-3.2-3B-Instruct-GGUF:Q8_0",
		"gpt-oss-20b:q8_0":         "download it, with: runner pull ggml-org/gpt-oss-20b-GGUF:Q8_0",
		"yes/no":                   "runner pull yes/no. To send it as a prompt: runner run demo yes/no",
		"and/or":                   "runner run demo and/or",
		"v1.2":                     "runner run demo v1.2", "https://example.com/x1": "ORG/REPO"} {
		q, err := new(App).wanted(t.Context(), new(runOptions), []string{word})
		var e *models.Error
		if q.given || !errors.As(err, &e) || !strings.Contains(hint.Of(err), want) {
			t.Errorf("%q: prompt %v, %+v, want %q", word, q.given, err, want)
		}
		if strings.Contains(word, "5") && strings.Contains(hint.Of(err), "as a prompt") {
			t.Errorf("%q is taken for a prompt: %s", word, hint.Of(err))
		}
	}
}

func TestServedNames(t *testing.T) {
	for model, want := range map[string]string{"dir/m.gguf": "m", "org/repo:Q4_K_M": "org/repo:Q4_K_M",
		"gpt-oss:20b": "gpt-oss:20b",
		"https://huggingface.co/org/repo/tree/main":                         "org/repo",
		"https://huggingface.co/org/repo/resolve/main/m.gguf?download=true": "m"} {
		if got := servedName(model); got != want {
			t.Errorf("%q is served as %q, want %q", model, got, want)
		}
	}
	const address = "https://huggingface.co/org/repo/resolve/main/m.gguf?download=true"
	var e *models.Error
	if _, err := new(App).resolveServed(t.Context(), []string{address}); !errors.As(err, &e) || e.Name != address {
		t.Errorf("an address with a query: %v", err)
	}
}

// named has requests of every format and route that names a model, which is $M.
func named() (requests []exchange) {
	for _, f := range formats {
		requests = append(requests, exchange{path: f.path, body: strings.ReplaceAll(f.body, "$F", "")})
	}
	return append(requests,
		exchange{path: "/v1/completions", body: `{"model":"$M","prompt":"Two and two"}`},
		exchange{path: "/v1/messages/count_tokens", body: `{"model":"$M","messages":[{"role":"user","content":"a"}]}`},
		exchange{path: "/v1/responses/input_tokens", body: `{"model":"$M","input":"a"}`},
		exchange{path: "/apply-template", body: `{"model":"$M","messages":[{"role":"user","content":"a"}]}`},
		exchange{path: "/tokenize", body: `{"model":"$M","content":"a"}`},
		exchange{path: "/api/show", body: `{"model":"$M"}`},
		exchange{path: "/props?model=$M"}, exchange{path: "/v1/models/$M"},
	)
}

// checkNames fails unless every route accepts the given names and no others.
func checkNames(t *testing.T, url string, taken, refused []string) {
	t.Helper()
	for _, e := range named() {
		method := http.MethodPost
		if e.body == "" {
			method = http.MethodGet
		}
		for i, name := range append(taken[:len(taken):len(taken)], refused...) {
			want := http.StatusOK
			if i >= len(taken) {
				want = http.StatusNotFound
			}
			path, body := strings.ReplaceAll(e.path, "$M", name), strings.ReplaceAll(e.body, "$M", name)
			if status, out := all(t.Context(), t, method, url+path, "most", body); status != want {
				t.Errorf("%s %s: %d, want %d:\n%s", path, body, status, want, out)
			}
		}
	}
}

// A model name with the tag latest means the same as the name without it.
func TestTheTagLatestInEveryFormat(t *testing.T) {
	url := wholeServer(t, io.Discard)
	checkNames(t, url, []string{"demo", "demo:latest", "slow:latest"}, []string{"demo:q4", "latest", "demo:latest:latest"})
}

// An alias works like the model's own name, with and without the tag latest. A model's own name takes precedence.
func TestAliasesInEveryFormat(t *testing.T) {
	o := &serveOptions{Host: Host{MaxReasoning: reasoning.VisibilityFull}}
	o.aliases = []string{"claude-*=demo:latest", "gpt-4o=slow", "*ok*=broken"}
	url := wholeServerWith(t, io.Discard, o, true)
	taken := []string{"claude-sonnet", "claude-3:latest", "demo"}
	checkNames(t, url, taken, []string{"claude", "gpt-4", "anthropic/claude-3"})
	for name, want := range map[string]string{
		"claude-x": "demo", "gpt-4o": "slow", "a-ok": "broken", "claude-ok": "demo", "broken": "broken",
	} {
		_, out := all(t.Context(), t, http.MethodGet, url+"/v1/models/"+name, "most", "")
		if !strings.Contains(out, `"id":"`+want+`"`) {
			t.Errorf("%s is not %s:\n%s", name, want, out)
		}
	}
	if _, out := all(t.Context(), t, http.MethodGet, url+"/v1/models", "most", ""); strings.Contains(out, "claude") {
		t.Errorf("patterns are listed:\n%s", out)
	}
}
