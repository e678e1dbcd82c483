package channels_test

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"runner/chattemplate"
	"runner/chattemplate/channels"
	"runner/chattemplate/reader"
	"runner/chattemplate/readertest"
	"runner/generation"
	"runner/reasoning"
)

// TestAnyChunking checks that a text reads the same however it is cut into tokens, as a stream and parsed as a whole.
func TestAnyChunking(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		in := readertest.RandomOutput(r)
		cfg := readertest.Config{Format: readertest.HarmonyFormat,
			Config: reader.Config{Start: chattemplate.Start(r.IntN(3)), Markers: r.IntN(3) == 0,
				Tools: [][]string{nil, {"f"}}[r.IntN(2)], Separator: []string{"", "\n\n"}[r.IntN(2)],
				JSON: []*reader.JSONConfig{nil, nil, {}, {RawAnswer: true}}[r.IntN(4)], Report: r.IntN(3) == 0}}
		var first []channels.Message
		for i, cut := range []func(string) []string{readertest.Whole, readertest.ByBytes, readertest.Random(r),
			readertest.Random(r)} {
			x := readertest.HarmonyLexicon()
			tokens := x.Encode(in, cut)
			cfg.Vocab = x.Vocab(t)
			messages, err := channels.Parse(cfg.Config, tokens)
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				first = messages
			}
			if !reflect.DeepEqual(messages, first) {
				t.Fatalf("%q cut another way parses as\n%+v\nwant %+v", in, messages, first)
			}
			if !cfg.Markers && cfg.Separator == "" && cfg.JSON == nil {
				var c generation.Collector
				for _, e := range readertest.Read(t, cfg, tokens) {
					if e.Kind != reasoning.Warning {
						c.Push(e)
					}
				}
				checkParsed(t, c.Reply(), messages)
			}
		}
	}
}

// checkParsed compares a reply from a stream with the parsed messages of the same output.
func checkParsed(t *testing.T, got generation.Reply, messages []channels.Message) {
	t.Helper()
	var answer, thoughts, preamble string
	var args []string
	for _, m := range messages {
		switch m.Segment {
		case reasoning.Answer:
			answer += m.Content
		case reasoning.Reasoning:
			thoughts += m.Content
		case reasoning.Preamble:
			preamble += m.Content
		case reasoning.ToolCall:
			args = append(args, m.Content)
		}
	}
	if got.Answer != answer || got.Reasoning != thoughts || got.Preamble != preamble || len(got.Calls) != len(args) {
		t.Fatalf("the stream and the parsed messages differ:\n%+v\n%+v", got, messages)
	}
	for i, c := range got.Calls {
		if c.Arguments != args[i] {
			t.Fatalf("call %d: the stream has arguments %q, the parsed message %q", i, c.Arguments, args[i])
		}
	}
}

func TestState(t *testing.T) {
	x := readertest.HarmonyLexicon()
	tokens := x.Encode("<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary to=functions.f "+
		"<|constrain|>json<|message|>{<|call|>", readertest.ByWords)
	var r readertest.Recorder
	s, err := channels.NewReader(reader.Config{Vocab: x.Vocab(t), Emit: r.Emit,
		CallID: func(int) string { return "id" }})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, tok := range tokens {
		got = append(got, s.State().Segment.String())
		if s.State().Ended {
			t.Fatal("State().Ended is set before the end of the call")
		}
		s.Push(tok)
		if st := s.State(); st.Segment == reasoning.ToolCall {
			channel, recipient, contentType := channels.HeaderOf(s)
			if (st.Call != reasoning.Call{ID: "id", Name: "f"} || channel != "commentary" ||
				recipient != "functions.f" || contentType != "json") {
				t.Errorf("wrong state in the call: %+v, channel %q, recipient %q, content type %q", st, channel, recipient,
					contentType)
			}
		}
	}
	if !s.State().Ended {
		t.Error("State().Ended is not set after the call")
	}
	want := "header header header reasoning reasoning " + strings.Repeat("header ", len(tokens)-7) + "tool_call tool_call"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}
