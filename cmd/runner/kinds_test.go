package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/remote/standin"
	"runner/backend/remote/web"
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
			if got := f.kind.Name; got != c.Kind || f.about.Model != "stand-in" {
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

// TestDoctorOfAnUntidyEngine asks an engine whose name for its model has line breaks. Each fact stays one line.
func TestDoctorOfAnUntidyEngine(t *testing.T) {
	h := httptest.NewServer(standin.New(standin.Config{Kind: "vllm", Name: "a\nb\x1b[31m" + strings.Repeat("c", 1000)}))
	defer h.Close()
	out, _ := exec.Command("runner", "doctor", h.URL).CombinedOutput() // it fails, because there is no tokenizer
	if text := string(out); strings.Contains(text, "\nb") || strings.Contains(text, "\x1b[31m") ||
		!strings.Contains(text, `a\nb\x1b[31mccc`) || strings.Contains(text, strings.Repeat("c", 300)) {
		t.Errorf("doctor says: %q", text)
	}
}

// TestEnginesThatAreBusyAtTheStart checks that a model that cannot be opened now says when to try again.
func TestEnginesThatAreBusyAtTheStart(t *testing.T) {
	for _, c := range []struct {
		err   web.Error
		later bool
	}{{web.Error{Kind: web.Busy, Status: 503, RetryAfter: 9 * time.Second}, true}, {web.Error{Kind: web.Denied}, false}} {
		err := remoteError(&c.err)
		var later *backend.UnavailableError
		var load *backend.LoadError
		if errors.As(err, &later) != c.later || c.later && later.After != c.err.RetryAfter || !errors.As(err, &load) ||
			load.Advice == "" {
			t.Errorf("%v: %v", &c.err, err)
		}
	}
}
