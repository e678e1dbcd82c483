package installed_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"runner/models/catalog"
	"runner/models/installed"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// home makes an empty home folder, so that a test finds only what it puts there.
func home(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, v := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", dir)
	t.Setenv("OLLAMA_MODELS", filepath.Join(dir, ".ollama", "models"))
	return dir
}

func write(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// tiny returns a whole GGUF file.
func tiny(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := randomtest.WriteFile(path, random.Config{Layers: 1}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// cached puts files into the Hugging Face cache with blobs and links. A nil content is a link to nothing.
func cached(t testing.TB, home, repo string, files map[string][]byte) string {
	t.Helper()
	dir := filepath.Join(home, ".cache", "huggingface", "hub", "models--"+strings.ReplaceAll(repo, "/", "--"))
	write(t, filepath.Join(dir, "refs", "main"), []byte("c1"))
	for path, text := range files {
		sum := sha256.Sum256(append([]byte(path), text...))
		name := hex.EncodeToString(sum[:])
		if text != nil {
			write(t, filepath.Join(dir, "blobs", name), text)
		}
		place := filepath.Join(dir, "snapshots", "c1", path)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		up := strings.Repeat("../", 2+strings.Count(path, "/"))
		if err := os.Symlink(up+"blobs/"+name, place); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

type layer struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// pulled puts a model into Ollama's folder. layers are kinds with contents.
func pulled(t testing.TB, home, name string, config string, layers ...[2]string) {
	t.Helper()
	dir := filepath.Join(home, ".ollama", "models")
	blob := func(kind, text string) layer {
		sum := sha256.Sum256([]byte(text))
		name := hex.EncodeToString(sum[:])
		write(t, filepath.Join(dir, "blobs", "sha256-"+name), []byte(text))
		return layer{"application/vnd.ollama.image." + kind, "sha256:" + name, int64(len(text))}
	}
	manifest := struct {
		SchemaVersion int     `json:"schemaVersion"`
		Config        layer   `json:"config"`
		Layers        []layer `json:"layers"`
	}{SchemaVersion: 2, Config: blob("config", config)}
	for _, l := range layers {
		manifest.Layers = append(manifest.Layers, blob(l[0], l[1]))
	}
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "manifests", filepath.FromSlash(name)), text)
}

func TestEverythingOnThisMachine(t *testing.T) {
	h := home(t)
	model := tiny(t)
	cached(t, h, "org/One-GGUF", map[string][]byte{"one-Q4_K_M.gguf": model, "README.md": []byte("x"),
		"mmproj-f16.gguf": model})
	dir := cached(t, h, "org/Two-GGUF", map[string][]byte{"two-Q8_0.gguf": model,
		"two-Q4_0.gguf": []byte("<!doctype html>")})
	cached(t, h, "org/Half-GGUF", map[string][]byte{"h-00001-of-00002.gguf": model})
	cached(t, h, "org/Gone-GGUF", map[string][]byte{"gone.gguf": nil})
	cached(t, h, "org/Plain-GGUF", map[string][]byte{"plain.gguf": model})
	cached(t, h, "mlx-community/M-4bit", map[string][]byte{"config.json": []byte(
		`{"model_type":"qwen3","quantization":{"bits":4}}`), "model.safetensors": []byte("weights"),
		"tokenizer.json": []byte("{}"), "README.md": []byte("x")})
	cached(t, h, "org/only-tokenizer", map[string][]byte{"tokenizer.json": []byte("{}")})
	write(t, filepath.Join(dir, "blobs", strings.Repeat("a", 64)+".1a2b3c4d.incomplete"), []byte("12345"))
	write(t, filepath.Join(dir, "blobs", strings.Repeat("b", 64)+".downloadInProgress"), []byte("123"))
	gathered, etag := filepath.Join(dir, "blobs", strings.Repeat("c", 64)+".free-0-x.partial"), strings.Repeat("c", 64)
	write(t, filepath.Join(gathered, "name"), []byte("two-Q5_K_M.gguf"))
	write(t, filepath.Join(gathered, "journal"), []byte(
		"runner-partial 1 "+etag+" 9000 4000\n0 4000 "+etag+"\n"))
	write(t, filepath.Join(dir, "blobs", "x.partial"), []byte("not a folder"))

	write(t, filepath.Join(h, ".lmstudio", "models", "lm", "Studio-GGUF", "s-Q6_K.gguf"), model)
	write(t, filepath.Join(h, ".lmstudio", "models", "lm", "Studio-GGUF", "mmproj-s.gguf"), model)
	write(t, filepath.Join(h, ".cache", "lm-studio", "models", "old", "E", "e-00001-of-00001.gguf"), []byte{})
	write(t, filepath.Join(h, ".lmstudio", "models", "loose.gguf"), model)

	const registry = "registry.ollama.ai/library/"
	text := string(model)
	pulled(t, h, registry+"llama3.2/latest", `{"model_format":"gguf","file_type":"Q4_K_M"}`, [2]string{"model", text},
		[2]string{"template", "x"}, [2]string{"license", "y"}, [2]string{"params", "{}"})
	pulled(t, h, "registry.ollama.ai/someone/m/7b", `{}`, [2]string{"model", text})
	pulled(t, h, "hf.co/org/Repo-GGUF/Q8_0", `{"file_type":"unknown"}`, [2]string{"model", text})
	pulled(t, h, registry+"llava/latest", `{}`, [2]string{"model", text}, [2]string{"projector", "p"})
	pulled(t, h, registry+"cloud/latest", `{"remote_host":"https://ollama.com"}`)
	pulled(t, h, registry+"tensors/latest", `{"model_format":"safetensors"}`, [2]string{"tensor", "t"})

	found, partials := installed.List()
	var lines []string
	for _, m := range found {
		installed.Describe(&m)
		if known := m.Architecture != "" && m.Format == catalog.GGUF; known != (m.PerToken > 0) || m.PerToken > m.Bytes() {
			t.Errorf("%s: a token reads %d of %d bytes", m.Name, m.PerToken, m.Bytes())
		}
		path, err := filepath.Rel(h, m.At())
		if err != nil {
			t.Fatal(err)
		}
		if i := strings.LastIndex(path, "sha256-"); i >= 0 {
			path = path[:i] + "sha256-"
		}
		lines = append(lines, fmt.Sprintf("%s | %s | %s | %d parts, %v bytes | %s | %s | %v | %s | %s", m.Name, m.Place,
			m.Format, len(m.Files), m.Bytes() > 0, m.Quant, m.Architecture, m.Parameters > 0, m.Problem, path))
	}
	const hub = ".cache/huggingface/hub/models--"
	want := []string{
		"mlx-community/M-4bit | Hugging Face cache | safetensors | 3 parts, true bytes | 4-bit | qwen3 | false |  | " + hub +
			"mlx-community--M-4bit/snapshots/c1",
		"org/Gone-GGUF | Hugging Face cache | gguf | 1 parts, false bytes |  |  | false | " +
			"the cache has no bytes for gone.gguf | " + hub + "org--Gone-GGUF/snapshots/c1/gone.gguf",
		"org/Half-GGUF | Hugging Face cache | gguf | 1 parts, true bytes |  |  | false | " +
			"part 2 of 2 is missing (h-00002-of-00002.gguf) | " + hub + "org--Half-GGUF/snapshots/c1/h-00001-of-00002.gguf",
		"org/One-GGUF | Hugging Face cache | gguf | 1 parts, true bytes | Q4_K_M | gpt-oss | true |  | " + hub +
			"org--One-GGUF/snapshots/c1/one-Q4_K_M.gguf",
		"org/Plain-GGUF | Hugging Face cache | gguf | 1 parts, true bytes | Q8_0 | gpt-oss | true |  | " + hub +
			"org--Plain-GGUF/snapshots/c1/plain.gguf",
		"org/Two-GGUF:Q4_0 | Hugging Face cache | gguf | 1 parts, true bytes | Q4_0 |  | false | " +
			"two-Q4_0.gguf is a page of a web site, not a model | " + hub + "org--Two-GGUF/snapshots/c1/two-Q4_0.gguf",
		"org/Two-GGUF:Q8_0 | Hugging Face cache | gguf | 1 parts, true bytes | Q8_0 | gpt-oss | true |  | " + hub +
			"org--Two-GGUF/snapshots/c1/two-Q8_0.gguf",
		"lm/Studio-GGUF | LM Studio | gguf | 1 parts, true bytes | Q6_K | gpt-oss | true |  | " +
			".lmstudio/models/lm/Studio-GGUF/s-Q6_K.gguf",
		"old/E | LM Studio | gguf | 1 parts, false bytes |  |  | false | e-00001-of-00001.gguf is empty | " +
			".cache/lm-studio/models/old/E/e-00001-of-00001.gguf",
		"hf.co/org/Repo-GGUF:Q8_0 | Ollama | gguf | 1 parts, true bytes | Q8_0 | gpt-oss | true |  | " +
			".ollama/models/blobs/sha256-",
		"llama3.2:latest | Ollama | gguf | 1 parts, true bytes | Q4_K_M | gpt-oss | true |  | .ollama/models/blobs/sha256-",
		"llava:latest | Ollama | gguf | 1 parts, true bytes |  |  | false | it is more than one GGUF file: " +
			"there is a layer of the kind projector | .ollama/models/blobs/sha256-",
		"someone/m:7b | Ollama | gguf | 1 parts, true bytes | Q8_0 | gpt-oss | true |  | .ollama/models/blobs/sha256-",
	}
	for i := range max(len(lines), len(want)) {
		if i >= len(lines) || i >= len(want) || lines[i] != want[i] {
			t.Fatalf("line %d:\n%s\nwant\n%s", i, strings.Join(lines[min(i, len(lines)):], "\n"),
				strings.Join(want[min(i, len(want)):], "\n"))
		}
	}
	var tools []string
	for _, p := range partials {
		tools = append(tools, fmt.Sprintf("%s %s %d of %d", p.Name, p.Tool, p.Have, p.Size))
	}
	wantTools := []string{"org/Two-GGUF hf 5 of 0", "org/Two-GGUF llama.cpp 3 of 0",
		"org/Two-GGUF:Q5_K_M runner 4000 of 9000"}
	if !slices.Equal(tools, wantTools) {
		t.Errorf("partial downloads %q, want %q", tools, wantTools)
	}
}

// A token reads the experts of a folder that the configuration says work on it, whatever the names are.
func TestExpertsOfAFolder(t *testing.T) {
	head := `{"model.layers.0.mlp.switch_mlp.up_proj.weight":{"dtype":"U8","shape":[800],"data_offsets":[0,800]}}`
	weights := append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head...)
	weights = append(weights, make([]byte, 800)...)
	for config, want := range map[string]int64{
		`{"num_experts":8,"num_experts_per_tok":2}`:                        200,
		`{"num_local_experts":8,"experts_per_token":4}`:                    400,
		`{"text_config":{"n_routed_experts":8,"num_experts_per_tok":1}}`:   100,
		`{"num_experts":[8,8],"num_experts_per_tok":2,"model_type":"odd"}`: 800,
		`{}`: 800,
		`{"text_config":{"max_position_embeddings":4096}}`: 800,
	} {
		h := home(t)
		cached(t, h, "org/Moe", map[string][]byte{"config.json": []byte(config), "model.safetensors": weights})
		found, _ := installed.List()
		if len(found) != 1 {
			t.Fatalf("%+v", found)
		}
		if installed.Describe(&found[0]); found[0].PerToken != want || found[0].Problem != "" {
			t.Errorf("%s: a token reads %d bytes, want %d; %s", config, found[0].PerToken, want, found[0].Problem)
		}
		if knows := strings.Contains(config, "4096"); knows != (found[0].Context == 4096) {
			t.Errorf("%s: the context is %d", config, found[0].Context)
		}
	}
}

// hostile has manifests and the places to put them.
var hostile = []struct{ place, text string }{
	{"registry.ollama.ai/library/m/latest", ``},
	{"registry.ollama.ai/library/m/latest", `null`},
	{"registry.ollama.ai/library/m/latest", `[]`},
	{"registry.ollama.ai/library/m/latest", `{"layers":null}`},
	{"registry.ollama.ai/library/m/latest", `{"layers":[{"mediaType":"application/vnd.ollama.image.model"}]}`},
	{"registry.ollama.ai/library/m/latest",
		`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:../../../etc/passwd","size":1}]}`},
	{"registry.ollama.ai/library/m/latest", `{"config":{"digest":"sha256:/etc/passwd"},"layers":[{"mediaType":` +
		`"application/vnd.ollama.image.model","digest":"sha256:` + strings.Repeat("a", 64) + `","size":-1}]}`},
	{"registry.ollama.ai/library/m/latest", `{"layers":[{"mediaType":` +
		`"application/vnd.ollama.image.model","digest":"sha256:` + strings.Repeat("a", 64) + `","size":9},` +
		`{"mediaType":"\u001b[2J","digest":"x"}]}`},
	{"registry.ollama.ai/library/m/latest", strings.Repeat("[", 1<<20)},
	{"registry.ollama.ai/library/m/lat est", `{}`},
	{"registry.ollama.ai/m", `{}`},
	{"a/b/c/d/e", `{}`},
}

// checkOllama fails unless every model that is found lies in the folder of the blobs and has a harmless name.
func checkOllama(t *testing.T, h string) {
	t.Helper()
	found, _ := installed.List()
	for _, m := range found {
		installed.Describe(&m)
		if filepath.Dir(m.At()) != filepath.Join(h, ".ollama", "models", "blobs") {
			t.Errorf("%s leads to %s", m.Name, m.At())
		}
		if strings.ContainsFunc(m.Name+m.Problem+m.Quant, unicode.IsControl) {
			t.Errorf("%q: %q", m.Name, m.Problem)
		}
	}
}

func TestHostileManifests(t *testing.T) {
	for _, c := range hostile {
		h := home(t)
		write(t, filepath.Join(h, ".ollama", "models", "manifests", c.place), []byte(c.text))
		write(t, filepath.Join(h, ".ollama", "models", "blobs", "sha256-"+strings.Repeat("a", 64)), []byte("123456789"))
		checkOllama(t, h)
	}
	h := home(t)
	dir := filepath.Join(h, ".ollama", "models")
	write(t, filepath.Join(h, "secret"), []byte("secret"))
	text := `{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:` + strings.Repeat("b", 64) +
		`","size":6}]}`
	write(t, filepath.Join(dir, "manifests/registry.ollama.ai/library/m/latest"), []byte(text))
	for link, target := range map[string]string{"blobs/sha256-" + strings.Repeat("b", 64): filepath.Join(h, "secret"),
		"manifests/registry.ollama.ai/library/loop":     dir,
		"manifests/registry.ollama.ai/library/m/linked": filepath.Join(h, "secret")} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	found, _ := installed.List()
	if len(found) != 1 || !strings.Contains(found[0].Problem, "not a regular file") {
		t.Errorf("a blob that is a link: %+v", found)
	}
}

// FuzzManifest checks that no manifest crashes the list or leads out of the folder.
func FuzzManifest(f *testing.F) {
	for _, c := range hostile {
		f.Add([]byte(c.text))
	}
	h := home(f)
	write(f, filepath.Join(h, ".ollama", "models", "blobs", "sha256-"+strings.Repeat("a", 64)), []byte("123456789"))
	f.Fuzz(func(t *testing.T, manifest []byte) {
		write(t, filepath.Join(h, ".ollama/models/manifests/registry.ollama.ai/library/m/latest"), manifest)
		checkOllama(t, h)
	})
}
