package remote_test

import (
	"context"
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
	}, backendtest.Options{Skip: map[string]string{
		"CacheFull": "the sequences share no cache on this side",
		"Penalties": "engines have no equal for the repetition penalty; TestPenalties has the others",
	}})
}
