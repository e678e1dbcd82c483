package models_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/models"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// home makes an empty home folder, in which a test finds only what it puts there.
func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, v := range []string{"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HF_ENDPOINT"} {
		t.Setenv(v, "")
	}
	t.Setenv("HOME", dir)
	t.Setenv("OLLAMA_MODELS", filepath.Join(dir, ".ollama", "models"))
	return dir
}

// ollamasOwn is a GGUF file without tensors whose architecture is gptoss.
const ollamasOwn = "GGUF\x03\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x01\x00\x00\x00\x00\x00\x00\x00" +
	"\x14\x00\x00\x00\x00\x00\x00\x00general.architecture" + "\x08\x00\x00\x00" + "\x06\x00\x00\x00\x00\x00\x00\x00gptoss"

// TestNamesFindModels checks that the spellings of a name find the same file, wherever the model lies.
func TestNamesFindModels(t *testing.T) {
	h := home(t)
	t.Setenv("HF_ENDPOINT", "https://mirror.example")
	t.Chdir(t.TempDir())
	hub := filepath.Join(h, ".cache", "huggingface", "hub")
	addRepo(t, hub, "ggml-org/gpt-oss-20b-GGUF", "c1", "gpt-oss-20b-mxfp4.gguf", "README.md")
	addRepo(t, hub, "bartowski/Llama-3.2-3B-Instruct-GGUF", "0123456789abcdef", "L-Q4_K_M.gguf", "L-Q8_0.gguf")
	write(t, filepath.Join(hub, "models--bartowski--Llama-3.2-3B-Instruct-GGUF", "refs", "v1"), "0123456789abcdef")
	addRepo(t, hub, "mlx-community/M-4bit", "c1", "config.json", "model.safetensors", "tokenizer.json")
	addRepo(t, hub, "org/Split-GGUF", "c1", "Q8_0/s-00001-of-00002.gguf", "Q8_0/s-00002-of-00002.gguf")
	addRepo(t, hub, "one/Same-GGUF", "c1", "m.gguf")
	addRepo(t, hub, "two/same", "c1", "m.gguf")
	addRepo(t, hub, "org/Nothing-GGUF", "c1", "README.md")
	write(t, filepath.Join(hub, "models--org--Half", "blobs", "e1.1a2b3c4d.incomplete"), "ha")
	write(t, filepath.Join(h, ".lmstudio", "models", "lm", "Studio-7B-GGUF", "s-Q6_K.gguf"), "studio")
	write(t, filepath.Join(h, ".lmstudio", "models", "org", "Nothing-GGUF", "n.gguf"), "nothing")
	good, own := strings.Repeat("a", 64), strings.Repeat("b", 64)
	blobs := filepath.Join(h, ".ollama", "models", "blobs")
	write(t, filepath.Join(blobs, "sha256-"+own), ollamasOwn)
	if err := randomtest.WriteFile(filepath.Join(blobs, "sha256-"+good), random.Config{Layers: 1}); err != nil {
		t.Fatal(err)
	}
	for name, blob := range map[string]string{"registry.ollama.ai/library/qwen3/8b": good,
		"registry.ollama.ai/library/phi4/latest": good, "registry.ollama.ai/some/tune/v2": good,
		"hf.co/far/Away-GGUF/Q8_0": good, "registry.ollama.ai/library/gpt-oss/120b": own} {
		info, err := os.Stat(filepath.Join(blobs, "sha256-"+blob))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(h, ".ollama", "models", "manifests", name), fmt.Sprintf(
			`{"layers":[{"mediaType":"application/vnd.ollama.image.model","digest":"sha256:%s","size":%d}]}`, blob, info.Size()))
	}
	write(t, "alone/m.gguf", "alone")
	write(t, "alone/README.md", "x")
	write(t, "parts/p-00001-of-00002.gguf", "parts")
	write(t, "parts/p-00002-of-00002.gguf", "parts")
	write(t, "vision/m.gguf", "vision")
	write(t, "vision/mmproj-m.gguf", "projector")

	const gptoss, l4, l8 = "gpt-oss-20b-mxfp4.gguf", "L-Q4_K_M.gguf", "L-Q8_0.gguf"
	for text, want := range map[string]string{
		"gpt-oss-20b": gptoss, "gpt-oss:20b": gptoss, "GPT-OSS": gptoss, "gpt-oss-20b-GGUF": gptoss,
		"ggml-org/gpt-oss-20b-GGUF": gptoss, "GGML-org/GPT-oss-20B": gptoss, "ggml-org/gpt-oss-20b-gguf:mxfp4": gptoss,
		"hf.co/ggml-org/gpt-oss-20b-GGUF":                                                         gptoss,
		"https://huggingface.co/ggml-org/gpt-oss-20b-GGUF":                                        gptoss,
		"https://huggingface.co/ggml-org/gpt-oss-20b-GGUF/tree/main":                              gptoss,
		"https://huggingface.co/ggml-org/gpt-oss-20b-GGUF/blob/main/" + gptoss:                    gptoss,
		"https://huggingface.co/ggml-org/gpt-oss-20b-GGUF/resolve/main/" + gptoss + "?download=x": gptoss,
		"https://mirror.example/ggml-org/gpt-oss-20b-GGUF":                                        gptoss,
		"llama3.2":                                          l4,
		"llama3.2:3b-q8_0":                                  l8,
		"llama3.2:3b-instruct-q4_K_M":                       l4,
		"bartowski/llama-3.2-3b-instruct:q4_k_m":            l4,
		"bartowski/Llama-3.2-3B-Instruct-GGUF/" + l8:        l8,
		"bartowski/Llama-3.2-3B-Instruct-GGUF@v1:Q8_0":      l8,
		"bartowski/Llama-3.2-3B-Instruct-GGUF@0123456:Q8_0": l8,
		"org/split":                          "Q8_0/s-00001-of-00002.gguf",
		"org/Split-GGUF:Q8_0":                "Q8_0/s-00001-of-00002.gguf",
		"lm/studio-7b":                       "studio",
		"Studio-7B":                          "studio",
		"lm/Studio-7B-GGUF:q6_k":             "studio",
		"org/nothing":                        "nothing",
		"qwen3:8b":                           "ollama",
		"phi4":                               "ollama",
		"phi4:latest":                        "ollama",
		"some/tune:v2":                       "ollama",
		"hf.co/far/Away-GGUF:Q8_0":           "ollama",
		"far/Away-GGUF:q8_0":                 "ollama",
		"alone":                              "alone",
		"./alone/":                           "alone",
		"parts":                              "parts",
		"vision":                             "vision",
		"mlx-community/m-4bit":               "/",
		"https://hf.co/mlx-community/M-4bit": "/",
	} {
		m, err := models.Resolve(text, 0)
		if err != nil || m.Name != text {
			t.Errorf("%q: %+v, %v", text, m, err)
			continue
		}
		if !models.IsName(text) && !models.LooksLikeName(text) {
			t.Errorf("%q is taken for a prompt", text)
		}
		if want == "/" {
			if len(m.Files.Files) != 3 || filepath.Base(m.Path) != "c1" {
				t.Errorf("%q: %+v", text, m)
			}
			continue
		}
		if want == "ollama" {
			if filepath.Base(m.Path) != "sha256-"+good {
				t.Errorf("%q finds %s", text, m.Path)
			}
			continue
		}
		if got, err := os.ReadFile(m.Path); err != nil || string(got) != want {
			t.Errorf("%q finds %s with %q, %v, want %q", text, m.Path, got, err, want)
		}
	}

	for text, want := range map[string]string{
		"same-gguf":                 "several repositories have this name: one/Same-GGUF and two/same",
		"gemma3:4b":                 "it is ggml-org/gemma-3-4b-it-GGUF on the Hugging Face hub (4B parameters, about 2.3 ",
		"gpt-os-20b":                "no such file or model",
		"mlx-community/M-4bit:Q8_0": "folder of safetensors",
		"bartowski/Llama-3.2-3B-Instruct-GGUF@v9": "no revision v9",
		"https://example.com/a1/b":                "not the Hugging Face hub",
		"https://huggingface.co/datasets/a/b":     "datasets",
		"org/half":                                "a download did not finish",
		"gpt-oss:120b":                            "Ollama has it, but it is in a layout of Ollama's own",
		"who/knows":                               "not in the Hugging Face cache",
	} {
		_, err := models.Resolve(text, 0)
		var e *models.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) || e.Hint() == "" {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	var e *models.Error
	if _, err := models.Resolve("http://127.0.0.1:8000/v1", 0); !errors.As(err, &e) ||
		!strings.Contains(e.Hint(), "has no path") {
		t.Errorf("the address of an engine with a path: %v, %+v", err, e)
	}
	if _, err := models.Resolve("gpt-os-20b", 0); !errors.As(err, &e) || len(e.Near) == 0 ||
		!strings.Contains(e.Near[0], "gpt-oss") || !strings.Contains(e.Hint(), "gpt-oss") {
		t.Errorf("no suggestion: %+v", e)
	}
	// A repository that nobody knows gets the nearest, too, and the command for the case that it is right.
	for text, want := range map[string]string{"ggml-org/gpt-oss-20": "gpt-oss:20b", "org/splits": "org/Split-GGUF",
		"bartowski/Lama-3.2-3B-Instruct": "bartowski/Llama-3.2-3B-Instruct-GGUF"} {
		if _, err := models.Resolve(text, 0); !errors.As(err, &e) || !strings.Contains(e.Hint(), want) ||
			!strings.Contains(e.Hint(), "did you mean ") || !strings.HasSuffix(e.Hint(), "runner pull "+text) {
			t.Errorf("%s: %+v, want %s", text, e, want)
		}
	}
	if _, err := models.Resolve("gemma3:4b", 0); !errors.As(err, &e) || e.Repo != "ggml-org/gemma-3-4b-it-GGUF" {
		t.Errorf("no repository: %+v", e)
	}
}

// TestWhatIsNoModel checks that each thing that is taken for a model by mistake has its own message, by its path, in
// its folder and in the cache.
func TestWhatIsNoModel(t *testing.T) {
	h := home(t)
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"html":  {"<!DOCTYPE html><html>", "is a page of a web site"},
		"lfs":   {"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n", "is a pointer of Git LFS"},
		"empty": {"", "is empty"},
	} {
		path := filepath.Join(dir, name, "m.gguf")
		write(t, path, c.text)
		repo := filepath.Join(h, ".cache", "huggingface", "hub", "models--org--"+name)
		write(t, filepath.Join(repo, "refs", "main"), "c1")
		write(t, filepath.Join(repo, "snapshots", "c1", "m.gguf"), c.text)
		for _, text := range []string{path, filepath.Dir(path), "org/" + name} {
			_, err := models.Resolve(text, 0)
			var e *models.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) || e.Hint() == "" {
				t.Errorf("%s: %v, want %q", text, err, c.want)
			}
		}
	}
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"weights": {[]string{"model.safetensors"}, "has safetensors but no config.json"},
		"several": {[]string{"a-Q8_0.gguf", "b-Q8_0.gguf", "mmproj.gguf"}, "has 2 models: a-Q8_0.gguf, b-Q8_0.gguf"},
		"pointer": {[]string{"config.json", "model.safetensors"}, "model.safetensors is a pointer of Git LFS"},
		"half":    {[]string{"a-00001-of-00002.gguf"}, "part 2 of 2 is missing"},
		"none":    {[]string{"README.md", "mmproj.gguf"}, "is a directory"},
	} {
		for _, f := range c.files {
			text := "x"
			if name == "pointer" {
				text = "version https://git-lfs.github.com/spec/v1\n"
			}
			write(t, filepath.Join(dir, name, f), text)
		}
		if _, err := models.Resolve(filepath.Join(dir, name), 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
