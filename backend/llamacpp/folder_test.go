package llamacpp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/llamacpp/plan"
	"runner/models/demo"
	"runner/models/random"
	"runner/testenv"
)

// engines is where scripts/engines.sh installs engines and headers for tests.
var engines = filepath.Join("..", "..", ".cache", "engines")

// folderEngine returns an engine in shared libraries, or skips the test if none is installed.
func folderEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := OpenFolder(testenv.EngineFolder(t))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestFolderConformance runs the suite on an engine in shared libraries, as TestConformance does on the compiled-in
// one.
func TestFolderConformance(t *testing.T) {
	e := folderEngine(t)
	path := writeModel(t, steady(random.Config{Seed: 1, Precise: true, Layers: 2}))
	for _, s := range suites() {
		t.Run(s.name, func(t *testing.T) {
			if s.name == "FullWindow" {
				testenv.NeedLong(t, "the compiled-in engine has this suite, too")
			}
			conform(t, e, path, s.base, s.options)
		})
	}
}

// conform runs the suite on an engine and a model, on one thread.
func conform(t *testing.T, e *Engine, path string, base backend.Config, o backendtest.Options) {
	backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
		cfg.FullWindow, cfg.CacheType, cfg.FlashAttention, cfg.Threads = base.FullWindow, base.CacheType,
			base.FlashAttention, 1
		cfg.GPULayers = layersOnGPU()
		m, err := e.Open(t.Context(), path, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return usesGPU(t, m)
	}, o)
}

// question is a question to the bundled model in its format, with what names its parts.
func question(m backend.Model, text string) ([]backend.Token, error) {
	parts := []string{"<|start|>", "system", "<|message|>", "Reasoning: medium", "<|end|>",
		"<|start|>", "user", "<|message|>", text, "<|end|>", "<|start|>", "assistant"}
	var tokens []backend.Token
	for _, p := range parts {
		if id, ok := m.Vocab().Special(p); ok {
			tokens = append(tokens, id)
			continue
		}
		var err error
		if tokens, err = m.Tokenize(tokens, p); err != nil {
			return nil, err
		}
	}
	return tokens, nil
}

// choice is a token and how much more likely it was, in nats, than the next.
type choice struct {
	token  backend.Token
	margin float32
}

// answer generates at temperature 0 until the model ends.
func answer(t testing.TB, m backend.Model, prompt []backend.Token, most int) []choice {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var list []choice
	out := make([]backend.Output, 1)
	for feed := prompt; len(list) < most; {
		in := []backend.Input{{Sequence: s, Tokens: feed, Sampling: &backend.Sampling{TopLogprobs: 2}}}
		if err := m.Step(t.Context(), in, out); err != nil {
			t.Fatal(err)
		}
		list = append(list, choice{out[0].Token, out[0].Top[0].Logprob - out[0].Top[1].Logprob})
		if m.Vocab().EndsGeneration(out[0].Token) {
			break
		}
		feed = []backend.Token{out[0].Token}
	}
	return list
}

// TestFolderAnswersAlike compares the bundled model's answers at temperature 0 with the compiled-in engine's. The
// kernels round differently, so an answer may change where the two best tokens are about as likely.
func TestFolderAnswersAlike(t *testing.T) {
	e := folderEngine(t)
	const count, near = 100, 0.05
	path, err := demo.Path(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg := backend.Config{ContextSize: 1024, Sequences: 1}
	own := openModel(t, path, cfg)
	cfg.Threads = 1 // beside other tests, two would mostly wait for each other
	other, err := e.Open(t.Context(), path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	r := rand.New(rand.NewPCG(1, 1))
	different := 0
	for range count {
		text := fmt.Sprintf("What is %d %s %d?", r.IntN(1000), []string{"+", "-"}[r.IntN(2)], r.IntN(1000))
		prompt, err := question(own, text)
		if err != nil {
			t.Fatal(err)
		}
		want, got := answer(t, own, prompt, 400), answer(t, other, prompt, 400)
		for i := range want {
			if i < len(got) && got[i].token == want[i].token {
				continue
			}
			different++
			t.Logf("%s: after %d tokens the margin is %.4f nat", text, i, want[i].margin)
			if want[i].margin > near {
				t.Errorf("%s: token %d differs, although the best is %.4f nat ahead", text, i, want[i].margin)
			}
			break
		}
	}
	t.Logf("%d of %d answers differ", different, count)
	if different > count/50 {
		t.Errorf("%d of %d answers differ", different, count)
	}
}

// TestFolderLoadErrors checks that the engine's own reason for refusing a file reaches the error and its messages the
// log.
func TestFolderLoadErrors(t *testing.T) {
	e := folderEngine(t)
	path := writeModel(t, random.Config{Architecture: "qwen35"})
	replace(t, path, "qwen35.ssm.state_size", "qwen35.ssm.state_sort")
	var log bytes.Buffer
	SetLogger(slog.New(slog.NewTextHandler(&log, nil)))
	_, err := e.Open(t.Context(), path, backend.Config{})
	SetLogger(nil)
	var load *backend.LoadError
	if !errors.As(err, &load) || !strings.Contains(load.Detail, "qwen35.ssm.state_size") {
		t.Errorf("%v", err)
	}
	if !strings.Contains(log.String(), "qwen35.ssm.state_size") {
		t.Errorf("the log has %q", log.String())
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Open(canceled, path, backend.Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
	good := writeModel(t, random.Config{Architecture: "qwen35"})
	_, err = e.Open(t.Context(), good, backend.Config{Progress: func(float32) bool { return false }})
	if !errors.As(err, &load) || load.Reason != backend.LoadCanceled {
		t.Errorf("stopped by its progress: %v", err)
	}
	draft := writeModel(t, random.Config{Architecture: "gemma4"})
	replace(t, draft, "gemma4", "dflash")
	if err := e.Check(draft); !errors.As(err, &load) || load.Reason != backend.LoadUnknownArchitecture {
		t.Errorf("an architecture that does not generate text: %v", err)
	}
}

// TestFolderAssertions checks that an assertion of the libraries becomes an error and does not end the process.
func TestFolderAssertions(t *testing.T) {
	e := folderEngine(t)
	path := writeModel(t, random.Config{Architecture: "qwen35"})
	sections := "\x08\x00\x00\x00\x04\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00" // rope.dimension_sections
	replace(t, path, sections, strings.Repeat("\x00", len(sections)))
	m, err := e.Open(t.Context(), path, backend.Config{Threads: 1, ContextSize: 256})
	if err == nil {
		defer m.Close()
		s, sErr := m.NewSequence()
		if sErr != nil {
			t.Fatal(sErr)
		}
		err = m.Step(t.Context(), []backend.Input{{Sequence: s, Tokens: []backend.Token{1}}}, make([]backend.Output, 1))
	}
	if err == nil || !strings.Contains(err.Error(), "GGML_ASSERT") {
		t.Errorf("the error is %v", err)
	}
}

// replace replaces the first occurrence of a text in a file by one of the same length.
func replace(t *testing.T, path, old, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte(old), []byte(text), 1), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFolderArchitectures runs the suite on architectures that the compiled-in engine lacks. All weights are F32: with
// Q8_0 the engine's kernels round activations in a way that depends on the batch, which moves logits by up to 0.07
// deviations, as much as a wrong token does that is far back.
func TestFolderArchitectures(t *testing.T) {
	e := folderEngine(t)
	exact := backend.Config{FullWindow: "on", CacheType: "f32", FlashAttention: "off"}
	small := exact
	small.FullWindow = "off"
	fine, coarse := rounding(true), rounding(false)
	for _, c := range []struct {
		name, architecture string
		base               backend.Config
		options            backendtest.Options
	}{
		{"Recurrent", "qwen35", exact, fine},
		{"RecurrentDefault", "qwen35", backend.Config{}, coarse},
		{"FullWindow", "gemma4", exact, fine},
		{"SmallWindow", "gemma4", small, fine},
		{"WindowDefault", "gemma4", backend.Config{}, coarse},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := writeModel(t, random.Config{Architecture: c.architecture, Seed: 1, Precise: true})
			if err := Check(path); err == nil {
				t.Errorf("the compiled-in engine accepts %s too", c.architecture)
			}
			conform(t, e, path, c.base, c.options)
		})
	}
}

// TestFolderArchitectureList compares the lists of architectures with the source of each version. The list of those
// that do not generate text may name none that the newest version lacks.
func TestFolderArchitectureList(t *testing.T) {
	known := map[string]bool{}
	for _, v := range []string{"0.5", "0.6"} {
		src, err := os.ReadFile(filepath.Join(engines, "headers-"+v, "src", "llama-arch.cpp"))
		if err != nil {
			t.Skip("the sources of llama.cpp ", v, " are not installed; `make engines` installs them where it can")
		}
		names := sourceArchitectures(t, string(src))
		maps.Copy(known, names)
		for name := range builtin.facts.Generative {
			if !names[name] && name != "solar" {
				t.Errorf("llama.cpp %s lacks %s, which the compiled-in engine has", v, name)
			}
		}
		e := folderEngine(t)
		if !strings.HasPrefix(e.Version(), v+".") {
			continue
		}
		for name := range names {
			if e.facts.Generative[name] == e.facts.Others[name] && name != "(unknown)" {
				t.Errorf("%q is in %v lists", name, e.facts.Generative[name])
			}
		}
		for _, name := range e.Architectures() {
			if !names[name] {
				t.Errorf("%q is not in the engine's table", name)
			}
		}
	}
	for name := range plan.InFolder("", "", nil).Others {
		if !known[name] && !builtin.facts.Others[name] {
			t.Errorf("no version has %q", name)
		}
	}
}
