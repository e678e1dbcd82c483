package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"runner/reasoning"
)

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
	o := &serveOptions{maxReasoning: reasoning.VisibilityFull}
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
