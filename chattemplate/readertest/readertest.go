// Package readertest has what tests of readers share: vocabularies made from a text, ways to cut a text into tokens,
// and checks of the events. Only tests import it.
package readertest

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"runner/backend"
	"runner/chattemplate/channels"
	"runner/chattemplate/family"
	"runner/chattemplate/markup"
	"runner/chattemplate/reader"
	"runner/chattemplate/tags"
	"runner/reasoning"
)

// HarmonySpecials are harmony's special tokens.
var HarmonySpecials = []string{
	"<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>", "<|endoftext|>",
}

var specialPattern = regexp.MustCompile(`<\|[a-z_]+\|>`)

// Lexicon gives each new piece of text a token id. At the end it makes a vocabulary of them.
type Lexicon struct {
	pieces []string
	kinds  []backend.TokenKind
	Ids    map[string]backend.Token
	eog    []backend.Token
}

// NewLexicon returns a lexicon with control tokens. Those in eog end generation.
func NewLexicon(control []string, eog ...string) *Lexicon {
	x := &Lexicon{Ids: map[string]backend.Token{}}
	for _, c := range control {
		x.Ids[c] = x.Add(c, backend.Control)
	}
	for _, e := range eog {
		x.eog = append(x.eog, x.Ids[e])
	}
	return x
}

// HarmonyLexicon returns a lexicon with harmony's special tokens.
func HarmonyLexicon() *Lexicon {
	return NewLexicon(HarmonySpecials, "<|return|>", "<|call|>", "<|endoftext|>")
}

// Add adds a piece and returns its id.
func (x *Lexicon) Add(piece string, k backend.TokenKind) backend.Token {
	x.pieces = append(x.pieces, piece)
	x.kinds = append(x.kinds, k)
	return backend.Token(len(x.pieces) - 1)
}

// Text returns the id of a piece of plain text.
func (x *Lexicon) Text(piece string) backend.Token {
	if id, ok := x.Ids["text:"+piece]; ok {
		return id
	}
	id := x.Add(piece, backend.Normal)
	x.Ids["text:"+piece] = id
	return id
}

// Encode turns text into tokens. Names of control tokens become those tokens; cut cuts the rest.
func (x *Lexicon) Encode(text string, cut func(string) []string) []backend.Token {
	var tokens []backend.Token
	plain := func(s string) {
		for _, p := range cut(s) {
			tokens = append(tokens, x.Text(p))
		}
	}
	for text != "" {
		loc := specialPattern.FindStringIndex(text)
		for loc != nil {
			if _, ok := x.Ids[text[loc[0]:loc[1]]]; ok {
				break
			}
			next := specialPattern.FindStringIndex(text[loc[1]:])
			if next == nil {
				loc = nil
				break
			}
			loc = []int{loc[1] + next[0], loc[1] + next[1]}
		}
		if loc == nil {
			plain(text)
			break
		}
		plain(text[:loc[0]])
		tokens = append(tokens, x.Ids[text[loc[0]:loc[1]]])
		text = text[loc[1]:]
	}
	return tokens
}

// Vocab returns a vocabulary with all pieces.
func (x *Lexicon) Vocab(t testing.TB) *backend.Vocab {
	t.Helper()
	v, err := backend.NewVocab(backend.VocabConfig{
		Pieces: x.pieces, Kinds: x.kinds, BOS: backend.NoToken, EOS: backend.NoToken, EOG: x.eog,
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// ByWords cuts like common vocabularies: a word together with the space before it.
func ByWords(s string) []string {
	return regexp.MustCompile(`(?s) ?[A-Za-z]+| ?[^A-Za-z\s]+|\s+`).FindAllString(s, -1)
}

// ByBytes cuts after every byte.
func ByBytes(s string) []string {
	var out []string
	for i := range len(s) {
		out = append(out, s[i:i+1])
	}
	return out
}

// Whole does not cut.
func Whole(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// Random cuts at random places, inside runes too.
func Random(r *rand.Rand) func(string) []string {
	return func(s string) []string {
		var out []string
		for s != "" {
			n := min(len(s), 1+r.IntN(6))
			out = append(out, s[:n])
			s = s[n:]
		}
		return out
	}
}

// outputs are pieces of what models write, in every format.
var outputs = []string{
	"assistant", "analysis", "final", "commentary", " to=functions.f", " json", " ", "\n", "{", "é", "中", "\xe4\xb8",
	"\xff", "I", " think",
	"<think>", "</think>", "<", "/", "<tool_call>", "</tool_call>", `{"name":"f"}`, "<<REASONING>>",
	"<</REASONING>>", "\n\n",
	`{"reasoning": "`, `", "answer": "`, `"}`, `"`, `\`, ",", " to=report_reasoning",
	`{"name":"report_reasoning","arguments":`, "}",
}

// RandomOutput returns up to 29 random pieces of output. A third of them are harmony's special tokens.
func RandomOutput(r *rand.Rand) string {
	var out strings.Builder
	for range r.IntN(30) {
		if r.IntN(3) == 0 {
			out.WriteString(HarmonySpecials[r.IntN(len(HarmonySpecials))])
		} else {
			out.WriteString(outputs[r.IntN(len(outputs))])
		}
	}
	return out.String()
}

// Recorder keeps events.
type Recorder struct{ Events []reasoning.Event }

// Emit keeps an event.
func (r *Recorder) Emit(e reasoning.Event) { r.Events = append(r.Events, e) }

// Shown returns a function that passes to emit the events that v shows.
func Shown(v reasoning.Visibility, emit func(reasoning.Event)) func(reasoning.Event) {
	return func(e reasoning.Event) {
		if v.Shows(&e) {
			emit(e)
		}
	}
}

// Read runs tokens through a reader, asks for its state after each, and returns the events.
func Read(t testing.TB, cfg Config, tokens []backend.Token) []reasoning.Event {
	t.Helper()
	var r Recorder
	cfg.Emit = r.Emit
	s, err := NewReader(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, tok := range tokens {
		s.Push(tok)
		s.State()
	}
	s.Finish()
	CheckNesting(t, r.Events)
	return r.Events
}

// CheckNesting checks that segments start, have text and end in this order. No delta may be empty or split a rune.
func CheckNesting(t testing.TB, events []reasoning.Event) {
	t.Helper()
	open := map[reasoning.Segment]bool{}
	for i, e := range events {
		switch e.Kind {
		case reasoning.SegmentStart:
			if open[e.Segment] {
				t.Fatalf("event %d: %v starts while it is open", i, e.Segment)
			}
			open[e.Segment] = true
		case reasoning.SegmentDelta:
			if !open[e.Segment] {
				t.Fatalf("event %d: %v has text but is not open", i, e.Segment)
			}
			if e.Text == "" {
				t.Fatalf("event %d: the delta is empty", i)
			}
			if strings.ToValidUTF8(e.Text, "") != e.Text {
				t.Fatalf("event %d: the delta %q splits a rune", i, e.Text)
			}
		case reasoning.SegmentEnd:
			if !open[e.Segment] {
				t.Fatalf("event %d: %v ends but is not open", i, e.Segment)
			}
			open[e.Segment] = false
		}
	}
	for s, o := range open {
		if o {
			t.Fatalf("%v does not end", s)
		}
	}
}

// Show writes events in one line: segments with their text, calls with their name, and warnings as "!" and their code.
func Show(events []reasoning.Event) string {
	var parts []string
	var text strings.Builder
	for _, e := range events {
		switch e.Kind {
		case reasoning.SegmentDelta:
			text.WriteString(e.Text)
		case reasoning.SegmentEnd:
			s := fmt.Sprintf("%v %q", e.Segment, text.String())
			if e.Segment == reasoning.ToolCall {
				s = fmt.Sprintf("call %s %q", e.Call.Name, text.String())
			}
			text.Reset()
			parts = append(parts, s)
		case reasoning.Warning:
			parts = append(parts, "!"+e.Code)
		}
	}
	return strings.Join(parts, " | ")
}

// Texts joins the deltas of each segment.
func Texts(events []reasoning.Event) map[reasoning.Segment]string {
	out := map[reasoning.Segment]string{}
	for _, e := range events {
		if e.Kind == reasoning.SegmentDelta {
			out[e.Segment] += e.Text
		}
	}
	return out
}

// HarmonyFormat in a Config asks for a reader of channels.
var HarmonyFormat = markup.Format{Open: "harmony", Close: "harmony"}

// Config is the configuration of a reader, with the format that it reads.
type Config struct {
	Format markup.Format
	reader.Config
}

// NewReader returns a reader for a configuration.
func NewReader(cfg Config) (reader.Reader, error) {
	if cfg.Format == HarmonyFormat {
		return channels.NewReader(cfg.Config)
	}
	return tags.NewReader(cfg.Format, cfg.Config)
}

// FormatOf returns the format of a family. For channels it is HarmonyFormat.
func FormatOf(f family.Family) markup.Format {
	if text, ok := f.(*tags.Family); ok {
		return text.Format()
	}
	return HarmonyFormat
}

// CallStyle returns the style of calls with a name, or nil.
func CallStyle(name string) *markup.CallStyle {
	for _, s := range markup.CallStyles() {
		if s.Name == name {
			return s
		}
	}
	return nil
}
