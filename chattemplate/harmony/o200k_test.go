package harmony_test

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlclark/regexp2"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"runner/backend"
	"runner/chattemplate/harmony"
)

// o200k is the o200k_harmony encoding, just large enough for these tests: the public ranks, the public split pattern and
// merges by lowest rank.
type o200k struct {
	ranks map[string]int
	split *regexp2.Regexp
	vocab *backend.Vocab
}

const o200kPattern = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
	`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|` +
	`\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

var o200kSpecials = map[string]int{
	"<|startoftext|>": 199998, "<|endoftext|>": 199999, "<|return|>": 200002, "<|constrain|>": 200003,
	"<|channel|>": 200005, "<|start|>": 200006, "<|end|>": 200007, "<|message|>": 200008, "<|call|>": 200012,
}

func newO200k(t testing.TB) *o200k {
	t.Helper()
	ranks, err := loader.NewOfflineLoader().LoadTiktokenBpe("o200k_base.tiktoken")
	if err != nil {
		t.Fatal(err)
	}
	c := backend.VocabConfig{BOS: backend.NoToken, EOS: 200002, EOG: []backend.Token{200002, 200012}}
	c.Pieces, c.Kinds = make([]string, 201088), make([]backend.TokenKind, 201088)
	for i := range c.Kinds {
		c.Kinds[i] = backend.Unused
	}
	for piece, id := range ranks {
		c.Pieces[id], c.Kinds[id] = piece, backend.Normal
	}
	for piece, id := range o200kSpecials {
		c.Pieces[id], c.Kinds[id] = piece, backend.Control
	}
	vocab, err := backend.NewVocab(c)
	if err != nil {
		t.Fatal(err)
	}
	return &o200k{ranks: ranks, split: regexp2.MustCompile(o200kPattern, regexp2.None), vocab: vocab}
}

// encode appends the tokens of plain text.
func (o *o200k) encode(t testing.TB, dst []backend.Token, text string) []backend.Token {
	t.Helper()
	m, err := o.split.FindStringMatch(text)
	for ; err == nil && m != nil; m, err = o.split.FindNextMatch(m) {
		dst = o.merge(dst, m.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	return dst
}

// merge joins the pair of lowest rank until no pair is a token.
func (o *o200k) merge(dst []backend.Token, word string) []backend.Token {
	var parts []string
	for i := range len(word) {
		parts = append(parts, word[i:i+1])
	}
	for {
		best, at := math.MaxInt, -1
		for i := range len(parts) - 1 {
			if r, ok := o.ranks[parts[i]+parts[i+1]]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = slices.Delete(parts, at+1, at+2)
	}
	for _, p := range parts {
		dst = append(dst, backend.Token(o.ranks[p]))
	}
	return dst
}

var o200kSpecialPattern = regexp.MustCompile(`<\|(?:start|end|message|channel|constrain|return|call)\|>`)

// encodeSpecial encodes text in which the names of special tokens are those tokens.
func (o *o200k) encodeSpecial(t testing.TB, text string) []backend.Token {
	t.Helper()
	var tokens []backend.Token
	at := 0
	for _, m := range o200kSpecialPattern.FindAllStringIndex(text, -1) {
		tokens = o.encode(t, tokens, text[at:m[0]])
		tokens = append(tokens, backend.Token(o200kSpecials[text[m[0]:m[1]]]))
		at = m[1]
	}
	return o.encode(t, tokens, text[at:])
}

// tokenSink collects a rendering as tokens.
type tokenSink struct {
	t      testing.TB
	o      *o200k
	tokens []backend.Token
	plain  strings.Builder
}

func (s *tokenSink) Text(text string) { s.plain.WriteString(text) }

func (s *tokenSink) Control(t backend.Token) {
	s.flush()
	s.tokens = append(s.tokens, t)
}

func (s *tokenSink) flush() {
	s.tokens = s.o.encode(s.t, s.tokens, s.plain.String())
	s.plain.Reset()
}

// TestReferenceTokens renders the reference cases to the ids of the real vocabulary, and holds this file's encoding
// against the ids that the reference data gives.
func TestReferenceTokens(t *testing.T) {
	dir := conformance(t, "harmony")
	o := newO200k(t)
	tokens, ok := harmony.Lookup(o.vocab)
	if !ok {
		t.Fatal("o200k_harmony is not harmony's vocabulary")
	}
	if got := o.encodeSpecial(t, "<|start|>hello world"); !slices.Equal(got, []backend.Token{200006, 24912, 2375}) {
		t.Errorf("the encoding is not o200k: %v", got)
	}
	for _, c := range loadCases(t, dir) {
		if c.File == "" {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(dir, c.File))
		if err != nil {
			t.Fatal(err)
		}
		switch c.Kind {
		case "render":
			s := &tokenSink{t: t, o: o}
			c.render(t, tokens, s)
			s.flush()
			if want := o.encodeSpecial(t, strings.TrimSpace(string(raw))); !slices.Equal(s.tokens, want) {
				t.Errorf("%s: got %v\nwant %v", c.File, s.tokens, want)
			}
		case "parse_token_ids":
			// What a model generated: it begins after the opening of the turn, and may end anywhere in a message.
			var want []backend.Token
			for _, f := range strings.Fields(string(raw)) {
				id, err := strconv.Atoi(f)
				if err != nil {
					t.Fatal(err)
				}
				if id == o200kSpecials["<|return|>"] {
					id = o200kSpecials["<|end|>"]
				}
				want = append(want, backend.Token(id))
			}
			s := &tokenSink{t: t, o: o}
			for _, m := range c.Messages {
				h := harmony.Message{Role: harmony.RoleAssistant, Channel: m.Channel, Recipient: m.Recipient, ContentType: m.ContentType, Content: m.Content}
				tokens.Write(s, h)
			}
			got := s.tokens[2:] // without the opening of the turn
			if len(got) <= len(want) || !slices.Equal(got[:len(want)], want) {
				t.Errorf("%s: got %v\nwant %v", c.File, got, want)
			}
		}
	}
}
