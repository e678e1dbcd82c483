package names

import (
	"regexp"
	"slices"
	"strings"
)

// Known is a well-known model.
type Known struct {
	// Name is the short name, with the size after a colon.
	Name string
	// Repo is the repository on the Hugging Face hub in the hub's spelling.
	Repo string
	// Parameters is the number of parameters in words, for instance 8B.
	Parameters string
	// Bytes is about the size of the files that are usually chosen: those in Q4_K_M, or in the first of Quants if that is
	// not among them.
	Bytes int64
	// License is the hub's name of the license.
	License string
	// Quants are quantizations that the repository has, with spaces between them. It may have others.
	Quants string
}

// known has one model for each name. The sources, read in November 2026: sizes that are not round are from public
// programs that check the length of these files. Round ones are from tables of files and from catalogs of other
// programs, or the number of parameters times 4.9 bits, which Q4_K_M takes in models of this size. Repositories and
// licenses are from LocalAI's gallery (gallery/index.yaml at 82c191a) and RamaLama's shortnames.conf (012f2de), and
// those of Qwen3, Llama 3.1 and 3.2 and Phi from links in public programs. Parameters are from Ollama's table of models
// (its README before 519b11e) or part of the repository's name. Quantizations are those of files that these programs
// download. A model whose repository or license is in none of them is left out.
var known = []Known{
	{"gpt-oss:20b", "ggml-org/gpt-oss-20b-GGUF", "20B", 12_109_566_560, "apache-2.0", "MXFP4"},
	{"gpt-oss:120b", "ggml-org/gpt-oss-120b-GGUF", "120B", 63_387_346_464, "apache-2.0", "MXFP4"},

	{"qwen3:8b", "Qwen/Qwen3-8B-GGUF", "8B", 5_027_783_488, "apache-2.0", "Q4_K_M Q8_0"},
	{"qwen3:0.6b", "ggml-org/Qwen3-0.6B-GGUF", "0.6B", 400_000_000, "apache-2.0", "Q4_0"},
	{"qwen3:1.7b", "Qwen/Qwen3-1.7B-GGUF", "1.7B", 1_830_000_000, "apache-2.0", "Q8_0"},
	{"qwen3:4b", "Qwen/Qwen3-4B-GGUF", "4B", 2_500_000_000, "apache-2.0", "Q4_K_M"},
	{"qwen3:14b", "Qwen/Qwen3-14B-GGUF", "14B", 9_000_000_000, "apache-2.0", ""},
	{"qwen3:30b", "bartowski/Qwen_Qwen3-30B-A3B-GGUF", "30B", 18_600_000_000, "apache-2.0", "Q4_K_M"},
	{"qwen3:32b", "bartowski/Qwen_Qwen3-32B-GGUF", "32B", 19_800_000_000, "apache-2.0", "Q4_K_M"},
	{"qwen3.5:9b", "unsloth/Qwen3.5-9B-GGUF", "9B", 5_700_000_000, "apache-2.0", "Q4_K_M Q6_K Q8_0"},
	{"qwen3.5:4b", "bartowski/Qwen_Qwen3.5-4B-GGUF", "4B", 3_000_000_000, "apache-2.0", ""},
	{"qwen3.5:27b", "unsloth/Qwen3.5-27B-GGUF", "27B", 16_500_000_000, "apache-2.0", ""},
	{"qwen3.6:27b", "unsloth/Qwen3.6-27B-GGUF", "27B", 16_500_000_000, "apache-2.0", ""},
	{"qwen3.8:27b", "ggml-org/Qwen3.8-27B-GGUF", "27B", 19_000_000_000, "apache-2.0", "Q4_0 Q4_K_M Q8_0"},

	{"gemma3:4b", "ggml-org/gemma-3-4b-it-GGUF", "4B", 2_500_000_000, "gemma", "Q4_K_M Q8_0"},
	{"gemma3:270m", "ggml-org/gemma-3-270m-it-qat-GGUF", "270M", 241_410_624, "gemma", "Q4_0"},
	{"gemma3:1b", "ggml-org/gemma-3-1b-it-GGUF", "1B", 810_000_000, "gemma", "Q4_K_M"},
	{"gemma3:12b", "ggml-org/gemma-3-12b-it-GGUF", "12B", 7_300_000_000, "gemma", ""},
	{"gemma3:27b", "ggml-org/gemma-3-27b-it-GGUF", "27B", 16_500_000_000, "gemma", ""},
	{"gemma3n:e4b", "ggml-org/gemma-3n-E4B-it-GGUF", "E4B", 7_353_292_256, "gemma", "Q8_0"},
	{"gemma3n:e2b", "ggml-org/gemma-3n-E2B-it-GGUF", "E2B", 4_788_112_064, "gemma", "Q8_0"},
	{"gemma4:e4b", "ggml-org/gemma-4-E4B-it-GGUF", "E4B", 5_000_000_000, "apache-2.0", "Q4_K_M"},
	{"gemma4:e2b", "ggml-org/gemma-4-E2B-it-GGUF", "E2B", 5_000_000_000, "apache-2.0", "Q8_0"},
	{"gemma4:26b", "ggml-org/gemma-4-26B-A4B-it-GGUF", "26B", 16_500_000_000, "apache-2.0", "Q4_K_M"},
	{"gemma4:31b", "unsloth/gemma-4-31B-it-GGUF", "31B", 18_500_000_000, "apache-2.0", "Q4_K_M"},

	{"llama3.2:3b", "bartowski/Llama-3.2-3B-Instruct-GGUF", "3B", 2_000_000_000, "llama3.2", "Q4_K_M Q6_K"},
	{"llama3.2:1b", "bartowski/Llama-3.2-1B-Instruct-GGUF", "1B", 810_000_000, "llama3.2", "Q4_K_M Q8_0"},
	{"llama3.1:8b", "bartowski/Meta-Llama-3.1-8B-Instruct-GGUF", "8B", 4_900_000_000,
		"llama3.1", "IQ3_M Q4_K_M Q4_K_S Q8_0"},
	{"llama3.3:70b", "MaziyarPanahi/Llama-3.3-70B-Instruct-GGUF", "70B", 42_500_000_000, "llama3.3", "Q4_K_M"},

	{"phi4:14b", "microsoft/phi-4-gguf", "14B", 9_000_000_000, "mit", ""},
	{"phi4-mini:3.8b", "unsloth/Phi-4-mini-instruct-GGUF", "3.8B", 2_491_874_272, "mit", "Q4_K_M"},

	{"mistral:7b", "lmstudio-community/Mistral-7B-Instruct-v0.3-GGUF", "7B", 4_400_000_000, "apache-2.0", ""},
	{"mistral-nemo:12b", "bartowski/Mistral-Nemo-Instruct-2407-GGUF", "12B", 7_500_000_000, "apache-2.0", "Q4_K_M"},
	{"mistral-small3.2:24b", "bartowski/mistralai_Mistral-Small-3.2-24B-Instruct-2506-GGUF", "24B", 14_300_000_000,
		"apache-2.0", "Q4_K_M"},
	{"ministral-3:8b", "unsloth/Ministral-3-8B-Instruct-2512-GGUF", "8B", 5_198_911_904, "apache-2.0", "Q4_K_M"},
	{"ministral-3:3b", "unsloth/Ministral-3-3B-Instruct-2512-GGUF", "3B", 2_150_000_000, "apache-2.0", "Q4_K_M"},
	{"ministral-3:14b", "unsloth/Ministral-3-14B-Instruct-2512-GGUF", "14B", 8_200_000_000, "apache-2.0", "Q4_K_M"},
	{"magistral:24b", "bartowski/mistralai_Magistral-Small-2509-GGUF", "24B", 14_300_000_000, "apache-2.0", "Q4_K_M"},
	{"devstral:24b", "bartowski/mistralai_Devstral-Small-2507-GGUF", "24B", 14_300_000_000, "apache-2.0", "Q4_K_M"},

	{"deepseek-r1:7b", "bartowski/DeepSeek-R1-Distill-Qwen-7B-GGUF", "7B", 4_700_000_000, "mit", "Q4_K_M"},
	{"granite3.3:8b", "bartowski/ibm-granite_granite-3.3-8b-instruct-GGUF", "8B", 4_900_000_000, "apache-2.0", "Q4_K_M"},
	{"granite3.3:2b", "bartowski/ibm-granite_granite-3.3-2b-instruct-GGUF", "2B", 1_550_000_000, "apache-2.0", "Q4_K_M"},
	{"granite4:micro", "bartowski/ibm-granite_granite-4.0-micro-GGUF", "", 2_100_000_000, "apache-2.0", "Q4_K_M"},
	{"granite4:tiny-h", "bartowski/ibm-granite_granite-4.0-h-tiny-GGUF", "", 4_200_000_000, "apache-2.0", "Q4_K_M"},
	{"granite4:small-h", "bartowski/ibm-granite_granite-4.0-h-small-GGUF", "", 19_476_621_984, "apache-2.0", "Q4_K_M"},
	{"smollm2:1.7b", "HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF", "1.7B", 1_060_000_000, "apache-2.0", "Q4_K_M"},
	{"smollm3:3b", "bartowski/HuggingFaceTB_SmolLM3-3B-GGUF", "3B", 1_900_000_000, "apache-2.0", "Q4_K_M"},
	{"glm-4.7-flash", "unsloth/GLM-4.7-Flash-GGUF", "", 18_312_339_776, "mit", "Q4_K_M"},
}

// All returns the well-known models. The first of a series is what the name of the series alone means.
func All() []Known { return slices.Clone(known) }

// squash removes what differs between the spellings of a name: case and the marks between its parts, but not the
// points in numbers.
func squash(s string) string {
	return strings.NewReplacer("-", "", "_", "", ":", "").Replace(strings.ToLower(s))
}

// plainRepo returns the name of the repository without its owner and the suffix of its format.
func plainRepo(repo string) string {
	base := repo[strings.LastIndex(repo, "/")+1:]
	if rest, ok := cutSuffixFold(base, suffix); ok {
		return rest
	}
	return base
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if cut := len(s) - len(suffix); cut > 0 && strings.EqualFold(s[cut:], suffix) {
		return s[:cut], true
	}
	return s, false
}

// spellings returns what the model is called, squashed.
func (k *Known) spellings() []string {
	base := plainRepo(k.Repo)
	if _, rest, ok := strings.Cut(base, "_"); ok {
		base = rest // bartowski's repositories begin with the owner of the original
	}
	all := []string{squash(k.Name), squash(base)}
	for _, tail := range []string{"-it", "-instruct"} {
		if short, ok := cutSuffixFold(base, tail); ok {
			all = append(all, squash(short))
		}
	}
	return all
}

// quantAtEnd is a quantization at the end of a short name, as in llama3.2:3b-q8_0.
var quantAtEnd = regexp.MustCompile(`(?i)^(.+?)(?:-instruct|-it)?[-:](i?q\d(?:_[a-z0-9]+)*|bf16|fp?16|mxfp4)$`)

// Find returns the well-known model that a word means, in any case and with "-" for ":", and the quantization that the
// word ends with, if any. The name of a series without a size means its first model.
func Find(word string) (model Known, quant string, ok bool) {
	if k, ok := find(word); ok {
		return k, "", true
	}
	if m := quantAtEnd.FindStringSubmatch(word); m != nil {
		if k, ok := find(m[1]); ok {
			return k, strings.ToUpper(m[2]), true
		}
	}
	return Known{}, "", false
}

// Quants returns quantizations that a model in the table has. name is a name of one word without a quantization, or a
// repository. There are none for other models.
func Quants(name string) []string {
	n, err := Parse(name)
	if err != nil || n.Selector != "" {
		return nil
	}
	if k, quant, ok := Find(n.Word); ok && quant == "" {
		return strings.Fields(k.Quants)
	}
	k, _ := OfRepo(n.Repo)
	return strings.Fields(k.Quants)
}

// OfRepo returns the well-known model of a repository, in any case and with or without -GGUF at the end.
func OfRepo(repo string) (Known, bool) {
	for _, k := range known {
		short, _ := cutSuffixFold(k.Repo, suffix)
		if strings.EqualFold(repo, k.Repo) || strings.EqualFold(repo, short) {
			return k, true
		}
	}
	return Known{}, false
}

func find(word string) (Known, bool) {
	base, ok := cutSuffixFold(word, ":latest")
	if !ok {
		base, _ = cutSuffixFold(word, suffix)
	}
	wanted := squash(base)
	for i := range known {
		for _, spelling := range known[i].spellings() {
			if spelling == wanted {
				return known[i], true
			}
		}
	}
	for _, k := range known {
		if series, _, ok := strings.Cut(k.Name, ":"); ok && squash(series) == wanted {
			return k, true
		}
	}
	return Known{}, false
}
