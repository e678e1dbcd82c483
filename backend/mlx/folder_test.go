package mlx

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/gguf"
	"runner/backend/mlx/fromgguf"
)

const demoFile = "../../models/demo/demo.gguf"

// demoFolder makes the bundled model in MLX's format.
func demoFolder(t testing.TB) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "demo")
	if err := fromgguf.Convert(demoFile, to); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestReadFolder(t *testing.T) {
	path := demoFolder(t)
	f, err := ReadFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Name != "demo" || f.Architecture != "gpt-oss" || f.TrainedContext != 8192 || f.Width != 192 ||
		len(f.Digest) != 64 ||
		!strings.Contains(f.ChatTemplate, "<|start|>") || f.Vocab.Len() != 1536 {
		t.Errorf("%+v", f)
	}
	for name, ends := range map[string]bool{"<|return|>": true, "<|call|>": true, "<|end|>": false, "<|channel|>": false} {
		id, ok := f.Vocab.Special(name)
		if !ok || f.Vocab.Kind(id) != backend.Control || f.Vocab.EndsGeneration(id) != ends {
			t.Errorf("%s is token %d of kind %d and ends generation: %v", name, id, f.Vocab.Kind(id),
				f.Vocab.EndsGeneration(id))
		}
	}
	const text = "What is 17 + 25?"
	ids, err := f.Tokenize(nil, text)
	back := ""
	for _, id := range ids {
		back += f.Vocab.Piece(id)
	}
	if err != nil || back != text {
		t.Errorf("%q comes back as %q, %v", text, back, err)
	}
}

func edit(t *testing.T, path, name, old, replacement string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path, name))
	if err != nil || !strings.Contains(string(b), old) {
		t.Fatalf("%s has no %q: %v", name, old, err)
	}
	write(t, path, name, strings.Replace(string(b), old, replacement, 1))
}

func write(t *testing.T, path, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(path, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedFolders(t *testing.T) {
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.Remove(filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut := func(name string, to int64) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.Truncate(filepath.Join(path, name), to); err != nil {
				t.Fatal(err)
			}
		}
	}
	set := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, path string) { write(t, path, name, text) }
	}
	change := func(name, old, replacement string) func(*testing.T, string) {
		return func(t *testing.T, path string) { edit(t, path, name, old, replacement) }
	}
	for _, c := range []struct {
		name   string
		damage func(*testing.T, string)
		reason backend.LoadFailure
		detail string
	}{
		{"no config", remove("config.json"), backend.LoadMissing, "config.json is missing"},
		{"damaged config", cut("config.json", 100), backend.LoadCorrupt, "config.json is damaged"},
		{"no type", set("config.json", "{}"), backend.LoadCorrupt, "no model_type"},
		{"program in the folder", change("config.json", `"vocab_size":1536`, `"vocab_size":1536,"model_file":"m.py"`),
			backend.LoadFailed, `a program, "m.py"`},
		{"impossible size", change("config.json", `"vocab_size":1536`, `"vocab_size":-1`), backend.LoadCorrupt, "sizes"},
		{"no weights", remove("model.safetensors"), backend.LoadMissing, "no model*.safetensors"},
		{"empty weights", cut("model.safetensors", 0), backend.LoadTruncated, "first bytes"},
		{"cut header", cut("model.safetensors", 1000), backend.LoadTruncated, "ends in its header"},
		{"cut weights", cut("model.safetensors", 1000000), backend.LoadTruncated, "ends after 1000000 of"},
		{"no safetensors", set("model.safetensors", "<!DOCTYPE html>"), backend.LoadCorrupt, "not a safetensors file"},
		{"missing shards", set(indexName, `{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors",`+
			`"c":"model.safetensors"}}`), backend.LoadMissing, "2 of 3 files with weights are missing: model-1.safetensors"},
		{"shard elsewhere", set(indexName, `{"weight_map":{"a":"../x.safetensors"}}`), backend.LoadCorrupt, "another folder"},
		{"damaged index", set(indexName, `{`), backend.LoadCorrupt, "is damaged"},
		{"no tokenizer", remove("tokenizer.json"), backend.LoadMissing, "tokenizer.json is missing"},
		{"damaged tokenizer", cut("tokenizer.json", 100), backend.LoadCorrupt, "tokenizer.json is damaged"},
		{"other tokenizer", change("tokenizer.json", `"type":"BPE"`, `"type":"Unigram"`), backend.LoadFailed,
			"tokenizer is not supported"},
		{"other pattern", change("tokenizer.json", `\\p{N}{1,3}`, `\\p{N}{1,9}`), backend.LoadFailed,
			"tokenizer is not supported"},
		{"impossible end", set("generation_config.json", `{"eos_token_id":[99999]}`), backend.LoadCorrupt, "99999"},
		{"long template", set("chat_template.jinja", strings.Repeat("x", gguf.MaxString+1)), backend.LoadFailed,
			"the chat template has 67108865 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := demoFolder(t)
			c.damage(t, path)
			_, err := ReadFolder(path)
			var e *backend.LoadError
			if !errors.As(err, &e) || e.Reason != c.reason || !strings.Contains(e.Detail, c.detail) || e.Advice == "" {
				t.Errorf("error %#v, want reason %d with %q", err, c.reason, c.detail)
			}
		})
	}
}
