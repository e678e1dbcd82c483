package harmony_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate/channels/harmony"
	"runner/chattemplate/vocabtest"
	"runner/conformance"
)

// printer writes a rendering as text.
type printer struct {
	strings.Builder
	vocab *backend.Vocab
}

func (p *printer) Text(s string)           { p.WriteString(s) }
func (p *printer) Unseen(s string)         { p.WriteString(s) }
func (p *printer) Control(t backend.Token) { p.WriteString(p.vocab.Piece(t)) }

type caseMessage struct {
	Role, Content, Channel, Recipient, Name string
	ContentType                             string `json:"content_type"`
	Identity, Effort                        string
	Channels                                []string
	CurrentDate                             string   `json:"current_date"`
	KnowledgeCutoff                         string   `json:"knowledge_cutoff"`
	BuiltinTools                            []string `json:"builtin_tools"`
	Instructions                            string
	Functions                               []harmony.Function
}

type renderCase struct {
	File, Kind    string
	ForCompletion bool  `json:"for_completion"`
	DropAnalysis  *bool `json:"drop_analysis"`
	Messages      []caseMessage
}

func loadCases(t testing.TB, dir string) []renderCase {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []renderCase }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// render renders a case message by message.
func (c *renderCase) render(t testing.TB, tokens harmony.Tokens, sink harmony.Sink) {
	t.Helper()
	functions := false
	for _, m := range c.Messages {
		functions = functions || len(m.Functions) > 0
	}
	var msgs []harmony.Message
	for _, m := range c.Messages {
		h := harmony.Message{
			Role: harmony.Role(m.Role), Name: m.Name, Recipient: m.Recipient, Channel: m.Channel, Content: m.Content,
		}
		h.ContentType, h.Constrain = strings.CutPrefix(m.ContentType, "<|constrain|>")
		switch h.Role {
		case harmony.RoleSystem:
			s := harmony.System{
				Identity: m.Identity, KnowledgeCutoff: m.KnowledgeCutoff, CurrentDate: m.CurrentDate, Effort: m.Effort,
				Channels: m.Channels, Functions: functions,
			}
			for _, b := range m.BuiltinTools {
				s.Browser = s.Browser || b == "browser"
				s.Python = s.Python || b == "python"
			}
			h.Content = s.Text()
		case harmony.RoleDeveloper:
			text, err := harmony.Developer{Instructions: m.Instructions, Functions: m.Functions}.Text()
			if err != nil {
				t.Fatal(err)
			}
			h.Content = text
		}
		msgs = append(msgs, h)
	}
	if c.DropAnalysis == nil || *c.DropAnalysis {
		msgs = harmony.DropAnalysis(msgs, c.ForCompletion)
	}
	for _, m := range msgs {
		tokens.Write(sink, m)
	}
	if c.ForCompletion {
		tokens.OpenTurn(sink)
	}
}

func TestReferenceFiles(t *testing.T) {
	dir := conformance.Dir(t, "harmony")
	vocab := vocabtest.New(t, vocabtest.Harmony()...)
	tokens, ok := harmony.Lookup(vocab)
	if !ok {
		t.Fatal("vocabulary is not harmony's")
	}
	ran := 0
	for _, c := range loadCases(t, dir) {
		if c.Kind != "render" {
			continue
		}
		ran++
		t.Run(c.File, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(dir, c.File))
			if err != nil {
				t.Fatal(err)
			}
			p := &printer{vocab: vocab}
			c.render(t, tokens, p)
			if got, want := p.String(), strings.TrimSpace(string(want)); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	if ran < 19 {
		t.Errorf("only %d render cases in the reference data", ran)
	}
}
