package folder

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"runner/backend"
	"runner/backend/mlx/fromgguf"
)

// demo makes a folder of the bundled model without weights, in which the given files have other contents. A file with
// no contents is removed.
func demo(t *testing.T, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "demo")
	if err := fromgguf.Convert("../../../models/demo/demo.gguf", path); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(path, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600)
		if text == "" {
			err = os.Remove(filepath.Join(path, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestOnlyTheTokenizerIsNeeded reads a folder that has nothing but tokenizer.json.
func TestOnlyTheTokenizerIsNeeded(t *testing.T) {
	path := demo(t, map[string]string{"config.json": "", "generation_config.json": "", "tokenizer_config.json": "",
		"chat_template.jinja": ""})
	f, err := Read(path)
	if err != nil || f.Name != "demo" || f.Type != "" || f.Vocab.Len() != 1536 || f.ChatTemplate != "" {
		t.Errorf("%+v, %v", f, err)
	}
	if err := os.Remove(filepath.Join(path, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	var missing *backend.LoadError
	if _, err := Read(path); !errors.As(err, &missing) || missing.Reason != backend.LoadMissing {
		t.Errorf("without tokenizer.json: %v", err)
	}
}

// TestPaddedVocabulary gives the model more logits than the tokenizer has tokens.
func TestPaddedVocabulary(t *testing.T) {
	f, err := Read(demo(t, map[string]string{"config.json": `{"model_type": "gpt_oss", "vocab_size": 1600}`}))
	if err != nil || f.Architecture != "gpt-oss" || f.Vocab.Len() != 1600 || f.Vocab.Kind(1599) != backend.Unused ||
		f.Tokenizer.Vocab().Len() != 1536 {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestTemplatesInConfig(t *testing.T) {
	for in, want := range map[string]string{`"one"`: "one", `null`: "",
		`[{"name":"tool_use","template":"a"},{"name":"default","template":"b"}]`: "b"} {
		f, err := Read(demo(t, map[string]string{"chat_template.jinja": "",
			"tokenizer_config.json": `{"eos_token":{"content":"<|return|>"},"chat_template":` + in + `}`}))
		if err != nil || f.ChatTemplate != want {
			t.Errorf("%s: template %q, %v", in, f.ChatTemplate, err)
		}
	}
}
