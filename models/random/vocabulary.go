package random

import (
	"fmt"

	"runner/models/random/ggufwriter"
)

// vocabulary is a byte-level BPE vocabulary as GGUF's tokenizer keys store it.
type vocabulary struct {
	tokens []string
	types  []int32
	merges []string
	ids    map[string]uint32
}

// Token types of GGUF.
const (
	normalType  = 1
	controlType = 3
	byteType    = 6
)

// specials are harmony's control tokens. The key is the distance from the first one, as in o200k_harmony.
var specials = map[int]string{0: "<|startoftext|>", 1: "<|endoftext|>", 4: "<|return|>", 5: "<|constrain|>",
	7: "<|channel|>", 8: "<|start|>", 9: "<|end|>", 10: "<|message|>", 14: "<|call|>"}

// newVocabulary makes n tokens: 256 bytes, pieces made by merges, and 16 control tokens, or 1,090 at the real size.
// With plain, pieces are plain text with a mark for the space, and bytes that they lack have names such as "<0x0A>".
func newVocabulary(n int, plain bool) (*vocabulary, error) {
	control := 16
	if n >= 201088 {
		control = 1090
	}
	if n < 256+control || plain && n < 256+characters+control {
		return nil, fmt.Errorf("a vocabulary of %d tokens has no room for 256 bytes and %d control tokens", n, control)
	}
	v := &vocabulary{ids: map[string]uint32{}}
	space := ggufwriter.Alphabet(" ")
	for b := range 256 {
		if plain {
			v.add(fmt.Sprintf("<0x%02X>", b), byteType)
		} else {
			v.add(ggufwriter.Alphabet(string([]byte{byte(b)})), normalType)
		}
	}
	if plain {
		space = "\u2581"
		v.add(space, normalType)
		v.add("\n", normalType)
		for c := '!'; c <= '~'; c++ {
			v.add(string(c), normalType)
		}
	}
	v.pieces(n-control, space)
	for i := range control {
		name, ok := specials[i]
		if !ok {
			name = fmt.Sprintf("<|reserved_%d|>", len(v.tokens))
		}
		v.add(name, controlType)
	}
	return v, nil
}

// characters is how many characters have a token in a plain vocabulary.
const characters = 2 + '~' - '!' + 1

func (v *vocabulary) id(token string) uint32 { return v.ids[token] }

func (v *vocabulary) add(token string, kind int32) bool {
	if _, dup := v.ids[token]; dup {
		return false
	}
	v.ids[token] = uint32(len(v.tokens))
	v.tokens = append(v.tokens, token)
	v.types = append(v.types, kind)
	return true
}

// pieces adds merges until there are n tokens: first pairs of frequent letters, with and without a space in front, then
// these with one more letter, and so on.
func (v *vocabulary) pieces(n int, space string) {
	const letters = "etaoinshrdlcumwfgypbvkjxqz"
	last := []string{space}
	for _, l := range letters {
		last = append(last, string(l))
	}
	for len(v.tokens) < n {
		var grown []string
		for _, p := range last {
			for _, l := range letters {
				if len(v.tokens) == n {
					return
				}
				if v.add(p+string(l), normalType) {
					v.merges = append(v.merges, p+" "+string(l))
					grown = append(grown, p+string(l))
				}
			}
		}
		last = grown
	}
}
