package render_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"runner/chattemplate"
	"runner/cmd/runner/render"
	"runner/generation"
	"runner/reasoning"
)

func TestShortfall(t *testing.T) {
	result := func(finish reasoning.FinishReason, detail string, thought int) *reasoning.Result {
		return &reasoning.Result{Finish: finish, Detail: detail, Usage: reasoning.Usage{Completion: 9, Reasoning: thought}}
	}
	const length, full = reasoning.FinishLength, reasoning.DetailContextFull
	for _, tt := range []struct {
		reply      generation.Reply
		code, text string
	}{
		{generation.Reply{}, "", ""},
		{generation.Reply{Result: result(reasoning.FinishStop, "", 5)}, "", ""},
		{generation.Reply{Answer: "a", Result: result(length, "", 5)}, "answer_cut_off",
			"the answer is cut off: --max-tokens was reached; use a larger --max-tokens"},
		{generation.Reply{Answer: "a", Result: result(length, reasoning.DetailAnswerReserve, 5)}, "answer_cut_off",
			"the answer is cut off: --max-tokens was reached; use a larger --max-tokens"},
		{generation.Reply{Calls: make([]chattemplate.ToolCall, 1), Result: result(length, full, 5)}, "answer_cut_off",
			"the call is cut off: the context was full; use a larger --ctx-size"},
		{generation.Reply{Result: result(length, "", 5)}, "no_answer",
			"no answer was given: the reasoning used up --max-tokens; use a larger --max-tokens or --reasoning-effort low"},
		{generation.Reply{Result: result(length, full, 5)}, "no_answer",
			"no answer was given: the reasoning filled the context; use a larger --ctx-size or --reasoning-effort low"},
		{generation.Reply{Result: result(length, "", 0)}, "no_answer",
			"no answer was given: --max-tokens was reached before it; use a larger --max-tokens"},
		{generation.Reply{Result: result(length, full, 0)}, "no_answer",
			"no answer was given: the context was full before it; use a larger --ctx-size"},
	} {
		code, text, ok := render.Shortfall(tt.reply)
		if code != tt.code || text != tt.text || ok != (tt.code != "") {
			t.Errorf("%+v: %q, %q, %v; want %q, %q", tt.reply, code, text, ok, tt.code, tt.text)
		}
	}
}

func TestJSONWarnsOfAShortfall(t *testing.T) {
	var out bytes.Buffer
	play(t, render.NewJSON(render.Streams{Out: &out}), start(reasoning.VisibilityNone, reasoning.StrategyNative),
		reasoning.Event{Kind: reasoning.Done, Result: &reasoning.Result{Finish: reasoning.FinishLength}})
	var got struct {
		Warnings []struct{ Code, Message string } `json:"warnings"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Warnings) != 1 || got.Warnings[0].Code != "no_answer" || got.Warnings[0].Message == "" {
		t.Errorf("warnings %+v", got.Warnings)
	}
}
