package llamacpp

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/llamacpp/plan"
	"runner/models"
	"runner/models/installed"
	"runner/models/random"
	"runner/models/random/ggufwriter"
)

// rewritten changes the smallest model, writes it and returns its path.
func rewritten(t *testing.T, change func(p *parts)) string {
	t.Helper()
	raw, err := os.ReadFile(writeModel(t, smallest))
	if err != nil {
		t.Fatal(err)
	}
	p, err := takeApart(raw)
	if err != nil {
		t.Fatal(err)
	}
	change(p)
	out, err := p.put()
	if err != nil {
		t.Fatal(err)
	}
	return written(t, out)
}

func written(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A loaded model has the quantization that a listed one has, which is what its file says of itself, not the format
// with most bytes.
func TestQuantizationIsTheListedOne(t *testing.T) {
	for number, want := range map[uint32]string{15: "Q4_K_M", 38: "MXFP4_MOE", 1: "F16"} {
		path := rewritten(t, func(p *parts) {
			p.metadata = append(p.metadata, ggufwriter.Pair{Key: gguf.FileTypeKey, Value: number})
		})
		listed := models.Unpacked(path).Files
		installed.Describe(&listed)
		m := openModel(t, path, backend.Config{})
		if got := m.Info().Quantization; got != want || listed.Quant != want {
			t.Errorf("file type %d: loaded %q, listed %q (%s), want %q", number, got, listed.Quant, listed.Problem, want)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	raw, err := os.ReadFile(writeModel(t, smallest))
	if err != nil {
		t.Fatal(err)
	}
	arch := func(name string) string {
		return rewritten(t, func(p *parts) {
			for i := range p.metadata {
				p.metadata[i].Key = strings.Replace(p.metadata[i].Key, "gpt-oss.", name+".", 1)
			}
			p.set("general.architecture", name)
		})
	}
	for name, c := range map[string]struct {
		path   string
		cfg    backend.Config
		reason backend.LoadFailure
	}{
		"missing": {filepath.Join(t.TempDir(), "none.gguf"), backend.Config{}, backend.LoadMissing},
		"folder":  {t.TempDir(), backend.Config{}, backend.LoadNotModel},
		"empty":   {written(t, nil), backend.Config{}, backend.LoadNotModel},
		"text": {written(t, []byte("hello, this is no model at all")), backend.Config{},
			backend.LoadNotModel},
		"truncated header":     {written(t, raw[:3000]), backend.Config{}, backend.LoadTruncated},
		"truncated data":       {written(t, raw[:len(raw)-100]), backend.Config{}, backend.LoadTruncated},
		"unknown architecture": {arch("gpt-oss-9"), backend.Config{}, backend.LoadUnknownArchitecture},
		"ollama's layout":      {arch("gptoss"), backend.Config{}, backend.LoadUnknownArchitecture},
		"embedding model":      {arch("bert"), backend.Config{}, backend.LoadUnknownArchitecture},
		"no architecture": {rewritten(t, func(p *parts) { p.metadata = p.metadata[1:] }), backend.Config{},
			backend.LoadCorrupt},
		"no vocabulary": {rewritten(t, func(p *parts) { p.set("tokenizer.ggml.tokens", []string{"a"}) }),
			backend.Config{}, backend.LoadCorrupt},
		"missing tensor": {rewritten(t, func(p *parts) { p.tensors = p.tensors[:len(p.tensors)-1] }), backend.Config{},
			backend.LoadFailed},
		"no room for cache":  {written(t, raw), backend.Config{ContextSize: 1 << 24, Sequences: 128}, backend.LoadTooBig},
		"negative context":   {written(t, raw), backend.Config{ContextSize: -1}, backend.LoadFailed},
		"too many sequences": {written(t, raw), backend.Config{Sequences: 1000}, backend.LoadFailed},
		"cache type":         {written(t, raw), backend.Config{CacheType: "q9"}, backend.LoadFailed},
		"flash attention":    {written(t, raw), backend.Config{FlashAttention: "maybe"}, backend.LoadFailed},
		"quantized, no flash": {written(t, raw), backend.Config{CacheType: "q8_0", FlashAttention: "off"},
			backend.LoadFailed},
		"full window": {written(t, raw), backend.Config{FullWindow: "half"}, backend.LoadFailed},
		"canceled":    {written(t, raw), backend.Config{Progress: func(float32) bool { return false }}, backend.LoadCanceled},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Open(context.Background(), c.path, c.cfg)
			if err == nil {
				m.Close()
				t.Fatal("it loads")
			}
			var e *backend.LoadError
			if !errors.As(err, &e) {
				t.Fatalf("error %v is no LoadError", err)
			}
			if e.Reason != c.reason || e.Path != c.path {
				t.Errorf("reason %d, want %d: %v", e.Reason, c.reason, err)
			}
			if e.Hint() == "" && c.reason != backend.LoadCanceled {
				t.Errorf("no advice: %v", err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has more than one line: %v", err)
			}
			t.Logf("%v; %s", strings.ReplaceAll(err.Error(), filepath.Dir(c.path), "..."), e.Hint())
		})
	}
}

// TestShapesRun: models in the shapes of known ones load and compute, in the formats that they mostly have.
func TestShapesRun(t *testing.T) {
	for _, name := range random.Shapes() {
		t.Run(name, func(t *testing.T) {
			c, _ := random.Shape(name)
			c.Layers, c.Experts, c.Vocabulary = 2, min(c.Experts, 8), 4096
			m, err := Open(t.Context(), writeModel(t, c), backend.Config{ContextSize: 64, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			s, err := m.NewSequence()
			if err != nil {
				t.Fatal(err)
			}
			in := []backend.Input{{Sequence: s, Tokens: []backend.Token{300, 301, 302}, Sampling: &backend.Sampling{},
				Logits: make([]float32, m.Vocab().Len())}}
			if err := m.Step(t.Context(), in, make([]backend.Output, 1)); err != nil {
				t.Fatal(err)
			}
			least, most := slices.Min(in[0].Logits), slices.Max(in[0].Logits)
			if !(most-least > 1 && most-least < 100) {
				t.Errorf("the logits are from %v to %v", least, most)
			}
		})
	}
}

// TestNewer: the errors tell which models a newer engine may run. An engine that was only described gives the same
// errors.
func TestNewer(t *testing.T) {
	qwen := writeModel(t, random.Config{Architecture: "qwen35"})
	gemma := writeModel(t, random.Config{Architecture: "gemma4"})
	tokenizer := rewritten(t, func(p *parts) { p.set("tokenizer.ggml.model", "gemma4") })
	format := rewritten(t, func(p *parts) {
		i := slices.IndexFunc(p.tensors, func(t gguf.Tensor) bool { return len(t.Dims) == 2 && t.Dims[0]%64 == 0 })
		p.tensors[i].Type = 40 // NVFP4
	})
	for _, path := range []string{qwen, gemma, tokenizer, format} {
		if err := Check(path); !errors.Is(err, plan.ErrNewer) {
			t.Errorf("the engine in the program: %v", err)
		}
		if err := CheckFor(path, "/engine", "0.5.0", []string{"gpt-oss", "qwen35", "gemma4"}); err != nil {
			t.Errorf("an engine that knows it: %v", err)
		}
	}
	if err := CheckFor(qwen, "/engine", "0.5.0", []string{"gemma4"}); !errors.Is(err, plan.ErrNewer) {
		t.Errorf("an engine that does not know it: %v", err)
	}
	for _, architecture := range []string{"gptoss", "clip", "bert"} {
		path := rewritten(t, func(p *parts) { p.set("general.architecture", architecture) })
		if err := Check(path); err == nil || errors.Is(err, plan.ErrNewer) {
			t.Errorf("%s: %v", architecture, err)
		}
		if err := CheckFor(path, "/engine", "0.5.0", []string{architecture}); err == nil {
			t.Errorf("%s passes with an engine that lists it", architecture)
		}
	}
}

func TestLoadCanceledByContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	_, err := Open(ctx, writeModel(t, smallest), backend.Config{Progress: func(float32) bool { cancel(); return true }})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := Open(ctx, "x", backend.Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v from an ended context", err)
	}
}

func TestProgress(t *testing.T) {
	var seen []float32
	m := openModel(t, writeModel(t, smallest),
		backend.Config{Progress: func(f float32) bool { seen = append(seen, f); return true }})
	if len(seen) == 0 || seen[len(seen)-1] != 1 || !slices.IsSorted(seen) {
		t.Errorf("progress %v", seen)
	}
	i := m.Info()
	if i.Architecture != "gpt-oss" || i.ContextSize != 256 || i.Sequences != 4 || i.BatchSize != 256 ||
		i.Threads != 1 || len(i.Header) != 64 || i.Digest != "" {
		t.Errorf("info %+v", i)
	}
}

func TestConfigIsHonoured(t *testing.T) {
	path := writeModel(t, random.Config{})
	for _, c := range []backend.Config{
		{NoMemoryMap: true}, {CacheType: "q8_0"}, {CacheType: "q4_0"}, {CacheType: "bf16"},
		{CacheType: "f32", FlashAttention: "on"}, {FlashAttention: "off"},
		{FullWindow: "off"}, {Threads: 2}, {CacheTokens: 300, ContextSize: 200}, {GPULayers: -1}, {GPULayers: 5},
		{BatchSize: 1},
	} {
		m := openModel(t, path, c)
		s, err := m.NewSequence()
		if err != nil {
			t.Fatal(err)
		}
		out := make([]backend.Output, 1)
		for range 3 {
			if err := m.Step(context.Background(), []backend.Input{{Sequence: s, Tokens: []backend.Token{70},
				Sampling: &backend.Sampling{}}}, out); err != nil {
				t.Fatalf("%+v: %v", c, err)
			}
		}
		m.Close()
	}
}

// TestSilent checks that nothing is logged unless asked for, and that messages arrive when they are.
func TestLogger(t *testing.T) {
	path := writeModel(t, smallest)
	var b bytes.Buffer
	SetLogger(slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelInfo})))
	openModel(t, path, backend.Config{}).Close()
	SetLogger(nil)
	heard := b.Len()
	if !strings.Contains(b.String(), "n_ctx") || strings.Contains(b.String(), "level=DEBUG") {
		t.Errorf("at level info the engine said: %.300s", b.String())
	}
	openModel(t, path, backend.Config{}).Close()
	if b.Len() != heard {
		t.Error("the engine still speaks after SetLogger(nil)")
	}
}

func take(t *testing.T, paths ...string) *models.Snapshot {
	t.Helper()
	s, err := models.Take(paths)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// TestOpenFileIsLoaded: a model is loaded from the file that was opened, whatever has its name by then. Its errors and
// its description have that name.
func TestOpenFileIsLoaded(t *testing.T) {
	path := writeModel(t, smallest)
	want := openModel(t, path, backend.Config{}).Info()
	files := take(t, path)
	switch held := files.Held() != nil; {
	case runtime.GOOS != "linux":
		t.Skip("files are held open on Linux only")
	case !held:
		t.Fatal("the file is not held")
	}
	empty := path + ".new"
	if err := errors.Join(os.WriteFile(empty, nil, 0o600), os.Rename(empty, path)); err != nil {
		t.Fatal(err)
	}
	got := openModel(t, path, backend.Config{Files: files}).Info()
	if got.Header != want.Header || got.Name != want.Name || got.Path != path {
		t.Errorf("%+v, want %+v", got, want)
	}
	var e *backend.LoadError
	_, err := Open(context.Background(), path, backend.Config{Files: take(t, path)})
	if !errors.As(err, &e) || e.Path != path || strings.Contains(err.Error(), "/proc") {
		t.Errorf("error %v", err)
	}
}

func TestParts(t *testing.T) {
	raw, err := os.ReadFile(writeModel(t, smallest))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	part := func(no int, from, to int, metadata bool) {
		p, err := takeApart(raw)
		if err != nil {
			t.Fatal(err)
		}
		if !metadata {
			p.metadata = nil
		}
		p.metadata = append(p.metadata, ggufwriter.Pair{Key: "split.no", Value: uint16(no)},
			ggufwriter.Pair{Key: "split.count", Value: uint16(2)},
			ggufwriter.Pair{Key: "split.tensors.count", Value: int32(len(p.tensors))})
		skip := int64(0)
		for i, x := range p.tensors {
			if i < from {
				skip += x.Size
			}
		}
		p.tensors, p.data = p.tensors[from:min(to, len(p.tensors))], p.data[skip:]
		out, err := p.put()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "m-0000"+string(rune('1'+no))+"-of-00002.gguf"), out, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	part(0, 0, 20, true)
	first := filepath.Join(dir, "m-00001-of-00002.gguf")
	var e *backend.LoadError
	if _, err := Open(context.Background(), first, backend.Config{}); !errors.As(err, &e) ||
		e.Reason != backend.LoadMissing {
		t.Errorf("without the second part: %v", err)
	}
	part(1, 20, 1000, false)
	openModel(t, first, backend.Config{}).Close()

	// Its files are opened by their names. Whether they were changed before they were read, or after that, is not known.
	second := filepath.Join(dir, "m-00002-of-00002.gguf")
	files := take(t, first, second)
	openModel(t, first, backend.Config{Files: files}).Close()
	_, err = Open(context.Background(), first, backend.Config{Files: files, Progress: func(float32) bool {
		if err := os.Chtimes(second, time.Time{}, time.Now().Add(time.Minute)); err != nil {
			t.Error(err)
		}
		return true
	}})
	if !errors.As(err, &e) || !errors.Is(err, models.ErrChanged) || !strings.Contains(e.Detail, "changed") {
		t.Errorf("a part that changes while the model is loaded: %v", err)
	}
	_, err = Open(context.Background(), filepath.Join(dir, "m-00002-of-00002.gguf"), backend.Config{})
	if !errors.As(err, &e) {
		t.Errorf("the second part alone: %v", err)
	}
}

func FuzzOpen(f *testing.F) {
	raw, err := os.ReadFile(writeModel(f, smallest))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	for n := range uint64(40) {
		f.Add(mutated(raw, n))
	}
	path := filepath.Join(f.TempDir(), "fuzz.gguf")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := try(path, map[string]int{}); err != nil {
			t.Error(err)
		}
	})
}
