package llamacpp

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/llamacpp/plan"
	"runner/models/random"
	"runner/models/random/ggufwriter"
)

// named writes a small model whose pre-tokenizer has the name; "" leaves the key out. It has a token of two digits.
func named(t testing.TB, name string) string {
	return vocabularyOf(t, 512, func(p *parts, tokens []string, _ []int32) {
		tokens[len(tokens)-17] = "12"
		p.set("tokenizer.ggml.merges", []string{"1 2"})
		p.set("tokenizer.ggml.pre", name)
		if name == "" {
			p.metadata = slices.DeleteFunc(p.metadata, func(kv ggufwriter.Pair) bool { return kv.Key == "tokenizer.ggml.pre" })
		}
	})
}

func TestPretokenizerOfTheFile(t *testing.T) {
	e, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	checkPretokenizers(t, e)
	if err := e.Check(named(t, "warp-9")); !errors.Is(err, plan.ErrPretokenizer) || !errors.Is(err, plan.ErrNewer) {
		t.Errorf("checked without loading: %v", err)
	}
}

// TestFolderPretokenizer checks that an engine of a folder decides by its own list: it knows a name that came after the
// compiled-in engine.
func TestFolderPretokenizer(t *testing.T) {
	e := folderEngine(t)
	checkPretokenizers(t, e)
	path := named(t, "joyai-llm")
	if err := builtin.Check(path); !errors.Is(err, plan.ErrPretokenizer) {
		t.Errorf("the compiled-in engine: %v", err)
	}
	m, err := e.Open(t.Context(), path, backend.Config{ContextSize: 64, Sequences: 1, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil || m.Info().DefaultSplit != "" {
		t.Errorf("a name that only the newer engine knows: %q, %v", m.Info().DefaultSplit, err)
	}
}

func checkPretokenizers(t *testing.T, e *Engine) {
	t.Helper()
	open := func(path string, any bool) (backend.Model, error) {
		return e.Open(t.Context(), path, backend.Config{ContextSize: 64, Sequences: 1, Threads: 1, AnyPretokenizer: any})
	}
	text := "It's 12345 o'clock.\nДа! 中文"
	tokens := map[string][]backend.Token{}
	for _, c := range []struct {
		what, path, split string
		any               bool
	}{
		{"known", named(t, "qwen2"), "", false}, {"known and allowed", named(t, "qwen2"), "", true},
		{"default", named(t, "default"), "", false},
		{"missing", named(t, ""), "does not name", false},
		{"unknown", named(t, "warp-9"), `does not know the model's pre-tokenizer "warp-9"`, true},
		{"pieces", sentencePieces(t, false), "", false},
		{"pieces with any name", vocabularyOf(t, 512, func(p *parts, _ []string, _ []int32) {
			p.set("tokenizer.ggml.model", "llama")
			p.set("tokenizer.ggml.pre", "warp-9")
		}), "", false},
	} {
		m, err := open(c.path, c.any)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if got := m.Info().DefaultSplit; (got == "") != (c.split == "") || !strings.Contains(got, c.split) {
			t.Errorf("%s: %q, want %q", c.what, got, c.split)
		}
		if tokens[c.what], err = m.Tokenize(nil, text); err != nil && !strings.HasPrefix(c.what, "pieces") {
			t.Errorf("%s: %v", c.what, err)
		}
		m.Close()
	}
	if !slices.Equal(tokens["unknown"], tokens["default"]) || !slices.Equal(tokens["missing"], tokens["default"]) {
		t.Errorf("an unknown name gives %v, a missing one %v, the default rule %v", tokens["unknown"], tokens["missing"],
			tokens["default"])
	}
	if slices.Equal(tokens["known"], tokens["default"]) || !slices.Equal(tokens["known"], tokens["known and allowed"]) {
		t.Errorf("a known name gives %v, with the flag %v, the default rule %v", tokens["known"],
			tokens["known and allowed"], tokens["default"])
	}
	m, err := open(named(t, "warp-9"), false)
	var load *backend.LoadError
	if m != nil || !errors.As(err, &load) || load.Reason != backend.LoadUnknownPretokenizer ||
		!errors.Is(err, plan.ErrPretokenizer) || !strings.Contains(load.Hint(), "--any-pretokenizer") {
		t.Errorf("an unknown name: %v", err)
	}
	if e.facts.Folder != "" {
		m, err := open(writeModel(t, random.Config{Architecture: "gemma4", Layers: 4, Vocabulary: 512}), false)
		if err != nil || m.Info().DefaultSplit != "" {
			t.Errorf("gemma4, whose pre-tokenizer has no name: %v", err)
		}
		if m != nil {
			m.Close()
		}
	}
}
