package channels_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"runner/backend"
	"runner/backend/tokenizer/o200ktest"
	"runner/chattemplate"
	"runner/chattemplate/channels"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/conformance"
	"runner/reasoning"
)

type conformanceCase struct {
	File, Kind, Text, Strict string
	Messages                 []struct {
		Role, Name, Channel, Recipient, Content string
		ContentType                             string `json:"content_type"`
	}
}

// TestConformance parses the reference outputs of harmony, with their own token ids if they have some.
func TestConformance(t *testing.T) {
	dir := conformance.Dir(t, "harmony")
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
				c.check(t, o200ktest.Tokenizer(t).Vocab(), tokens)
				return
			}
			for _, cut := range []func(string) []string{readertest.ByWords, readertest.ByBytes, readertest.Whole} {
				x := readertest.HarmonyLexicon()
				tokens := x.Encode(text, cut)
				c.check(t, x.Vocab(t), tokens)
			}
		})
	}
	if ran < 8 {
		t.Fatalf("only %d cases were parsed, want at least 8", ran)
	}
}

func (c *conformanceCase) check(t *testing.T, v *backend.Vocab, tokens []backend.Token) {
	t.Helper()
	var events readertest.Recorder
	got, err := channels.Parse(reader.Config{Vocab: v, Start: chattemplate.StartTurn, Emit: events.Emit}, tokens)
	if err != nil {
		t.Fatal(err)
	}
	if broken := brokenRule(events.Events); (broken != "") != (c.Strict == "error") {
		t.Errorf("the first broken rule is %q, but the strict mode of the reference gives %q", broken, c.Strict)
	}
	if c.Messages == nil {
		if len(got) == 0 || got[0].Content == "" {
			t.Errorf("no message with text: %+v", got)
		}
		return
	}
	for i := range got {
		got[i].Segment = 0
	}
	var want []channels.Message
	for _, m := range c.Messages {
		want = append(want, channels.Message{
			Role: m.Role, Name: m.Name, Channel: m.Channel, Recipient: m.Recipient, ContentType: m.ContentType,
			Content: m.Content,
		})
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// brokenRule returns the first warning about a broken rule of the format, which a strict parser would refuse.
func brokenRule(events []reasoning.Event) string {
	for _, e := range events {
		switch {
		case e.Kind != reasoning.Warning:
		case e.Code == reader.CodeForeignRole, e.Code == reader.CodeUnknownFunction, e.Code == reader.CodeUnknownRecipient,
			e.Code == reader.CodeRecipientInFinal:
		default:
			return e.Code
		}
	}
	return ""
}
