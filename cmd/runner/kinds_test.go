package main

import (
	"context"
	"net/http/httptest"
	"testing"

	"runner/backend/remote/standin"
	"runner/cmd/runner/cli"
)

// TestKindsAreFound asks vLLM and SGLang what they are, with the kind in the address and without it.
func TestKindsAreFound(t *testing.T) {
	for _, c := range []standin.Config{{Kind: "vllm"}, {Kind: "vllm", NoTokensRoute: true}, {Kind: "sglang"}} {
		h := httptest.NewServer(standin.New(c))
		defer h.Close()
		for _, kind := range []string{"", c.Kind} {
			f, err := find(context.Background(), cli.Remote{URL: h.URL, Kind: kind})
			if err != nil {
				t.Fatal(c.Kind, err)
			}
			f.client.Close()
			if got := kinds[f.kind].name; got != c.Kind || f.about.Model != "stand-in" {
				t.Errorf("%s asked as %q is found as %s with %s", c.Kind, kind, got, f.about.Model)
			}
		}
		for _, other := range []string{"llama-server", "vllm", "sglang"} {
			if other == c.Kind {
				continue
			}
			if _, err := find(context.Background(), cli.Remote{URL: h.URL, Kind: other}); err == nil {
				t.Errorf("%s is taken for %s", c.Kind, other)
			}
		}
	}
}
