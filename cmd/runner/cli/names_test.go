package cli

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// named are requests of every format and route that names a model, which is $M.
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

// checkNames fails unless every route takes the names and no other.
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

// A model with the tag latest is the model without it.
func TestTheTagLatestInEveryFormat(t *testing.T) {
	checkNames(t, wholeServer(t, io.Discard), []string{"demo", "demo:latest", "slow:latest"}, []string{"demo:q4", "latest", "demo:latest:latest"})
}
