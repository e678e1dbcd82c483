package vllm

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"runner/backend"
	"runner/backend/remote/web"
)

// recorded returns the data of all recorded events.
func recorded(tb testing.TB) (list [][]byte) {
	tb.Helper()
	files, _ := filepath.Glob("testdata/*.txt")
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			tb.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			if event, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				list = append(list, bytes.TrimSpace(event))
			}
		}
	}
	return list
}

// FuzzEvent reads any data as an event. What is accepted must be JSON with the same tokens, and its memory has a limit.
func FuzzEvent(f *testing.F) {
	for _, data := range recorded(f) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var e event
		for range 2 { // the second time with memory that was used
			err := e.read(data)
			var w *web.Error
			if err != nil {
				if !errors.As(err, &w) || w.Kind != web.Malformed {
					t.Fatal(err)
				}
				return
			}
			if len(e.tokens) > mostTokens || e.probed > mostTokens+1 || len(e.finish) > 256 {
				t.Fatal("no limit holds")
			}
			s := stream{engine: &Engine{}, top: 2, event: e}
			if s.check() == nil {
				for i := range e.tokens {
					if best := e.probs[i].best(2); len(best) > 2 {
						t.Fatalf("%d alternatives", len(best))
					}
				}
			}
		}
		var plain struct {
			Choices []struct {
				Tokens []backend.Token `json:"token_ids"`
			} `json:"choices"`
		}
		if !json.Valid(data) {
			t.Fatalf("%q is accepted", data)
		}
		if json.Unmarshal(data, &plain) != nil || len(plain.Choices) != 1 || bytes.Count(data, []byte("token_ids")) != 1 ||
			bytes.ContainsAny(data, `\ABCDEFGHIJKLMNOPQRSTUVWXYZ`) { // encoding/json ignores case and takes the last of two
			return
		}
		if bytes.Count(data, []byte("choices")) == 1 && !slices.Equal(plain.Choices[0].Tokens, e.tokens) {
			t.Fatalf("%q: %v, want %v", data, e.tokens, plain.Choices[0].Tokens)
		}
	})
}

// TestEventsDoNotAllocate reads events with memory that was used before.
func TestEventsDoNotAllocate(t *testing.T) {
	for _, data := range recorded(t) {
		var e event
		if e.read(data) != nil {
			continue
		}
		if n := testing.AllocsPerRun(50, func() { _ = e.read(data) }); n != 0 {
			t.Errorf("%v allocations for %s", n, data)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	data := recorded(b)[0]
	var e event
	b.ReportAllocs()
	for b.Loop() {
		_ = e.read(data)
	}
}
