package catalog_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"runner/models/catalog"
)

var update = flag.Bool("update", false, "write the golden file")

const gib = 1 << 30

// repositories are lists of files as real repositories have them, with sizes in tenths of GB.
var repositories = map[string][]string{
	"gpt-oss": {".gitattributes 0", "README.md 0", "gpt-oss-20b-mxfp4.gguf 121"},
	"gpt-oss in many formats": {"gpt-oss-20b-F16.gguf 138", "gpt-oss-20b-MXFP4.gguf 121", "gpt-oss-20b-Q4_K_M.gguf 116",
		"gpt-oss-20b-Q8_0.gguf 121", "gpt-oss-20b-UD-Q4_K_XL.gguf 119"},
	"8b": {"README.md 0", "Qwen3-8B-BF16.gguf 164", "Qwen3-8B-IQ4_XS.gguf 46", "Qwen3-8B-Q2_K.gguf 33",
		"Qwen3-8B-Q4_0.gguf 48", "Qwen3-8B-Q4_K_M.gguf 50", "Qwen3-8B-Q5_K_M.gguf 59", "Qwen3-8B-Q6_K.gguf 67",
		"Qwen3-8B-Q8_0.gguf 87", "Qwen3-8B-UD-IQ1_S.gguf 23", "Qwen3-8B-UD-Q4_K_XL.gguf 51", "config.json 0",
		"imatrix_unsloth.dat 0", "params 0"},
	"vision": {"gemma-3-4b-it-Q4_K_M.gguf 25", "gemma-3-4b-it-Q8_0.gguf 41", "gemma-3-4b-it-f16.gguf 78",
		"mmproj-model-f16.gguf 9", "gemma-3-4b-it.imatrix.gguf 0"},
	"drafts": {"Qwen3.8-27B-Q4_K_M.gguf 165", "mmproj-Qwen3.8-27B-Q8_0.gguf 5", "mtp-Qwen3.8-27B-Q4_0.gguf 9"},
	"folders": {"BF16/big-BF16-00001-of-00003.gguf 400", "BF16/big-BF16-00002-of-00003.gguf 400",
		"BF16/big-BF16-00003-of-00003.gguf 300", "Q4_K_M/big-Q4_K_M-00001-of-00002.gguf 400",
		"Q4_K_M/big-Q4_K_M-00002-of-00002.gguf 200", "Q2_K/big-00001-of-00001.gguf 250"},
	"a part is missing": {"m-Q4_K_M-00001-of-00002.gguf 50", "m-Q8_0-00001-of-00002.gguf 50",
		"m-Q8_0-00002-of-00002.gguf 40"},
	"nothing whole":        {"m-Q4_K_M-00002-of-00002.gguf 50"},
	"no quantization":      {"model.gguf 30"},
	"two models":           {"chat-Q4_K_M.gguf 30", "code-Q4_K_M.gguf 30", "code-Q8_0.gguf 55"},
	"only without":         {"m-f16.gguf 20", "m-f32.gguf 40"},
	"few bits or all bits": {"m-f16.gguf 20", "m-Q2_K.gguf 5"},
	"mlx": {"README.md 0", "config.json 0", "generation_config.json 0", "merges.txt 0", "chat_template.jinja 0",
		"model.safetensors 43", "model.safetensors.index.json 0", "special_tokens_map.json 0", "tokenizer.json 0",
		"tokenizer_config.json 0", "vocab.json 0", ".gitattributes 0"},
	"original": {"LICENSE 0", "USAGE_POLICY 0", "config.json 0", "consolidated.safetensors 145", "metal/model.bin 138",
		"model-00001-of-00003.safetensors 48", "model-00002-of-00003.safetensors 48",
		"model-00003-of-00003.safetensors 42", "onnx/model.onnx 30", "original/model.safetensors 138",
		"pytorch_model.bin 138", "tokenizer.json 0", "tokenizer.model 0"},
	"both":     {"config.json 0", "model.safetensors 80", "model-Q8_0.gguf 40", "tokenizer.json 0"},
	"adapter":  {"adapter_config.json 0", "adapter_model.safetensors 1", "README.md 0"},
	"training": {"config.json 0", "pytorch_model.bin 5"},
	"data":     {"train.parquet 20"},
	"empty":    {},
}

// asked is what is asked for in these repositories. Elsewhere it is nothing in particular.
var asked = map[string][]string{
	"8b":                {"Q4_K_M", "q8_0", "Q4_K", "UD-Q4_K_XL", "BF16", "Qwen3-8B-q4_0.gguf", "README.md"},
	"vision":            {"f16", "mmproj-model-f16.gguf", "gemma-3-4b-it.imatrix.gguf"},
	"folders":           {"BF16", "BF16/big-BF16-00002-of-00003.gguf", "big-BF16-00001-of-00003.gguf", "q2_k"},
	"a part is missing": {"Q4_K_M", "m-Q8_0-00002-of-00002.gguf"},
	"two models":        {"code", "Q8_0", "Q4_K_M", "chat-Q4_K_M.gguf"},
	"mlx":               {"Q4_K_M", "model.safetensors"},
	"both":              {"model.safetensors"},
}

func files(t *testing.T, lines []string) (files []catalog.File) {
	t.Helper()
	for _, line := range lines {
		var f catalog.File
		if _, err := fmt.Sscanf(line, "%s %d", &f.Path, &f.Size); err != nil {
			t.Fatal(err)
		}
		f.Size *= 100_000_000
		files = append(files, f)
	}
	return files
}

// TestChoices compares what is chosen from each repository, for what people ask for and machines of several sizes,
// with a golden file. Write it with -update and read the difference.
func TestChoices(t *testing.T) {
	var names []string
	for name := range repositories {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%s\n", name)
		all := files(t, repositories[name])
		ask := func(wanted string, memory int64) {
			c, err := catalog.Choose(all, wanted, memory*gib)
			fmt.Fprintf(&b, "  %-30s", fmt.Sprintf("%q in %d GiB", wanted, memory))
			if err != nil {
				fmt.Fprintf(&b, " error: %v\n", err)
				return
			}
			var paths []string
			for _, f := range c.Files {
				paths = append(paths, f.Path)
			}
			fmt.Fprintf(&b, " %s %q %.1f GB", c.Format, c.Quant, float64(c.Bytes())/1e9)
			if !c.Fits(memory * gib) {
				b.WriteString(", too big")
			}
			fmt.Fprintf(&b, ": %s\n", strings.Join(paths, " "))
		}
		for _, memory := range []int64{0, 4, 8, 16, 128} {
			ask("", memory)
		}
		for _, wanted := range asked[name] {
			ask(wanted, 16)
		}
		c, err := catalog.Choose(all, "", 16*gib)
		for _, f := range leftOut(all, c) {
			why := catalog.NotModel(f.Path)
			if c.Format == catalog.GGUF && why != "" {
				f.Path += ": " + why
			}
			fmt.Fprintf(&b, "    without %s\n", f.Path)
		}
		var e *catalog.Error
		if err != nil && (!errors.As(err, &e) || e.Hint() == "" || strings.Contains(e.Error(), "\n")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	const golden = "testdata/choices.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	got, wanted := strings.Split(b.String(), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(got), len(wanted)) {
		if i >= len(got) || i >= len(wanted) || got[i] != wanted[i] {
			t.Fatalf("line %d of %s differs:\n%s", i+1, golden, got[min(i, len(got)-1)])
		}
	}
}

// leftOut returns the files of a repository that are not part of what was chosen, if anything was, sorted by path.
func leftOut(all []catalog.File, chosen catalog.Entry) []catalog.File {
	if chosen.Path == "" {
		return nil
	}
	rest := slices.DeleteFunc(slices.Clone(all), func(f catalog.File) bool { return slices.Contains(chosen.Files, f) })
	slices.SortFunc(rest, func(a, b catalog.File) int { return strings.Compare(a.Path, b.Path) })
	return rest
}

// TestEveryChoiceIsAModel makes random repositories and holds what callers rely on.
func TestEveryChoiceIsAModel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	stems := []string{"m", "gpt-oss-20b", "a/b", "mmproj-m", "mtp-m", "m.imatrix", "X-UD"}
	others := []string{"config.json", "model.safetensors", "tokenizer.json", "original/model.safetensors", "x.bin",
		"README.md"}
	quants := append(slices.Clone(catalog.Quants), "", "weird")
	chosen, refused := 0, 0
	for range 3000 {
		var all []catalog.File
		add := func(path string) {
			if !slices.ContainsFunc(all, func(f catalog.File) bool { return f.Path == path }) {
				all = append(all, catalog.File{Path: path, Size: random.Int64N(40 * gib)})
			}
		}
		for range random.IntN(8) {
			stem := stems[random.IntN(len(stems))] + "-" + quants[random.IntN(len(quants))]
			if parts := random.IntN(3); parts == 0 {
				add(stem + ".gguf")
			} else {
				for i := range parts {
					if random.IntN(9) > 0 {
						add(fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i+1, parts))
					}
				}
			}
		}
		for _, o := range others {
			if random.IntN(3) == 0 {
				add(o)
			}
		}
		memory := random.Int64N(100 * gib)
		wanted := ""
		if random.IntN(2) == 0 && len(all) > 0 {
			wanted = all[random.IntN(len(all))].Path
		}
		c, err := catalog.Choose(all, wanted, memory)
		if err != nil {
			refused++
			continue
		}
		chosen++
		describe := func() string { text, _ := json.Marshal([]any{all, wanted, memory, c}); return string(text) }
		if len(c.Files)+len(leftOut(all, c)) != len(all) || len(c.Files) == 0 {
			t.Fatalf("%d files of %d are chosen: %s", len(c.Files), len(all), describe())
		}
		var sum int64
		for _, f := range c.Files {
			sum += f.Size
			if c.Format == catalog.GGUF && catalog.NotModel(f.Path) != "" || strings.Contains(f.Path, "original/") {
				t.Fatalf("%s is chosen: %s", f.Path, describe())
			}
		}
		if sum != c.Bytes() || c.Fits(memory) != (memory == 0 || catalog.Need(sum) <= memory) {
			t.Fatalf("sizes: %s", describe())
		}
		if c.Format == catalog.GGUF {
			if parts := catalog.Parts(c.Files[0].Path); len(parts) != len(c.Files) {
				t.Fatalf("parts are missing: %s", describe())
			}
		}
		if !c.Fits(memory) && wanted == "" && c.Format == catalog.GGUF {
			for _, e := range catalog.GGUFs(all) {
				if e.Problem == "" && e.Fits(memory) {
					t.Fatalf("%s fits: %s", e.Path, describe())
				}
			}
		}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		again, err := catalog.Choose(all, wanted, memory)
		if a, b := fmt.Sprint(again, err), fmt.Sprint(c, error(nil)); a != b {
			t.Fatalf("the order of the files matters: %s, %s", a, b)
		}
	}
	if chosen < 500 || refused < 100 {
		t.Errorf("%d chosen, %d refused: the repositories are not varied enough", chosen, refused)
	}
}

func TestQuantOf(t *testing.T) {
	for file, want := range map[string]string{
		"Qwen3-8B-Q4_K_M.gguf": "Q4_K_M", "llama-3.2-1b-instruct-q4_k_m.gguf": "Q4_K_M", "Qwen3-8B.Q4_K_M.gguf": "Q4_K_M",
		"m.i1-IQ2_XXS.gguf": "IQ2_XXS", "m-UD-Q4_K_XL.gguf": "UD-Q4_K_XL", "gpt-oss-20b-mxfp4.gguf": "MXFP4",
		"gpt-oss-120b-mxfp4-00001-of-00003.gguf": "MXFP4", "gemma-3-4b-it-f16.gguf": "F16", "Q8_0/m.gguf": "Q8_0",
		"m.gguf": "", "Q4.gguf": "", "embeddinggemma-300m-qat-q8_0.gguf": "Q8_0", "m-Q6_K_L.gguf": "Q6_K_L",
		"m-Q4_0-Q8_0.gguf": "Q8_0", "BF16/m-Q4_K_S.gguf": "Q4_K_S", "phi-4-bf16.gguf": "BF16", "m-Q40.gguf": "",
	} {
		if got := catalog.QuantOf(file); got != want {
			t.Errorf("%s has %q, want %q", file, got, want)
		}
	}
}
