package contract

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"runner/reasoning"
	"runner/server/wire"
)

// freed returns the text of a custom tool's call whose arguments come in pieces.
func freed(pieces ...string) string {
	var b strings.Builder
	f := FreeCalls{Names: map[string]bool{"patch": true}, To: func(e *reasoning.Event) error {
		if e.Kind == reasoning.SegmentDelta {
			b.WriteString(e.Text)
		}
		return nil
	}}
	call := reasoning.Call{Name: "patch"}
	_ = f.Push(&reasoning.Event{Kind: reasoning.SegmentStart, Segment: reasoning.ToolCall, Call: call})
	for _, p := range pieces {
		_ = f.Push(&reasoning.Event{Kind: reasoning.SegmentDelta, Segment: reasoning.ToolCall, Text: p})
	}
	_ = f.Push(&reasoning.Event{Kind: reasoning.SegmentEnd, Segment: reasoning.ToolCall})
	return b.String()
}

func TestFreeCalls(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"input":"a\n\"b\" \\ \u00e9\ud83d\ude42/\/"}`: "a\n\"b\" \\ é🙂//",
		` { "input" : "" } `:                            "",
		`{"input":"half`:                                "half", `{"input":"half\`: "half", `{"input":"\ud83d"}`: "\uFFFD",
		`{"input":"\ud83dx"}`: "\uFFFDx", "plain text": "plain text",
		`{"other":"x"}`: `{"other":"x"}`, `{"in`: `{"in`, ``: ``, `{}`: `{}`,
	} {
		if got := freed(arguments); got != want {
			t.Errorf("%q is %q, want %q", arguments, got, want)
		}
	}
	// A function's call is unchanged.
	got := ""
	f := FreeCalls{Names: map[string]bool{"patch": true}, To: func(e *reasoning.Event) error { got += e.Text; return nil }}
	for _, e := range []reasoning.Event{
		{Kind: reasoning.SegmentStart, Segment: reasoning.ToolCall, Call: reasoning.Call{Name: "look"}},
		{Kind: reasoning.SegmentDelta, Segment: reasoning.ToolCall, Text: `{"input":"a"}`},
		{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: `{"input":"b"}`},
	} {
		_ = f.Push(&e)
	}
	if got != `{"input":"a"}{"input":"b"}` {
		t.Errorf("a function's call is %s", got)
	}
}

// A text comes back unchanged, however it is cut.
func FuzzFreeCalls(f *testing.F) {
	f.Add("a\n\"b\" \\ é🙂\u2028", 3)
	f.Add(`{"input":"x"}`, 1)
	f.Fuzz(func(t *testing.T, text string, size int) {
		if !utf8.ValidString(text) {
			return
		}
		escaped, err := json.Marshal(map[string]string{"input": text})
		if err != nil {
			t.Fatal(err)
		}
		for _, arguments := range []string{FreeInput(text), string(escaped)} {
			var pieces []string
			for rest, n := arguments, 1+abs(size)%7; rest != ""; {
				piece := rest[:min(n, len(rest))]
				for !utf8.ValidString(piece) {
					piece = rest[:len(piece)+1] // no delta splits a character
				}
				pieces, rest = append(pieces, piece), rest[len(piece):]
			}
			if got := freed(pieces...); got != text {
				t.Fatalf("%q in %q is %q", text, pieces, got)
			}
		}
	})
}

func abs(n int) int { return max(n, -(n + 1)) }

func TestCustomTools(t *testing.T) {
	for format, want := range map[string]string{
		``: "", `null`: "", `{"type":"text"}`: "",
		`{"type":"grammar","syntax":"regex","definition":"a|b"}`:                     `^(?:a|b)$`,
		`{"type":"grammar","syntax":"lark","definition":"start: \"a\""}`:             `^(?:(?:a))$`,
		`{"type":"grammar","grammar":{"syntax":"lark","definition":"start: \"a\""}}`: `^(?:(?:a))$`,
	} {
		c := CustomTool{Name: "patch", Format: json.RawMessage(format)}
		tool, err := c.Tool("tools[0]")
		var p struct {
			Properties struct{ Input struct{ Pattern string } }
		}
		if err != nil || json.Unmarshal(tool.Parameters, &p) != nil || p.Properties.Input.Pattern != want || !tool.Strict {
			t.Errorf("%s: %+v, %v", format, tool, err)
		}
		if told := strings.Contains(tool.Description, "grammar"); told != (want != "") {
			t.Errorf("%s: the model is told %q", format, tool.Description)
		}
	}
	for format, param := range map[string]string{
		`7`: "format", `{"type":"xml"}`: "format.type", `{"type":"grammar"}`: "format.syntax",
		`{"type":"grammar","syntax":"gbnf","definition":"x"}`:                         "format.syntax",
		`{"type":"grammar","syntax":"regex","definition":"a(?=b)"}`:                   "format.definition",
		`{"type":"grammar","syntax":"lark","definition":"start: start \"a\""}`:        "format.definition",
		`{"type":"grammar","grammar":{"syntax":"lark","definition":"%ignore \" \""}}`: "format.grammar.definition",
		`{"type":"grammar","grammar":{"syntax":"perl"}}`:                              "format.grammar.syntax",
	} {
		_, err := (&CustomTool{Name: "patch", Format: json.RawMessage(format)}).Tool("tools[0]")
		var e *wire.Error
		if !errors.As(err, &e) || e.Status != 400 || e.Param != "tools[0]."+param {
			t.Errorf("%s: %v", format, err)
		}
	}
}
