package llamacpp

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"runner/backend"
	"runner/backend/tokenizer/texttest"
	"runner/models/random"
	"runner/models/random/ggufwriter"
	"runner/testenv"
)

// defined are the user-defined tokens of the vocabularies below. Some of them overlap each other.
var defined = []string{"<td>", "</td>", "<b>", "</b", "/b><td>", "[X]", "\n", "\n\n", "\n\n\n", "  ", "    ", "\t",
	"<think>",
	"</think>", "ing the", "the end"}

// vocabularyOf writes a small model whose vocabulary is changed, and returns its path.
func vocabularyOf(t testing.TB, size int, change func(p *parts, tokens []string, types []int32)) string {
	t.Helper()
	c := smallest
	c.Vocabulary = size
	raw, err := os.ReadFile(writeModel(t, c))
	if err != nil {
		t.Fatal(err)
	}
	p, err := takeApart(raw)
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	var types []int32
	for _, kv := range p.metadata {
		switch kv.Key {
		case "tokenizer.ggml.tokens":
			tokens = kv.Value.([]string)
		case "tokenizer.ggml.token_type":
			types = kv.Value.([]int32)
		}
	}
	change(p, tokens, types)
	out, err := p.put()
	if err != nil {
		t.Fatal(err)
	}
	return written(t, out)
}

// byteLevel returns a model with a byte-level vocabulary and the user-defined tokens. With lacking, some bytes have no
// token.
func byteLevel(t testing.TB, pre string, lacking bool) string {
	return vocabularyOf(t, 2000, func(p *parts, tokens []string, types []int32) {
		at := len(tokens) - 16 - len(defined)
		for i, text := range defined {
			tokens[at+i], types[at+i] = text, 4
		}
		var merges []string
		for _, kv := range p.metadata {
			if kv.Key == "tokenizer.ggml.merges" {
				merges = kv.Value.([]string)
			}
		}
		known := map[string]bool{}
		for i, text := range tokens {
			known[text] = types[i] == 1
		}
		if lacking {
			for i, b := range []byte{4, 0x14, 0xf1, 0xff} {
				tokens[slices.Index(tokens, ggufwriter.Alphabet(string([]byte{b})))] = fmt.Sprintf("absent %d", i)
			}
		}
		p.set("tokenizer.ggml.merges", slices.DeleteFunc(merges, func(m string) bool {
			return !known[strings.Replace(m, " ", "", 1)]
		}))
		p.set("tokenizer.ggml.pre", pre)
	})
}

// sentencePieces returns a model with a vocabulary of SentencePiece. It has tokens that cross words, tokens with a
// character that is none, equal scores, a normal token for U+0001, names of control tokens that merges could make, and
// the user-defined tokens.
func sentencePieces(t testing.TB, prefix bool) string {
	return vocabularyOf(t, 2000, func(p *parts, tokens []string, types []int32) {
		r := rand.New(rand.NewPCG(7, 7))
		scores := make([]float32, len(tokens))
		seen := map[string]bool{}
		var normal []string
		next := 0
		add := func(text string, kind int32) {
			if !seen[text] && next < len(tokens) {
				seen[text], tokens[next], types[next] = true, text, kind
				scores[next] = float32(-r.IntN(300))
				if next++; kind == 1 {
					normal = append(normal, text)
				}
			}
		}
		add("<unk>", 2)
		add("<s>", 3)
		add("</s>", 3)
		for b := range 256 {
			add(fmt.Sprintf("<0x%02X>", b), 6)
		}
		for _, text := range defined {
			add(text, 4)
		}
		for _, text := range strings.Split("\u2581 \x01 < > / s < </ <s a b c d e f g h i n o r t é 中 1 2 ! . , \u2581\u2581",
			" ") {
			add(text, 1)
		}
		for _, text := range []string{"zq", "qz", "s>", "<s", "e\u2581t", "the\u2581", "in", "ing", "\u2581t", "\u2581the",
			"d\u2581a"} {
			add(text, 1)
		}
		for next < len(tokens) {
			if text := normal[r.IntN(len(normal))] + normal[r.IntN(len(normal))]; utf8.RuneCountInString(text) < 9 {
				add(text, 1)
			}
		}
		p.set("tokenizer.ggml.model", "llama")
		p.add("tokenizer.ggml.scores", scores)
		p.add("tokenizer.ggml.add_space_prefix", prefix)
		p.set("tokenizer.ggml.bos_token_id", uint32(1))
		p.set("tokenizer.ggml.eos_token_id", uint32(2))
	})
}

// wholeTexts calls yield for texts of many kinds, with lengths around the limits of this package.
func wholeTexts(r *rand.Rand, yield func(kind, text string)) {
	table := strings.Repeat("<table><tr><td><b>Ann</b></td><td>1,024 km</td></tr>\n\n"+
		"<tr><td>the end</b><td></td></tr>", 300)
	code := strings.Repeat("func add(a, b int) int {\n\tif a  < b {\n\t\treturn a+b // 'tis\n\t}\n}\n\n\n", 300)
	digits := make([]byte, 20_000)
	for i := range digits {
		digits[i] = byte('0' + r.IntN(10))
	}
	for name, long := range map[string]string{
		"prose": strings.Repeat("The end of the night, ing the zqz  rain. It's 12345 or so;\nwe'll see. ", 300),
		"table": table, "code": code, "parts": assigned(texttest.Random(r, 6000)),
		"chinese": strings.Repeat("中文日本語ééа中", 900), "digits": string(digits),
		"letters": strings.Repeat("a", 20_000), "spaces": strings.Repeat(" ", 20_000), "lines": strings.Repeat("\n", 20_000),
		"marks": strings.Repeat("!", 20_000), "accents": strings.Repeat("é", 10_000), "words": strings.Repeat("dabc", 5000),
		"blocks": strings.Repeat("\u2581the \x01", 2000), "tags": strings.Repeat("</b><td><think>", 1400),
	} {
		lengths := []int{1, 7, margin, maxRun - 1, maxRun, maxRun + 1, 2*maxRun - margin, 2 * maxRun, 2*maxRun + 1}
		if os.Getenv("RUNNER_LONG") != "" {
			lengths = append(lengths, 2, maxRun/2-1, maxRun/2, maxRun-margin, maxRun-margin+1, maxRun+margin, 2*maxRun-1,
				3*maxRun-margin, 3*maxRun)
		}
		for _, n := range lengths {
			from := 0
			if name == "parts" {
				from = r.IntN(len(long) - n)
			}
			yield(name, strings.ToValidUTF8(long[from:from+n], ""))
		}
	}
}

// assigned leaves out the characters that are newer than Go's Unicode tables.
func assigned(text string) string {
	return strings.Map(func(c rune) rune {
		if c > 127 && !unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z) {
			return -1
		}
		return c
	}, text)
}

// checkWhole checks that a text's tokens are those that the engine makes of the whole text.
func checkWhole(t *testing.T, m *Model, kind, text string) {
	t.Helper()
	want, err := m.text.engine.tokenize(text)
	if err != nil {
		t.Fatalf("%s of %d bytes: the engine: %v", kind, len(text), err)
	}
	got, err := m.Tokenize(nil, text)
	if err != nil {
		t.Fatalf("%s of %d bytes: %v", kind, len(text), err)
	}
	if !slices.Equal(got, want) {
		i := 0
		for i < min(len(got), len(want)) && got[i] == want[i] {
			i++
		}
		t.Errorf("%s of %d bytes: token %d of %d is %q, the engine has %q", kind, len(text), i, len(want),
			some(m, got[i:]), some(m, want[i:]))
	}
}

func some(m *Model, tokens []backend.Token) (list []string) {
	for _, id := range tokens[:min(6, len(tokens))] {
		list = append(list, m.vocab.Piece(id))
	}
	return list
}

// TestTokensOfTheWholeText compares the tokens of texts with what the engine makes of the whole text at once, for every
// kind of vocabulary: split and merged in Go, and by the engine in stretches.
func TestTokensOfTheWholeText(t *testing.T) {
	for name, path := range map[string]string{
		"pieces with a space before": sentencePieces(t, true), "pieces": sentencePieces(t, false),
		"in Go": byteLevel(t, "qwen2", false), "bytes without tokens": byteLevel(t, "smollm", true),
		"default": byteLevel(t, "default", false), "deepseek-v3": byteLevel(t, "deepseek-v3", false),
		"deepseek-llm": byteLevel(t, "deepseek-llm", false), "deepseek-coder": byteLevel(t, "deepseek-coder", true),
		"falcon": byteLevel(t, "falcon", false), "bloom": byteLevel(t, "bloom", false),
		"kimi-k2": byteLevel(t, "kimi-k2", false), "afmoe": byteLevel(t, "afmoe", false),
		"seed-coder": byteLevel(t, "seed-coder", false),
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "deepseek") || name == "seed-coder" || name == "afmoe" {
				testenv.NeedLong(t, "the engine's regular expressions for it are slow")
			}
			m := openModel(t, path, backend.Config{ContextSize: 256, Sequences: 1})
			wholeTexts(rand.New(rand.NewPCG(1, 2)), func(kind, text string) { checkWhole(t, m, kind, text) })
		})
	}
}

// TestRealVocabularies does the same with real models, and looks for the control character that was once put before
// stretches of text.
func TestRealVocabularies(t *testing.T) {
	for _, name := range []string{"SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3-270m-q4_k_m.gguf"} {
		t.Run(name, func(t *testing.T) {
			m := openModel(t, testenv.RealModel(t, name), backend.Config{ContextSize: 256, Sequences: 1})
			wholeTexts(rand.New(rand.NewPCG(3, 4)), func(kind, text string) {
				checkWhole(t, m, kind, text)
				tokens, err := m.Tokenize(nil, text)
				var b strings.Builder
				for _, id := range tokens {
					b.WriteString(m.vocab.Piece(id))
				}
				if err != nil || strings.Count(b.String(), "\x01") != strings.Count(text, "\x01") {
					t.Errorf("%s of %d bytes: the tokens have %d control characters, %v", kind, len(text),
						strings.Count(b.String(), "\x01"), err)
				}
			})
		})
	}
}

// TestFolderTokensOfTheWholeText is TestTokensOfTheWholeText for an engine of a folder, which reads the vocabulary of
// gemma4 too.
func TestFolderTokensOfTheWholeText(t *testing.T) {
	e := folderEngine(t)
	for name, path := range map[string]string{
		"pieces": sentencePieces(t, false), "falcon": byteLevel(t, "falcon", false),
		"gemma4": writeModel(t, random.Config{Architecture: "gemma4", Layers: 4, Vocabulary: 2000}),
	} {
		t.Run(name, func(t *testing.T) {
			m, err := e.open(t.Context(), path, backend.Config{ContextSize: 256, Sequences: 1, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			wholeTexts(rand.New(rand.NewPCG(1, 2)), func(kind, text string) { checkWhole(t, m, kind, text) })
		})
	}
}
