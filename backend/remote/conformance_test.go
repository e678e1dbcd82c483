package remote_test

import (
	"context"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/fake"
	"runner/backend/remote"
	"runner/backend/remote/remotetest"
)

// open opens the model of an engine for one test.
func open(tb testing.TB, e *remotetest.Engine, c remote.Config) *remote.Model {
	tb.Helper()
	c.Engine, c.Vocab, c.Tokenize, c.Architecture = e, e.Vocab(), e.Tokenize, "fake"
	m, err := remote.Open(context.Background(), c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Close(); err != nil {
			tb.Error(err)
		}
		for begin := time.Now(); e.OpenStreams() > 0; time.Sleep(time.Millisecond) {
			if time.Since(begin) > 10*time.Second {
				tb.Fatalf("%d streams are still open after the model was closed", e.OpenStreams())
			}
		}
	})
	return m
}

// TestConformance runs the suite with an engine that computes with the fake backend.
func TestConformance(t *testing.T) {
	backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
		e := remotetest.New(fake.Config{ContextSize: cfg.ContextSize + 1})
		return open(t, e, remote.Config{Load: cfg})
	}, backendtest.Options{Skip: remotetest.NotApplicable(nil)})
}

// The documents have the list of the tests that do not apply.
func TestDocumentsListWhatDoesNotApply(t *testing.T) {
	text, err := os.ReadFile("../../docs/engines.md")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	_, list, ok := strings.Cut(string(text), "| test that does not apply | why |\n")
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		if m := regexp.MustCompile("^\\| `(\\w+)` \\| (.+) \\|$").FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			got[m[1]] = m[2]
		}
	}
	if want := remotetest.NotApplicable(nil); !ok || !maps.Equal(got, want) {
		t.Errorf("docs/engines.md lists %q, the tests skip %q", got, want)
	}
}
