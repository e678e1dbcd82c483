package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"runner/backend/gguf"
	"runner/models/random/ggufwriter"
	"runner/models/roofline"
)

// sparseModel writes the header of a model with 2 of 8 experts at work and room for its weights, 640 MiB. A token reads
// 128 MiB of experts and as much of the rest.
func sparseModel(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const rows = 16 << 10 // of 4 KiB
	w, err := ggufwriter.New(f, []ggufwriter.Pair{{Key: "general.architecture", Value: "moe"},
		{Key: "moe.expert_count", Value: uint32(8)}, {Key: "moe.expert_used_count", Value: uint32(2)}},
		[]gguf.Tensor{{Name: "blk.0.ffn_up_exps.weight", Type: gguf.F32, Dims: []int64{1024, rows, 8}},
			{Name: "output.weight", Type: gguf.F32, Dims: []int64{1024, 2 * rows}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 8<<20)); err != nil { // more than it buffers
		t.Fatal(err)
	}
	if err := f.Truncate(700 << 20); err != nil {
		t.Fatal(err)
	}
}

// inEmptyHome has the test find no models, and returns the Hugging Face cache.
func inEmptyHome(t *testing.T) string {
	home := t.TempDir()
	for _, v := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("OLLAMA_MODELS", home)
	return filepath.Join(home, ".cache", "huggingface", "hub")
}

// What a model's file says of itself forges no line of list, show and doctor, and steers no terminal that shows them.
func TestHostileModel(t *testing.T) {
	inEmptyHome(t)
	path := filepath.Join(t.TempDir(), "odd.gguf")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := ggufwriter.New(f, []ggufwriter.Pair{{Key: "general.architecture", Value: "x\nruns  yes\x1b[31m"}},
		[]gguf.Tensor{{Name: "a", Type: gguf.F32, Dims: []int64{8}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 32)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	shown, err := exec.Command("runner", "show", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, shown)
	}
	var out strings.Builder
	out.Write(shown)
	r := &report{}
	r.ok("model", "%s", "x\nok  steps\x1b[31m")
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	if text := out.String(); strings.Contains(text, "\x1b") || strings.Contains(text, "\nok  steps") ||
		strings.Count(text, "\nruns ") != 1 || !strings.Contains(text, "completion, tools") {
		t.Errorf("%q", text)
	}
}

// A list shows how fast a model should be and what is half here, and so does its JSON. The estimate counts the experts
// that work on a token alone, and the memory is measured once.
func TestListedSpeed(t *testing.T) {
	repo := filepath.Join(inEmptyHome(t), "models--org--Moe-GGUF")
	sparseModel(t, filepath.Join(repo, "snapshots", "c1", "moe-F32.gguf"))
	etag := strings.Repeat("a", 64)
	part := filepath.Join(repo, "blobs", etag+".free-0-x.partial")
	for name, text := range map[string]string{"name": "moe-Q8_0.gguf", "journal": fmt.Sprintf(
		"runner-partial 1 %s 13107200 4194304\n0 4194304 %s\n", etag, strings.Repeat("b", 64))} {
		if err := os.MkdirAll(part, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(part, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a := scripted()
	measured := 0
	a.memorySpeed = &roofline.Store{Path: filepath.Join(t.TempDir(), "b"), Machine: "m", Measure: func() (float64, bool) {
		measured++
		return 256 << 20 * 12, true
	}}
	all := a.list(t.Context())
	if all = append(all, a.list(t.Context())...); len(all) != 4 || measured != 1 {
		t.Fatalf("%+v, measured %d times", all, measured)
	}
	text, err := json.Marshal(all[:2])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"estimated_tokens_per_second":12,`, `"bytes_per_token":268435456,`, `"runs":true`,
		`"name":"org/Moe-GGUF:Q8_0"`, `"bytes":13107200,`, `"unfinished":true,"bytes_here":4194304`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	narrow := stacked(all, 60)
	for line := range strings.Lines(narrow) {
		if uniseg.StringWidth(strings.TrimSpace(line)) > 60 {
			t.Errorf("wider than 60 columns: %s", line)
		}
	}
	for _, want := range []string{"~12 tok/s", "4.0 MiB of 12.5 MiB here, unfinished;",
		"runner pull org/Moe-GGUF:Q8_0"} {
		if !strings.Contains(strings.Join(strings.Fields(narrow), " "), want) {
			t.Errorf("no %q in:\n%s", want, narrow)
		}
	}
}

// A model that does not fit into the memory runs slowly, and has no estimate.
func TestListedWithoutMemory(t *testing.T) {
	sparseModel(t, filepath.Join(inEmptyHome(t), "models--org--Moe-GGUF", "snapshots", "c1", "moe-F32.gguf"))
	a := scripted()
	a.engine.Memory = func() (available, addresses int64) { return 512 << 20, 0 }
	all := a.list(t.Context())
	if len(all) != 1 || !all[0].Runs || all[0].Speed != 0 ||
		all[0].runs() != "slowly: it needs about 1.8 GiB of memory, and 512.0 MiB are available" {
		t.Errorf("%+v", all)
	}
	if text := stacked(all, 60); !strings.Contains(text, "runs slowly: it needs about 1.8 GiB") {
		t.Errorf("%s", text)
	}
}

// An estimate shows no digits that it cannot know.
func TestSpeedIsAnEstimate(t *testing.T) {
	for perSecond, want := range map[float64]string{0: "", 1.234: "~1.2 tok/s", 12.34: "~12 tok/s", 237: "~240 tok/s"} {
		if got := speed(perSecond); got != want {
			t.Errorf("%v is %q, want %q", perSecond, got, want)
		}
	}
}
