package fake

import (
	"fmt"
	"strings"

	"runner/backend"
)

// words are pieces of more than one byte, so that text is not all single bytes: words, parts of words, pieces that
// contain a space, and halves of UTF-8 sequences.
var words = strings.Fields(`the and ing tion is are was have that this with from what answer because so plus minus
	user assistant system developer tool analysis commentary final functions json name arguments result summary
	reasoning think ab abc abcd 12 123 == -- !! {" "} ": <| |> </ 中文 é ö ß 🙂`)

// harmonySpecials are the control tokens of OpenAI's harmony format.
var harmonySpecials = []string{"<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>",
	"<|start|>",
	"<|end|>", "<|message|>", "<|call|>"}

// Harmony returns a vocabulary like that of gpt-oss: 256 bytes, some words, the control tokens of the harmony
// format and a few unused ids. <|return|> and <|call|> end generation.
func Harmony() *backend.Vocab {
	return build(harmonySpecials, nil, "<|startoftext|>", "<|return|>", "<|call|>")
}

// Think returns a vocabulary like that of models that reason between <think> and </think>: 256 bytes, some words,
// ChatML's control tokens, and the tags as user-defined tokens. <|im_end|> ends generation.
func Think() *backend.Vocab {
	return build([]string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"},
		[]string{"<think>", "</think>", "<tool_call>", "</tool_call>"}, "", "<|im_end|>", "<|endoftext|>")
}

// Code returns a vocabulary like that of models for code: 256 bytes, some words, and the tokens for filling a gap.
func Code() *backend.Vocab {
	return build([]string{"<|endoftext|>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>"}, nil,
		"", "<|endoftext|>", "")
}

// ThinkTemplate is a chat template for Think's vocabulary: ChatML without the reasoning of earlier turns.
const ThinkTemplate = `{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}
{%- endif %}`

func build(control, tags []string, bos, eos, eog string) *backend.Vocab {
	var c backend.VocabConfig
	c.BOS, c.EOS = backend.NoToken, backend.NoToken
	add := func(piece string, kind backend.TokenKind) {
		switch piece {
		case bos:
			c.BOS = backend.Token(len(c.Pieces))
		case eos:
			c.EOS = backend.Token(len(c.Pieces))
		}
		if piece == eos || piece == eog {
			c.EOG = append(c.EOG, backend.Token(len(c.Pieces)))
		}
		c.Pieces = append(c.Pieces, piece)
		c.Kinds = append(c.Kinds, kind)
	}
	for b := range 256 {
		add(string([]byte{byte(b)}), backend.Normal)
	}
	for _, w := range words {
		add(w, backend.Normal)
		add(" "+w, backend.Normal)
	}
	add("  ", backend.Normal)
	add("\n\n", backend.Normal)
	add("🙂"[:2], backend.Normal)
	add("🙂"[2:], backend.Normal)
	for _, s := range control {
		add(s, backend.Control)
	}
	for _, s := range tags {
		add(s, backend.UserDefined)
	}
	for i := range 5 {
		add(fmt.Sprintf("<|reserved_%d|>", i), backend.Unused)
	}
	v, err := backend.NewVocab(c)
	if err != nil {
		panic(err)
	}
	return v
}

// trie finds the longest normal token that a text starts with.
type trie struct {
	next  []map[byte]int32
	token []backend.Token
}

func newTrie(v *backend.Vocab) *trie {
	t := &trie{next: []map[byte]int32{{}}, token: []backend.Token{backend.NoToken}}
	for i := range v.Len() {
		id := backend.Token(i)
		if v.Kind(id) != backend.Normal && v.Kind(id) != backend.Byte || v.Piece(id) == "" {
			continue
		}
		n := int32(0)
		for _, b := range []byte(v.Piece(id)) {
			to, ok := t.next[n][b]
			if !ok {
				to = int32(len(t.next))
				t.next = append(t.next, map[byte]int32{})
				t.token = append(t.token, backend.NoToken)
				t.next[n][b] = to
			}
			n = to
		}
		if t.token[n] == backend.NoToken {
			t.token[n] = id
		}
	}
	for b := range 256 {
		if n, ok := t.next[0][byte(b)]; !ok || t.token[n] == backend.NoToken {
			panic(fmt.Sprintf("fake: the vocabulary has no token for byte %#x", b))
		}
	}
	return t
}

func (t *trie) tokenize(dst []backend.Token, text string) []backend.Token {
	for i := 0; i < len(text); {
		n, best, length := int32(0), backend.NoToken, 0
		for j := i; j < len(text); j++ {
			to, ok := t.next[n][text[j]]
			if !ok {
				break
			}
			if n = to; t.token[n] != backend.NoToken {
				best, length = t.token[n], j+1-i
			}
		}
		dst = append(dst, best)
		i += length
	}
	return dst
}

// Encode returns the tokens of text. Printed names of control and user-defined tokens become those tokens, as in
// the literals of a template. For text that a user typed, use Model.Tokenize.
func Encode(v *backend.Vocab, text string) []backend.Token {
	return encode(v, newTrie(v), text)
}

func encode(v *backend.Vocab, t *trie, text string) []backend.Token {
	var out []backend.Token
	start := 0
	for i := 0; i < len(text); {
		name, id := "", backend.NoToken
		for s, tok := range v.Specials {
			if len(s) > len(name) && strings.HasPrefix(text[i:], s) {
				name, id = s, tok
			}
		}
		if name == "" {
			i++
			continue
		}
		out = append(t.tokenize(out, text[start:i]), id)
		i += len(name)
		start = i
	}
	return t.tokenize(out, text[start:])
}

// Decode returns the text of tokens, with control tokens as their printed names.
func Decode(v *backend.Vocab, tokens []backend.Token) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(v.Piece(t))
	}
	return b.String()
}
