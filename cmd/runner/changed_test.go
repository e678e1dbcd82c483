package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/models/demo"
)

// weights is the file of a bundled model, which a test overwrites.
type weights struct {
	t         *testing.T
	path      string
	good, bad []byte
}

func newWeights(t *testing.T, source, path string) *weights {
	t.Helper()
	good, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	for i := len(bad) / 4; i < len(bad); i++ {
		bad[i] = 0xff // not a number in any format
	}
	return &weights{t, path, good, bad}
}

// put overwrites the file in place.
func (w *weights) put(content []byte) {
	w.t.Helper()
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.Write(content)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// askSum asks the bundled model for a sum.
func (s *serving) askSum() (status int, body string) {
	s.t.Helper()
	return send(s.t, http.MethodPost, s.url+"/v1/chat/completions", "",
		`{"temperature":0,"reasoning_effort":"low","messages":[{"role":"user","content":"What is 17 + 25?"}]}`)
}

// answers fails the test unless the answer to askSum is right.
func (s *serving) answers() {
	s.t.Helper()
	if status, body := s.askSum(); status != http.StatusOK || !strings.Contains(body, "17 + 25 = 42.") {
		s.t.Fatalf("%d %s\n%s", status, body, s.logged())
	}
}

// until waits until f returns true. what is the error if it never does.
func (s *serving) until(what string, f func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !f(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s:\n%s", what, s.logged())
		}
	}
}

// answersAgain waits until the server answers after its model was damaged.
func (s *serving) answersAgain(what string) {
	s.t.Helper()
	s.until(what, func() bool {
		status, _ := s.askSum()
		return status == http.StatusOK
	})
	s.answers()
}

// TestMappedWeightsAreOverwritten overwrites the file of a mapped model. The server reports the change to clients and
// in /health, and works again when the file is restored. A touched file makes no difference. A server that holds the
// weights in its own memory is not affected.
func TestMappedWeightsAreOverwritten(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	source, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := newWeights(t, source, filepath.Join(t.TempDir(), "demo.gguf"))
	w.put(w.good)
	s := serve(t, "copy="+w.path)
	s.healthy()
	s.answers()
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(w.path, later, later); err != nil { // touched, not changed
		t.Fatal(err)
	}
	w.put(w.bad)
	counts := map[string]int{}
	s.until("no request is told that the model has changed", func() bool {
		status, body := s.askSum()
		counts[fmt.Sprint(status)]++
		if status != http.StatusServiceUnavailable {
			t.Errorf("a damaged model answers with %d %s", status, body)
		}
		return strings.Contains(body, "model_changed")
	})
	if status, body := send(t, http.MethodGet, s.url+"/health", "", ""); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, `"reason":"model_changed"`) {
		t.Errorf("the health is %d %s", status, body)
	}
	t.Logf("answers until it was known: %v", counts)
	w.put(w.good)
	s.answersAgain("the model is not used again")
	if status, body := send(t, http.MethodGet, s.url+"/health", "", ""); status != http.StatusOK {
		t.Errorf("the health is %d %s", status, body)
	}

	own := serve(t, "--no-mmap", "copy="+w.path)
	own.healthy()
	w.put(w.bad)
	for range 4 {
		own.answers()
	}

	// The program wrote the file of the bundled model itself, so it restores it.
	bundled := serve(t)
	bundled.healthy()
	w.path = source
	w.put(w.bad)
	bundled.answersAgain("the bundled model is not unpacked again")
}
