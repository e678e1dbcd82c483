// Package o200ktest provides the real vocabulary of gpt-oss, o200k_harmony, to tests: 201,088 tokens with OpenAI's
// public ranks and the special tokens of the harmony format. Only tests may import it, because the ranks are
// several megabytes.
package o200ktest

import (
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
	return tokenizer.FromRanks(tokenizer.RanksConfig{
		Ranks: ranks, Pattern: "o200k", Special: Special(), Size: Size,
		BOS: StartOfText, EOS: Return, EOG: []backend.Token{Return, Call},
	})
})

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
