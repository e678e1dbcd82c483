package names_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"runner/models/catalog"
	"runner/models/names"
)

var spellings = []struct{ text, repo, word, revision, selector string }{
	{"ggml-org/gpt-oss-20b-GGUF", "ggml-org/gpt-oss-20b-GGUF", "", "", ""},
	{"  ggml-org/gpt-oss-20b-GGUF/\n", "ggml-org/gpt-oss-20b-GGUF", "", "", ""},
	{"GGML-ORG/GPT-OSS-20B-gguf", "GGML-ORG/GPT-OSS-20B-gguf", "", "", ""},
	{"unsloth/Qwen3-8B-GGUF:Q4_K_M", "unsloth/Qwen3-8B-GGUF", "", "", "Q4_K_M"},
	{"unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL", "unsloth/Qwen3-8B-GGUF", "", "", "UD-Q4_K_XL"},
	{"unsloth/Qwen3-8B-GGUF:Qwen3-8B-Q4_K_M.gguf", "unsloth/Qwen3-8B-GGUF", "", "", "Qwen3-8B-Q4_K_M.gguf"},
	{"unsloth/big-GGUF:BF16/big-00001-of-00002.gguf", "unsloth/big-GGUF", "", "", "BF16/big-00001-of-00002.gguf"},
	{"unsloth/Qwen3-8B-GGUF/Qwen3-8B-Q4_K_M.gguf", "unsloth/Qwen3-8B-GGUF", "", "", "Qwen3-8B-Q4_K_M.gguf"},
	{"org/repo@v1.0:Q8_0", "org/repo", "", "v1.0", "Q8_0"},
	{"org/repo@refs/pr/3", "org/repo", "", "refs/pr/3", ""},
	{"hf.co/bartowski/Llama-3.2-3B-Instruct-GGUF:Q8_0", "bartowski/Llama-3.2-3B-Instruct-GGUF", "", "", "Q8_0"},
	{"HF.co/a/b", "a/b", "", "", ""},
	{"huggingface.co/a/b", "a/b", "", "", ""},
	{"hf://a/b", "a/b", "", "", ""},
	{"huggingface://a/b/c-Q8_0.gguf", "a/b", "", "", "c-Q8_0.gguf"},
	{"https://huggingface.co/a/b", "a/b", "", "", ""},
	{"http://www.huggingface.co/a/b/", "a/b", "", "", ""},
	{"HTTPS://HuggingFace.co/a/B", "a/B", "", "", ""},
	{"https://huggingface.co/a/b.git", "a/b", "", "", ""},
	{"https://huggingface.co/a/b/tree/main", "a/b", "", "", ""},
	{"https://huggingface.co/a/b/tree/main/BF16", "a/b", "", "", "BF16"},
	{"https://huggingface.co/a/b/tree/refs%2Fpr%2F1", "a/b", "", "refs/pr/1", ""},
	{"https://huggingface.co/a/b/blob/main/m-Q4_K_M.gguf", "a/b", "", "", "m-Q4_K_M.gguf"},
	{"https://huggingface.co/a/b/blob/main/sub/m%20x.gguf", "", "", "", ""},
	{"https://huggingface.co/a/b/resolve/main/m.gguf?download=true", "a/b", "", "", "m.gguf"},
	{"https://huggingface.co/a/b/resolve/78eb92a46fc37e6b/m.gguf", "a/b", "", "78eb92a46fc37e6b", "m.gguf"},
	{"https://huggingface.co/a/b/raw/main/README.md#top", "a/b", "", "", ""},
	{"hf.co/a/b:latest", "a/b", "", "", ""},
	{"https://huggingface.co/a/b?show_file_info=m-Q8_0.gguf", "a/b", "", "", "m-Q8_0.gguf"},
	{"https://huggingface.co/a/b?local-app=llama.cpp", "a/b", "", "", ""},
	{"https://huggingface.co/a/b/discussions/7", "a/b", "", "", ""},
	{"https://huggingface.co/api/models/a/b/tree/main?recursive=true", "a/b", "", "", ""},
	{"https://mirror.example/a/b/blob/main/m.gguf", "a/b", "", "", "m.gguf"},
	{"gpt-oss-20b", "", "gpt-oss-20b", "", ""},
	{"gpt-oss:20b", "", "gpt-oss:20b", "", ""},
	{"llama3.2:latest", "", "llama3.2", "", ""},
	{"https://ollama.com/library/qwen3:8b", "", "qwen3:8b", "", ""},
	{"https://ollama.com/library/llama3.2?x=1", "", "llama3.2", "", ""},
	{"", "", "", "", ""},
	{"two words", "", "", "", ""},
	{"a/b:", "", "", "", ""},
	{"a/b:../../etc/passwd", "", "", "", ""},
	{"../a/b", "", "", "", ""},
	{"/a/b", "", "", "", ""},
	{"a/../b", "", "", "", ""},
	{"a/b/../../c", "", "", "", ""},
	{"a--b/c", "", "", "", ""},
	{"a/b@../x", "", "", "", ""},
	{"https://huggingface.co/a/b/blob/main/..%2f..%2fx", "", "", "", ""},
	{"https://huggingface.co/a/b/blob/main/%zz", "", "", "", ""},
	{"https://huggingface.co/datasets/a/b", "", "", "", ""},
	{"https://huggingface.co/a", "", "", "", ""},
	{"https://huggingface.co", "", "", "", ""},
	{"https://huggingface.co.evil.example/a/b", "", "", "", ""},
	{"https://huggingface.co@evil.example/a/b", "", "", "", ""},
	{"ftp://huggingface.co/a/b", "", "", "", ""},
	{"file:///etc/passwd", "", "", "", ""},
	{"https://github.com/a/b", "", "", "", ""},
	{"17-5", "", "", "", ""},
}

func TestSpellings(t *testing.T) {
	for _, c := range spellings {
		got, err := names.Parse(c.text, "mirror.example")
		if want := (names.Name{Repo: c.repo, Word: c.word, Revision: c.revision, Selector: c.selector}); got != want {
			t.Errorf("%q is %+v, %v, want %+v", c.text, got, err, want)
		}
		if bad := c.repo+c.word == ""; bad != (err != nil) {
			t.Errorf("%q: error %v", c.text, err)
		}
	}
}

// FuzzParse holds what callers rely on: a name is read again from its shortest spelling, its parts lead nowhere, and
// every error has a hint.
func FuzzParse(f *testing.F) {
	for _, c := range spellings {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := names.Parse(text)
		if err != nil {
			var e *names.Error
			if !errors.As(err, &e) || e.Hint() == "" || strings.ContainsAny(e.Error(), "\n\x00") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if again, err := names.Parse(n.String()); err != nil || again != n {
			t.Errorf("%q is %+v, and that is read as %+v, %v", text, n, again, err)
		}
		if (n.Repo == "") == (n.Word == "") || strings.Count(n.Repo, "/") > 1 {
			t.Errorf("%q is %+v", text, n)
		}
		for _, s := range []string{n.Repo, n.Word, n.Revision, n.Selector} {
			if strings.HasPrefix(s, "/") || slices.Contains(strings.Split(s, "/"), "..") || strings.Contains(s, `\`) {
				t.Errorf("%q leads elsewhere: %q", text, s)
			}
		}
		names.Suggest(text, 3, "org/repo")
		names.Find(n.Word)
	})
}

func TestShortNames(t *testing.T) {
	for text, want := range map[string][2]string{
		"gpt-oss-20b": {"ggml-org/gpt-oss-20b-GGUF"}, "gpt-oss:20b": {"ggml-org/gpt-oss-20b-GGUF"},
		"GPT-OSS": {"ggml-org/gpt-oss-20b-GGUF"}, "gpt-oss:latest": {"ggml-org/gpt-oss-20b-GGUF"},
		"llama3.2": {"bartowski/Llama-3.2-3B-Instruct-GGUF"}, "llama-3.2-3b": {"bartowski/Llama-3.2-3B-Instruct-GGUF"},
		"Llama-3.2-3B-Instruct-GGUF":     {"bartowski/Llama-3.2-3B-Instruct-GGUF"},
		"llama3.2:1b":                    {"bartowski/Llama-3.2-1B-Instruct-GGUF"},
		"llama3.2:3b-instruct-q8_0":      {"bartowski/Llama-3.2-3B-Instruct-GGUF", "Q8_0"},
		"qwen3:8b":                       {"Qwen/Qwen3-8B-GGUF"},
		"qwen3_8b":                       {"Qwen/Qwen3-8B-GGUF"},
		"qwen3:8b-q4_K_M":                {"Qwen/Qwen3-8B-GGUF", "Q4_K_M"},
		"Qwen3-30B-A3B":                  {"bartowski/Qwen_Qwen3-30B-A3B-GGUF"},
		"gemma3:4b":                      {"ggml-org/gemma-3-4b-it-GGUF"},
		"gemma-3-4b-it":                  {"ggml-org/gemma-3-4b-it-GGUF"},
		"gemma-3-4b":                     {"ggml-org/gemma-3-4b-it-GGUF"},
		"mistral":                        {"lmstudio-community/Mistral-7B-Instruct-v0.3-GGUF"},
		"phi-4":                          {"microsoft/phi-4-gguf"},
		"hello":                          {},
		"llama3.2:99b":                   {},
		"qwen3:8b-q4_K_M-and-then-some!": {},
	} {
		k, quant, ok := names.Find(text)
		if k.Repo != want[0] || quant != want[1] || ok != (want[0] != "") {
			t.Errorf("%q is %s %q, want %q", text, k.Repo, quant, want)
		}
	}
}

func TestWhereToLookOnTheHub(t *testing.T) {
	for text, want := range map[string]string{
		"Org/Repo":         "Org/Repo Org/Repo-GGUF | ",
		"org/repo-gguf:q8": "org/repo-gguf | q8",
		"llama3.2:1b-q8_0": "bartowski/Llama-3.2-1B-Instruct-GGUF | Q8_0",
		"hello":            " | ",
	} {
		n, err := names.Parse(text)
		repos, selector := n.OnHub()
		if got := strings.Join(repos, " ") + " | " + selector; err != nil || got != want {
			t.Errorf("%q is %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestTheTable checks that every well-known model is found by its own name and its repository's, and that no other
// model has these names.
func TestTheTable(t *testing.T) {
	for _, k := range names.All() {
		if n, err := names.Parse(k.Repo); err != nil || n.Repo != k.Repo {
			t.Errorf("%s: repository %q: %v", k.Name, k.Repo, err)
		}
		if k.License == "" {
			t.Errorf("%s lacks a license", k.Name)
		}
		// A weight takes four to nine bits in the usual quantizations. The E of Gemma counts only a part of them.
		if n := parameters(t, k.Parameters); k.Bytes <= 0 || 8*float64(k.Bytes) < 4*n || 8*float64(k.Bytes) > 9*n && n > 0 {
			t.Errorf("%s with %s parameters has %d bytes", k.Name, k.Parameters, k.Bytes)
		}
		_, repo, _ := strings.Cut(k.Repo, "/")
		for _, text := range []string{k.Name, strings.ToUpper(k.Name), strings.ReplaceAll(k.Name, ":", "-"),
			strings.TrimSuffix(repo, "-GGUF")} {
			if _, rest, ok := strings.Cut(text, "_"); ok {
				text = rest
			}
			if found, _, ok := names.Find(text); !ok || found.Name != k.Name {
				t.Errorf("%q is %q, want %q", text, found.Name, k.Name)
			}
		}
	}
}

// parameters reads a number of parameters. It is 0 if the table has none.
func parameters(t *testing.T, text string) float64 {
	t.Helper()
	switch text {
	case "E4B":
		return 7.85e9
	case "E2B":
		return 5.44e9
	case "":
		return 0
	}
	unit := map[byte]float64{'B': 1e9, 'M': 1e6}[text[len(text)-1]]
	n, err := strconv.ParseFloat(text[:len(text)-1], 64)
	if err != nil || unit == 0 {
		t.Fatalf("%q parameters", text)
	}
	return n * unit
}

// What Quants says of a name, Find and Parse read.
func TestQuants(t *testing.T) {
	for name, want := range map[string]string{"gpt-oss-20b": "MXFP4", "GPT-OSS": "MXFP4", "llama3.2": "Q4_K_M Q6_K",
		"ggml-org/gpt-oss-20b": "MXFP4", "GGML-org/gpt-oss-20b-gguf": "MXFP4", "qwen3-8b": "Q4_K_M Q8_0",
		"org/gpt-oss-20b": "",
		"nobody":          "", "": "", "../x": "", "gpt-oss-20b:MXFP4": ""} {
		if got := strings.Join(names.Quants(name), " "); got != want {
			t.Errorf("%q has %q, want %q", name, got, want)
		}
	}
	for _, k := range names.All() {
		for _, quant := range names.Quants(k.Repo) {
			if found, got, ok := names.Find(strings.ReplaceAll(k.Name, ":", "-") + ":" + quant); !ok || got != quant ||
				found.Name != k.Name {
				t.Errorf("%s with %s is %s with %q", k.Name, quant, found.Name, got)
			}
			if catalog.QuantOf("m-"+quant+".gguf") != quant {
				t.Errorf("%s: there is no quantization %s", k.Name, quant)
			}
		}
	}
}

func TestSuggestions(t *testing.T) {
	cached := []string{"unsloth/Qwen3-8B-GGUF", "someone/Nice-Model-7B-GGUF"}
	for text, want := range map[string]string{
		"gpt-oos-20b":             "gpt-oss:20b",
		"gpt-os:20b":              "gpt-oss:20b",
		"lama3.2":                 "llama3.2:3b",
		"llama3.2:4b":             "llama3.2:3b",
		"qwen38b":                 "unsloth/Qwen3-8B-GGUF",
		"qwen:8b":                 "unsloth/Qwen3-8B-GGUF",
		"nice-model":              "someone/Nice-Model-7B-GGUF",
		"somone/nice-model-7b":    "someone/Nice-Model-7B-GGUF",
		"ggml-org/gpt-oss-20":     "gpt-oss:20b",
		"gemma-4b":                "gemma3:4b",
		"zzz9-x":                  "",
		strings.Repeat("a1-", 99): "",
	} {
		got := names.Suggest(text, 3, cached...)
		if want == "" && len(got) > 0 || want != "" && !slices.Contains(got, want) || len(got) > 3 {
			t.Errorf("%q suggests %q, want %q", text, got, want)
		}
	}
}

func TestWordsThatLookLikeNames(t *testing.T) {
	for _, text := range []string{"gpt-oss-20b", "llama3.2", "qwen3:8b", "org/repo7", "org/repo:Q4", "x1.gguf",
		"hf.co/a/b2", "https://huggingface.co/a/b", "GPT-4"} {
		if !names.LooksLike(text) {
			t.Errorf("%q does not look like a name", text)
		}
	}
	for _, text := range []string{"17-5", "12/4", "3.14", "2x-y", "gpt-oss 20b?", "What is 17-5?", "hello", "well-known",
		"gemma3", "either/or", "", "x=3.5", "f(2.5)", "é3-x", "a\n1-b"} {
		if names.LooksLike(text) {
			t.Errorf("%q looks like a name", text)
		}
	}
}
