// Package o200ktest provides the real vocabulary of gpt-oss, o200k_harmony, to tests: 201,088 tokens with OpenAI's
// public ranks and the special tokens of the harmony format. Only tests may import it, because the ranks are
// several megabytes.
package o200ktest

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	loader "github.com/pkoukk/tiktoken-go-loader"

	"runner/backend"
	"runner/backend/tokenizer"
)

// Size is the number of tokens, padding included.
const Size = 201088

// The special tokens of o200k_harmony.
const (
	StartOfText backend.Token = 199998
	EndOfText   backend.Token = 199999
	Return      backend.Token = 200002
	Constrain   backend.Token = 200003
	Channel     backend.Token = 200005
	Start       backend.Token = 200006
	End         backend.Token = 200007
	Message     backend.Token = 200008
	Call        backend.Token = 200012
)

// Ranks returns the ranks of o200k_base. The map is shared and must not be changed.
var Ranks = sync.OnceValues(func() (map[string]int, error) {
	return loader.NewOfflineLoader().LoadTiktokenBpe("o200k_base.tiktoken")
})

// Special returns the control tokens by name, except the reserved ones.
func Special() map[string]backend.Token {
	return map[string]backend.Token{
		"<|startoftext|>": StartOfText, "<|endoftext|>": EndOfText, "<|return|>": Return, "<|constrain|>": Constrain,
		"<|channel|>": Channel, "<|start|>": Start, "<|end|>": End, "<|message|>": Message, "<|call|>": Call,
	}
}

var shared = sync.OnceValues(func() (*tokenizer.Tokenizer, error) {
	ranks, err := Ranks()
	if err != nil {
		return nil, err
	}
	merges, err := Merges()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(file(ranks, merges))
	if err != nil {
		return nil, err
	}
	return tokenizer.FromJSON(text, tokenizer.Ends{BOS: "<|startoftext|>", EOS: "<|return|>", EOG: []string{"<|call|>"}})
})

// pattern splits text into words.
const pattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` +
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
	`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
	`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// file returns the vocabulary as a tokenizer.json has it.
func file(ranks map[string]int, merges []string) map[string]any {
	type added struct {
		ID      backend.Token `json:"id"`
		Content string        `json:"content"`
		Special bool          `json:"special"`
	}
	special := []added{{Size - 1, "<|reserved|>", true}} // the rest of the padding has no tokens
	for name, id := range Special() {
		special = append(special, added{id, name, true})
	}
	vocab := make(map[string]int, len(ranks))
	for piece, id := range ranks {
		vocab[alphabet(piece)] = id
	}
	return map[string]any{
		"added_tokens": special,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]string{"Regex": pattern}, "behavior": "Isolated"},
			map[string]any{"type": "ByteLevel", "use_regex": false},
		}},
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": true},
	}
}

// Merges returns, for every token in order of rank, the merge that makes it, as vocabulary files have it. That merge
// joins the two tokens to which the merges of lower rank reduce its bytes. If they leave more than two tokens, the
// token only occurs where it is a whole word. The list is shared and must not be changed.
var Merges = sync.OnceValues(func() ([]string, error) {
	ranks, err := Ranks()
	if err != nil {
		return nil, err
	}
	var list []string
	byRank := slices.SortedFunc(maps.Keys(ranks), func(a, b string) int { return ranks[a] - ranks[b] })
	for _, piece := range byRank {
		var parts []string
		for i := range len(piece) {
			parts = append(parts, piece[i:i+1])
		}
		for len(parts) > 1 {
			best, at := ranks[piece], -1
			for i := range len(parts) - 1 {
				if rank, ok := ranks[parts[i]+parts[i+1]]; ok && rank < best {
					best, at = rank, i
				}
			}
			if at < 0 {
				break
			}
			parts[at] += parts[at+1]
			parts = slices.Delete(parts, at+1, at+2)
		}
		if len(parts) == 2 {
			list = append(list, alphabet(parts[0])+" "+alphabet(parts[1]))
		}
	}
	return list, nil
})

// alphabet writes every byte as a printable character, as vocabularies of GPT-2's kind do.
func alphabet(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(printable[s[i]])
	}
	return b.String()
}

var printable = func() (runes [256]rune) {
	next := rune(0x100)
	for b := range runes {
		if runes[b] = rune(b); !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			runes[b] = next
			next++
		}
	}
	return runes
}()

// Tokenizer returns the tokenizer of o200k_harmony. It is built once and shared by all tests of a process. If that
// fails, t ends.
func Tokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	k, err := shared()
	if err != nil {
		t.Fatalf("o200k_harmony: %v", err)
	}
	return k
}
