package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"runner/backend/gguf"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// twins writes two models with the same header and other weights, of which only the first is at path. The other's path
// is returned.
func twins(t *testing.T, path string, c random.Config) (other string) {
	t.Helper()
	other = path + ".other"
	if err := randomtest.WriteFile(path, c); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The halves of the largest tensor change places, so that tokens have the embeddings of others.
	large := slices.MaxFunc(f.Tensors, func(a, b gguf.Tensor) int { return cmp.Compare(a.Size, b.Size) })
	data := b[f.DataOffset+large.Offset:][:large.Size]
	copy(data, slices.Concat(data[large.Size/2:], data[:large.Size/2]))
	if err := os.WriteFile(other, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if g, err := gguf.Open(other); err != nil || g.Digest != f.Digest {
		t.Fatalf("the models differ in their headers, %v", err)
	}
	return other
}

// swap exchanges two files by renaming them.
func swap(t *testing.T, a, b string) {
	t.Helper()
	if err := errors.Join(os.Rename(a, a+".gone"), os.Rename(b, a), os.Rename(a+".gone", b)); err != nil {
		t.Fatal(err)
	}
}

// written is what a model writes, and which weights the server names for it.
type written struct{ text, fingerprint string }

// writes lets a model go on with a text. The code of the error is empty if there is none.
func (s *serving) writes(model string) (out written, code string) {
	s.t.Helper()
	status, body := send(s.t, http.MethodPost, s.url+"/v1/completions", "", `{"model":"`+model+
		`","prompt":"What is 17","max_tokens":12,"temperature":0}`)
	var answer struct {
		Fingerprint string `json:"system_fingerprint"`
		Choices     []struct{ Text string }
		Error       struct{ Code string }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		s.t.Fatalf("%v: %s", err, body)
	}
	if status != http.StatusOK {
		return written{}, answer.Error.Code
	}
	return written{answer.Choices[0].Text, answer.Fingerprint}, ""
}

// mustWrite is writes for a model that works.
func (s *serving) mustWrite(model string) written {
	s.t.Helper()
	out, code := s.writes(model)
	if code != "" {
		s.t.Fatalf("%s: %s\n%s", model, code, s.logged())
	}
	return out
}

// unload takes a model out of memory.
func (s *serving) unload(model string) {
	s.t.Helper()
	if status, body := send(s.t, http.MethodPost, s.url+"/api/generate", "",
		`{"model":"`+model+`","keep_alive":0}`); status != http.StatusOK {
		s.t.Fatalf("%d %s", status, body)
	}
}

// killEngines kills the processes of all engines.
func (s *serving) killEngines() {
	s.t.Helper()
	for _, pid := range s.engines() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			s.t.Fatal(err)
		}
		dies(s.t, pid)
	}
}

// TestModelFileIsReplaced replaces a model's file by one with the same header and other weights. The model goes on with
// its own weights, also after a crash. It is not loaded again from the other file, until the server is started again:
// then it is another model.
func TestModelFileIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	other := twins(t, path, random.Config{Layers: 2})
	s := serve(t, "--isolate", "on", "demo", "m="+path)
	s.healthy()
	first := s.mustWrite("m")
	if !strings.HasPrefix(first.fingerprint, "fp_") {
		t.Fatalf("the fingerprint is %q", first.fingerprint)
	}
	swap(t, path, other)
	s.killEngines()
	if got := s.mustWrite("m"); got != first {
		t.Errorf("after a crash it writes %q, before %q", got, first)
	}
	s.unload("m")
	for range 2 {
		if _, code := s.writes("m"); code != "model_changed" {
			t.Errorf("the code is %q", code)
		}
	}
	if status, body := send(t, http.MethodGet, s.url+"/health", "", ""); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, `"reason":"model_changed"`) {
		t.Errorf("the health is %d %s", status, body)
	}
	swap(t, path, other)
	s.until("the model is not used again", func() bool {
		got, code := s.writes("m")
		if code == "" && got != first {
			t.Errorf("it writes %q once its file is back, before %q", got, first)
		}
		return code == ""
	})

	swap(t, path, other)
	s = serve(t, "demo", "m="+path)
	s.healthy()
	second := s.mustWrite("m")
	if second.text == first.text || second.fingerprint == first.fingerprint || second.fingerprint == "" {
		t.Errorf("another model writes %q, the first %q", second, first)
	}
	swap(t, path, other)
	if got := s.mustWrite("m"); got != second {
		t.Errorf("it writes %q after its file was replaced, before %q", got, second)
	}
}

// TestReplacedFileOfALargeModel replaces a file whose digest takes a while. The fingerprint comes later, is that of the
// file that was opened, and never changes.
func TestReplacedFileOfALargeModel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	other := twins(t, path, random.Config{Layers: 2, Width: 512, Vocabulary: 150_000}) // 160 MB
	s := serve(t, "--isolate", "on", "demo", "m="+path)
	s.healthy()
	first := s.mustWrite("m")
	swap(t, path, other)
	seen := map[string]bool{first.fingerprint: true}
	s.until("there is no fingerprint", func() bool {
		got := s.mustWrite("m")
		if got.text != first.text {
			t.Errorf("it writes %q, before %q", got.text, first.text)
		}
		first.fingerprint = got.fingerprint
		seen[got.fingerprint] = true
		return got.fingerprint != ""
	})
	s.killEngines()
	if got := s.mustWrite("m"); got != first {
		t.Errorf("after a crash it writes %q, before %q", got, first)
	}
	delete(seen, "")
	if len(seen) != 1 {
		t.Errorf("the fingerprints are %v", seen)
	}
	s.unload("m")
	if _, code := s.writes("m"); code != "model_changed" {
		t.Errorf("the code is %q", code)
	}
	swap(t, path, other)
	again := serve(t, "demo", "m="+path)
	again.healthy()
	again.until("the fingerprint is another one after the server was started again", func() bool {
		got := again.mustWrite("m")
		if got.text != first.text || got.fingerprint != "" && got.fingerprint != first.fingerprint {
			t.Errorf("it writes %q, before %q", got, first)
		}
		return got.fingerprint != ""
	})
}

// TestModelFileIsOverwrittenBeforeACrash writes other weights into a model's file and sets its time back. What the
// process reads then is not the model that the server names.
func TestModelFileIsOverwrittenBeforeACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	other := twins(t, path, random.Config{Layers: 2})
	s := serve(t, "--isolate", "on", "--no-mmap", "demo", "m="+path)
	s.healthy()
	first := s.mustWrite("m")
	b, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	was, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	w := weights{t: t, path: path}
	w.put(b)
	if err := os.Chtimes(path, was.ModTime(), was.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got := s.mustWrite("m"); got != first {
		t.Errorf("a copy in memory writes %q, before %q", got, first)
	}
	s.killEngines()
	s.until("the change is not noticed", func() bool {
		got, code := s.writes("m")
		if code == "" && got != first {
			t.Errorf("other weights write %q, the first %q", got, first)
		}
		return code == "model_changed"
	})
}
