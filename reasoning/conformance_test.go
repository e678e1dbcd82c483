package reasoning_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/pkoukk/tiktoken-go-loader/assets"

	"runner/backend"
	"runner/chattemplate"
	"runner/reasoning"
)

// o200k returns the vocabulary of o200k_harmony, from the published ranks.
var o200k = sync.OnceValue(func() *backend.Vocab {
	ranks, err := assets.Assets.ReadFile("o200k_base.tiktoken")
	if err != nil {
		panic(err)
	}
	const size = 201088
	c := backend.VocabConfig{
		Pieces: make([]string, size), Kinds: slices.Repeat([]backend.TokenKind{backend.Unused}, size),
		BOS: 199998, EOS: 200002, EOG: []backend.Token{199999, 200002, 200012},
	}
	for line := range bytes.Lines(ranks) {
		text, rank, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		piece, err := base64.StdEncoding.DecodeString(text)
		id, err2 := strconv.Atoi(rank)
		if err != nil || err2 != nil {
			panic("malformed ranks")
		}
		c.Pieces[id], c.Kinds[id] = string(piece), backend.Normal
	}
	for text, id := range map[string]int{
		"<|startoftext|>": 199998, "<|endoftext|>": 199999, "<|return|>": 200002, "<|constrain|>": 200003,
		"<|channel|>": 200005, "<|start|>": 200006, "<|end|>": 200007, "<|message|>": 200008, "<|call|>": 200012,
	} {
		c.Pieces[id], c.Kinds[id] = text, backend.Control
	}
	for id, p := range c.Pieces {
		if p == "" {
			c.Pieces[id], c.Kinds[id] = fmt.Sprintf("<|reserved_%d|>", id), backend.Control
		}
	}
	v, err := backend.NewVocab(c)
	if err != nil {
		panic(err)
	}
	return v
})

type conformanceCase struct {
	File, Kind, Text, Strict string
	Messages                 []struct {
		Role, Name, Channel, Recipient, Content string
		ContentType                             string `json:"content_type"`
	}
}

// TestConformance parses the format's reference outputs, by their own ids where they have them.
func TestConformance(t *testing.T) {
	dir := filepath.Join(conformance(t), "harmony")
	data, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []conformanceCase }
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for i, c := range all.Cases {
		if !strings.HasPrefix(c.Kind, "parse_") {
			continue
		}
		ran++
		name := c.File
		if name == "" {
			name = strconv.Itoa(i)
		}
		t.Run(name, func(t *testing.T) {
			text := c.Text
			if c.File != "" {
				b, err := os.ReadFile(filepath.Join(dir, c.File))
				if err != nil {
					t.Fatal(err)
				}
				text = strings.TrimRight(string(b), " \n")
			}
			if c.Kind == "parse_token_ids" {
				var tokens []backend.Token
				for _, f := range strings.Fields(text) {
					id, err := strconv.Atoi(f)
					if err != nil {
						t.Fatal(err)
					}
					tokens = append(tokens, backend.Token(id))
				}
				c.check(t, o200k(), tokens)
				return
			}
			for _, cut := range []func(string) []string{byWords, byBytes, whole} {
				x := harmonyLexicon()
				tokens := x.encode(text, cut)
				c.check(t, x.vocab(t), tokens)
			}
		})
	}
	if ran < 8 {
		t.Fatalf("only %d cases to parse", ran)
	}
}

func (c *conformanceCase) check(t *testing.T, v *backend.Vocab, tokens []backend.Token) {
	t.Helper()
	cfg := reasoning.SplitterConfig{Format: harmonyFormat, Vocab: v, Start: chattemplate.StartTurn}
	got, err := reasoning.Parse(cfg, tokens)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Strict = true
	strict, err := reasoning.Parse(cfg, tokens)
	if (err != nil) != (c.Strict == "error") {
		t.Errorf("strict: %v, want %q", err, c.Strict)
	}
	if err == nil && !slices.Equal(strict, got) {
		t.Errorf("strict and lenient disagree:\n%+v\n%+v", strict, got)
	}
	if c.Messages == nil {
		if len(got) == 0 || got[0].Content == "" {
			t.Errorf("no messages: %+v", got)
		}
		return
	}
	for i := range got {
		got[i].Segment = 0
	}
	var want []reasoning.Message
	for _, m := range c.Messages {
		want = append(want, reasoning.Message{
			Role: m.Role, Name: m.Name, Channel: m.Channel, Recipient: m.Recipient, ContentType: m.ContentType, Content: m.Content,
		})
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
