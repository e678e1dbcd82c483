package harmony_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/tokenizer"
	"runner/backend/tokenizer/o200ktest"
	"runner/chattemplate/channels/harmony"
	"runner/conformance"
)

var o200kSpecialPattern = regexp.MustCompile(`<\|(?:start|end|message|channel|constrain|return|call)\|>`)

// encodeSpecial encodes text in which the names of special tokens mean these tokens.
func encodeSpecial(o *tokenizer.Tokenizer, text string) []backend.Token {
	var tokens []backend.Token
	at := 0
	for _, m := range o200kSpecialPattern.FindAllStringIndex(text, -1) {
		tokens = encodePlain(o, tokens, text[at:m[0]])
		tokens = append(tokens, o200ktest.Special()[text[m[0]:m[1]]])
		at = m[1]
	}
	return encodePlain(o, tokens, text[at:])
}

// encodePlain encodes text in this vocabulary, in which every text has tokens.
func encodePlain(o *tokenizer.Tokenizer, dst []backend.Token, text string) []backend.Token {
	dst, err := o.Encode(dst, text)
	if err != nil {
		panic(err)
	}
	return dst
}

// tokenSink collects a rendering as tokens.
type tokenSink struct {
	o      *tokenizer.Tokenizer
	tokens []backend.Token
	plain  strings.Builder
}

func (s *tokenSink) Text(text string) { s.plain.WriteString(text) }

func (s *tokenSink) Unseen(text string) { s.plain.WriteString(text) }

func (s *tokenSink) Control(t backend.Token) {
	s.flush()
	s.tokens = append(s.tokens, t)
}

func (s *tokenSink) flush() {
	s.tokens = encodePlain(s.o, s.tokens, s.plain.String())
	s.plain.Reset()
}

// TestReferenceTokens renders the reference cases to the token ids of the real vocabulary, and compares them with the
// ids in the reference data.
func TestReferenceTokens(t *testing.T) {
	dir := conformance.Dir(t, "harmony")
	o := o200ktest.Tokenizer(t)
	tokens, ok := harmony.Lookup(o.Vocab())
	if !ok {
		t.Fatal("o200k_harmony is not harmony's vocabulary")
	}
	if got := encodeSpecial(o, "<|start|>hello world"); !slices.Equal(got, []backend.Token{200006, 24912, 2375}) {
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
			s := &tokenSink{o: o}
			c.render(t, tokens, s)
			s.flush()
			if want := encodeSpecial(o, strings.TrimSpace(string(raw))); !slices.Equal(s.tokens, want) {
				t.Errorf("%s: got %v\nwant %v", c.File, s.tokens, want)
			}
		case "parse_token_ids":
			// Text that a model generated: it begins after the opening of the turn and may end anywhere in a message.
			var want []backend.Token
			for _, f := range strings.Fields(string(raw)) {
				id, err := strconv.Atoi(f)
				if err != nil {
					t.Fatal(err)
				}
				token := backend.Token(id)
				if token == tokens.Return {
					token = tokens.End
				}
				want = append(want, token)
			}
			s := &tokenSink{o: o}
			for _, m := range c.Messages {
				h := harmony.Message{Role: harmony.RoleAssistant, Channel: m.Channel, Recipient: m.Recipient,
					ContentType: m.ContentType, Content: m.Content}
				tokens.Write(s, h)
			}
			got := s.tokens[2:] // without the opening of the turn
			if len(got) <= len(want) || !slices.Equal(got[:len(want)], want) {
				t.Errorf("%s: got %v\nwant %v", c.File, got, want)
			}
		}
	}
}
