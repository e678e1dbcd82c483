package chattemplate_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate"
	"runner/chattemplate/family"
)

// jinjaShape is a conversation with text in every place from which a template renders text.
func jinjaShape(text string, tools bool) chattemplate.Conversation {
	c := nativeShape(text)
	name := "f" + strings.Map(func(r rune) rune {
		if r <= ' ' || r == '<' || r == '>' || r == 0x7f {
			return '_'
		}
		return r
	}, text)
	if len(name) > 200 {
		name = strings.ToValidUTF8(name[:200], "")
	}
	c.Messages = append(c.Messages, chattemplate.Message{Role: chattemplate.Assistant, Reasoning: "r" + text,
		Content: "c" + text + "c"},
		chattemplate.Message{Role: chattemplate.User, Content: "q" + text + "q"})
	c.Args = map[string]any{"unknown": text,
		"documents": []any{map[string]any{"title": text, "text": text, "doc_id": text}}, "custom_instructions": text}
	if !tools {
		c.Tools = nil
		var plain []chattemplate.Message
		for _, m := range c.Messages {
			if m.Role != chattemplate.ToolRole && len(m.ToolCalls) == 0 {
				plain = append(plain, m)
			}
		}
		c.Messages = plain
		return c
	}
	c.Tools[0].Name = name
	for i := range c.Messages {
		for k := range c.Messages[i].ToolCalls {
			c.Messages[i].ToolCalls[k].Name = name
		}
	}
	return c
}

type controlCase struct {
	name     string
	tmpl     family.Family
	vocab    *backend.Vocab
	specials []string
	want     [2]string // without and with tools
}

func controlCases(t testing.TB) []controlCase {
	dir, names := templateNames(t)
	var cases []controlCase
	for _, name := range names {
		source := readTemplate(t, dir, name)
		c := controlCase{name: name, specials: specialsOf(source)}
		c.tmpl, c.vocab = familyTemplate(t, source)
		rendered := 0
		for i := range c.want {
			if p, err := c.tmpl.Render(jinjaShape("x", i == 1)); err == nil {
				c.want[i] = controls(c.vocab, p.Tokens)
				rendered++
			}
		}
		if rendered == 0 {
			t.Errorf("%s renders neither shape", name)
		}
		cases = append(cases, c)
	}
	return cases
}

// check renders hostile text and compares the control tokens with those for harmless text. A template may refuse a
// text.
func (c *controlCase) check(t *testing.T, text string) {
	t.Helper()
	for i, want := range c.want {
		if want == "" {
			continue
		}
		p, err := c.tmpl.Render(jinjaShape(text, i == 1))
		if err != nil {
			continue
		}
		if got := controls(c.vocab, p.Tokens); got != want {
			t.Errorf("%s: text %q gives the control tokens\n%s\nwant\n%s", c.name, text, got, want)
		}
		if got := print(c.vocab, p.Tokens); got != p.Text {
			t.Errorf("%s: tokens do not print as the prompt's text", c.name)
		}
	}
}

// TestNoTextBecomesControl checks that no text becomes a control token in any reference template. It puts each special
// string of the template, whole and in halves, in every place for text.
func TestNoTextBecomesControl(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range controlCases(t) {
		t.Run(c.name, func(t *testing.T) {
			texts := []string{"<|im_end|>", "<|end|>", "</s>", "[INST]", "<think>", "</think>"}
			texts = append(texts, c.specials...)
			for range 10 {
				seed := make([]byte, 1+rng.IntN(12))
				for i := range seed {
					seed[i] = byte(rng.Uint32())
				}
				texts = append(texts, hostile(c.specials, seed))
			}
			for _, text := range texts {
				c.check(t, text)
				if t.Failed() {
					return
				}
			}
		})
	}
}

// FuzzNoTextBecomesControl checks the same for fuzzed texts.
func FuzzNoTextBecomesControl(f *testing.F) {
	cases := controlCases(f)
	for i := range cases {
		f.Add(byte(i), []byte{100, 101, 102, 103, 200, 33, 10, 61})
	}
	f.Fuzz(func(t *testing.T, which byte, seed []byte) {
		if len(seed) > 64 {
			return
		}
		c := &cases[int(which)%len(cases)]
		if text := hostile(c.specials, seed); strings.TrimSpace(text) != "" {
			c.check(t, text)
		}
	})
}
