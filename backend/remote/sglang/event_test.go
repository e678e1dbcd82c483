package sglang

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

// FuzzEvent reads any data as an event. What is accepted must be JSON with the same tokens.
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
			for i := range len(e.tops) + 2 {
				if len(e.alternatives(i)) > mostTop {
					t.Fatal("too many alternatives")
				}
			}
			for _, top := range []int{-1, 0, 2} {
				s := stream{engine: &Engine{}, most: 1 << 30, top: top, event: e}
				if s.event.total < 0 {
					s.event.total = len(e.tokens)
				}
				_ = s.check()
			}
		}
		if !json.Valid(data) {
			t.Fatalf("%q is accepted", data)
		}
		var plain struct {
			Tokens []backend.Token `json:"output_ids"`
		}
		if json.Unmarshal(data, &plain) != nil || bytes.Count(data, []byte("output_ids")) != 1 ||
			bytes.ContainsAny(data, `\ABCDEFGHIJKLMNOPQRSTUVWXYZ`) { // encoding/json ignores case and takes the last of two
			return
		}
		if !slices.Equal(plain.Tokens, e.tokens) {
			t.Fatalf("%q: %v, want %v", data, e.tokens, plain.Tokens)
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

func TestSalted(t *testing.T) {
	for version, want := range map[string]bool{"0.5.11": true, "0.5.23": true, "0.6.0rc1": true, "1.0": true,
		"0.5.11.post1": true, "0.5.10": false, "0.5.10.post1": false,
		"0.5.5": false, "0.4.10": false, "": false, "dev": false, "0.5": false} {
		if salted(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}
