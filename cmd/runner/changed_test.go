package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"runner/models/demo"
)

// TestMappedWeightsAreOverwritten overwrites the file of a mapped model. The server reports the change to clients and
// in /health, and works again when the file is restored. A touched file makes no difference. A server that holds the
// weights in its own memory is not affected.
func TestMappedWeightsAreOverwritten(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	source, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	bad := bytes.Clone(good)
	for i := len(bad) / 4; i < len(bad); i++ {
		bad[i] = 0xff // not a number in any format
	}
	path := filepath.Join(t.TempDir(), "demo.gguf")
	put := func(content []byte) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			_, err = f.Write(content)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ask := func(s *serving) (status int, body string) {
		t.Helper()
		question := `{"temperature":0,"reasoning_effort":"low","messages":[{"role":"user","content":"What is 17 + 25?"}]}`
		res, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader(question))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	health := func(s *serving) (status int, body string) {
		t.Helper()
		res, err := http.Get(s.url + "/health")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	answers := func(s *serving) {
		t.Helper()
		if status, body := ask(s); status != http.StatusOK || !strings.Contains(body, "17 + 25 = 42.") {
			t.Fatalf("%d %s\n%s", status, body, s.logged())
		}
	}
	until := func(s *serving, what string, f func() bool) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); !f(); time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s:\n%s", what, s.logged())
			}
		}
	}

	put(good)
	s := serve(t, "copy="+path)
	s.healthy()
	answers(s)
	later := time.Now().Add(time.Minute)
	if err := os.Chtimes(path, later, later); err != nil { // touched, not changed
		t.Fatal(err)
	}
	put(bad)
	counts := map[string]int{}
	until(s, "no request is told that the model has changed", func() bool {
		status, body := ask(s)
		counts[fmt.Sprint(status)]++
		if status != http.StatusServiceUnavailable {
			t.Errorf("a damaged model answers with %d %s", status, body)
		}
		return strings.Contains(body, "model_changed")
	})
	if status, body := health(s); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, `"reason":"model_changed"`) {
		t.Errorf("the health is %d %s", status, body)
	}
	t.Logf("answers until it was known: %v", counts)
	put(good)
	until(s, "the model is not used again", func() bool {
		status, _ := ask(s)
		return status == http.StatusOK
	})
	answers(s)
	if status, body := health(s); status != http.StatusOK {
		t.Errorf("the health is %d %s", status, body)
	}

	own := serve(t, "--no-mmap", "copy="+path)
	own.healthy()
	put(bad)
	for range 4 {
		answers(own)
	}

	// The program wrote the file of the bundled model itself, so it restores it.
	bundled := serve(t)
	bundled.healthy()
	path = source
	put(bad)
	until(bundled, "the bundled model is not unpacked again", func() bool {
		status, _ := ask(bundled)
		return status == http.StatusOK
	})
	answers(bundled)
}
