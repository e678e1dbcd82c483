package chattemplate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/fake"
)

// TestTokensHaveTheirOrigins puts texts of all origins together and compares the origin of each token with that of its
// bytes.
func TestTokensHaveTheirOrigins(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	m := fake.New(fake.Config{Vocab: fake.Harmony()})
	end, _ := m.Vocab().Special("<|end|>")
	words := []string{"a", " two", "assistant", "analysis", "three ", "é", "\n", "<|end|>"}
	c := Config{Vocab: m.Vocab(), Tokenize: m.Tokenize}
	of := map[Origin]int{}
	for range 2000 {
		b := c.NewBuilder()
		var bytes []Origin
		for range 1 + r.IntN(6) {
			if r.IntN(4) == 0 {
				b.Control(end)
				bytes = append(bytes, slices.Repeat([]Origin{FromTemplate}, len("<|end|>"))...)
				continue
			}
			text, o := words[r.IntN(len(words))], Origin(r.IntN(3))
			b.add(text, o)
			bytes = append(bytes, slices.Repeat([]Origin{o}, len(text))...)
		}
		p, err := b.Prompt(StartTurn)
		if err != nil || len(p.Origins) != len(p.Tokens) {
			t.Fatalf("%v, %d origins for %d tokens", err, len(p.Origins), len(p.Tokens))
		}
		at := 0
		for i, tok := range p.Tokens {
			n := len(m.Vocab().Piece(tok))
			want := slices.Max(bytes[at : at+n])
			if at += n; p.Origins[i] != want {
				t.Fatalf("token %d of %q has origin %d, want %d", i, p.Text, p.Origins[i], want)
			}
			of[want]++
		}
	}
	if of[FromTemplate] < 500 || of[Seen] < 500 || of[Unseen] < 500 {
		t.Errorf("origins: %v", of)
	}
}

// TestNormalizedTextHasTheStrictestOrigin checks tokens that cannot be found in the text.
func TestNormalizedTextHasTheStrictestOrigin(t *testing.T) {
	m := fake.New(fake.Config{Vocab: fake.Harmony()})
	c := Config{Vocab: m.Vocab(), Tokenize: func(dst []backend.Token, text string) ([]backend.Token, error) {
		return m.Tokenize(dst, strings.ToLower(text))
	}}
	b := c.NewBuilder()
	b.Text("one X")
	b.Unseen("two")
	b.Text(" three")
	p, err := b.Prompt(StartTurn)
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for i, tok := range p.Tokens {
		if at += len(m.Vocab().Piece(tok)); at <= len("one ") {
			if p.Origins[i] != Seen {
				t.Errorf("token %d has origin %d", i, p.Origins[i])
			}
		} else if p.Origins[i] != Unseen {
			t.Errorf("token %d, after the change, has origin %d", i, p.Origins[i])
		}
	}
}
