package sglang

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/web"
)

var update = flag.Bool("update", false, "write the golden files")

// TestRecordedStreams replays the documented messages of testdata. Comments begin with #; "top 2" says how many
// alternatives were asked for.
func TestRecordedStreams(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			top := -1
			var events strings.Builder
			for line := range strings.Lines(string(data)) {
				if strings.HasPrefix(line, "#") {
					continue
				}
				if _, err := fmt.Sscanf(line, "top %d", &top); err != nil {
					events.WriteString(line)
				}
			}
			got := replay(t, events.String(), top)
			golden := strings.TrimSuffix(name, ".txt") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("%v, got\n%swant\n%s", err, got, want)
			}
		})
	}
}

// replay returns what a stream of events is read as, one token a line, and how it ends.
func replay(t *testing.T, events string, top int) string {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		_, _ = io.WriteString(w, events)
	}))
	defer h.Close()
	c, err := web.New(web.Config{Base: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e := New(c, nil)
	s, err := e.Open(context.Background(), &remote.Request{ID: "a", Tokens: []backend.Token{1, 2, 3}, Most: 100,
		Sampling: backend.Sampling{Temperature: 1, TopLogprobs: top}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var out strings.Builder
	for {
		var x remote.Sample
		err := s.Next(&x)
		var w *web.Error
		switch {
		case errors.Is(err, io.EOF):
			return out.String() + "end\n"
		case errors.As(err, &w):
			fmt.Fprintf(&out, "%v; again %v; too long %v\n", err, w.Temporary(), w.TooLong)
			return out.String()
		case err != nil:
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "%d", x.Token)
		if top >= 0 {
			fmt.Fprintf(&out, " %g %v", x.Logprob, x.Top)
		}
		out.WriteByte('\n')
	}
}
