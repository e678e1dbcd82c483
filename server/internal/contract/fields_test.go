package contract

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"runner/generation"
	"runner/reasoning"
	"runner/server/wire"
)

func parse(t testing.TB, body string) (Asked, error) {
	t.Helper()
	var f struct {
		Fields
		Include []string `json:"include"`
	}
	if err := wire.Unmarshal([]byte(body), &f); err != nil {
		return Asked{}, err
	}
	return f.Parse(f.Include)
}

func TestFields(t *testing.T) {
	full, summary, none := reasoning.VisibilityFull, reasoning.VisibilitySummary, reasoning.VisibilityNone
	for _, c := range []struct {
		body string
		want Asked
	}{
		{`{}`, Asked{}},
		{`{"reasoning":null,"include_reasoning":null,"reasoning_effort":null,"include":null}`, Asked{}},
		{`{"reasoning":"none"}`, Asked{Visibility: none}},
		{`{"reasoning":"summary"}`, Asked{Visibility: summary}},
		{`{"reasoning":"full","include_reasoning":true}`, Asked{Visibility: full}},
		{`{"reasoning":{"effort":"high"}}`, Asked{Effort: reasoning.EffortHigh}},
		{`{"reasoning":{"effort":"none"},"reasoning_effort":"none"}`, Asked{Effort: reasoning.EffortNone}},
		{`{"reasoning":{"summary":"detailed"}}`, Asked{Visibility: summary, Summary: "detailed"}},
		{`{"reasoning":{"generate_summary":"concise","summary":null}}`, Asked{Visibility: summary, Summary: "concise"}},
		{`{"reasoning":{"exclude":true},"include_reasoning":false}`, Asked{Visibility: none}},
		{`{"reasoning":{"exclude":false,"summary":"auto"}}`, Asked{Visibility: summary, Summary: "auto"}},
		{`{"reasoning":{"max_tokens":7},"reasoning_budget":7}`, Asked{Budget: 7}},
		{`{"reasoning":{"context":"all_turns"}}`, Asked{Keep: true}},
		{`{"keep_reasoning":true}`, Asked{Keep: true}},
		{`{"rationale":true}`, Asked{Rationale: true}},
		{`{"chat_template_kwargs":{"enable_thinking":false}}`, Asked{Effort: reasoning.EffortNone}},
		{`{"chat_template_kwargs":{"thinking":false},"reasoning_effort":"none"}`, Asked{Effort: reasoning.EffortNone}},
		{`{"chat_template_kwargs":{"enable_thinking":true,"thinking":0}}`, Asked{}},
		{`{"chat_template_kwargs":{"reasoning_effort":"low"},"reasoning":{"effort":"low"}}`,
			Asked{Effort: reasoning.EffortLow}},
		{`{"reasoning_seal":true}`, Asked{Seal: true}},
		{`{"reasoning_encrypt":true}`, Asked{Encrypt: true}},
		{`{"include":["reasoning.encrypted_content"]}`, Asked{Seal: true}},
		{`{"include":["reasoning.content","x"]}`, Asked{Visibility: full}},
		{`{"reasoning_strategy":"markers","reasoning_encrypt":false}`, Asked{Strategy: reasoning.StrategyMarkers}},
	} {
		got, err := parse(t, c.body)
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		if got.Visibility == c.want.Visibility && got.Summary == c.want.Summary && got.Effort == c.want.Effort &&
			got.Budget == c.want.Budget && got.Strategy == c.want.Strategy && got.Seal == c.want.Seal &&
			got.Encrypt == c.want.Encrypt && got.Keep == c.want.Keep {
			continue
		}
		t.Errorf("%s: %+v, want %+v", c.body, got, c.want)
	}
}

// Without a place for traces, none are promised.
func TestCanTrace(t *testing.T) {
	for _, asked := range []bool{false, true} {
		err := (&Asked{Encrypt: asked}).CanTrace(nil)
		var e *wire.Error
		if (err != nil) != asked || asked && (!errors.As(err, &e) || e.Status != 400 || e.Param != FieldTrace ||
			!strings.Contains(e.Message, "--traces")) {
			t.Errorf("asked %v: %v", asked, err)
		}
	}
}

func TestFieldsThatAreRefused(t *testing.T) {
	const kwargsEffort = "chat_template_kwargs.reasoning_effort"
	for body, param := range map[string]string{
		`{"reasoning":"all"}`:                                                           "reasoning",
		`{"reasoning":3}`:                                                               "reasoning",
		`{"reasoning":{"effort":3}}`:                                                    "reasoning.effort",
		`{"reasoning":{"effort":"most"}}`:                                               "reasoning.effort",
		`{"reasoning_effort":""}`:                                                       "reasoning_effort",
		`{"reasoning":{"context":"none"}}`:                                              "reasoning.context",
		`{"reasoning":{"max_tokens":-2}}`:                                               "reasoning.max_tokens",
		`{"reasoning_budget":-2}`:                                                       "reasoning_budget",
		`{"reasoning_budget":0,"reasoning_effort":"low"}`:                               "reasoning_budget",
		`{"reasoning_budget":-1,"thinking_budget":7}`:                                   "thinking_budget",
		`{"reasoning":{"enabled":true,"effort":"none"}}`:                                "reasoning.enabled",
		`{"reasoning":{"enabled":false,"effort":"low"}}`:                                "reasoning.effort",
		`{"enable_thinking":true,"think":false}`:                                        "enable_thinking",
		`{"thinking":{"type":"maybe"}}`:                                                 "thinking.type",
		`{"thinking":"low"}`:                                                            "thinking",
		`{"think":7}`:                                                                   "think",
		`{"think":"hard"}`:                                                              "think",
		`{"reasoning_format":"tags"}`:                                                   "reasoning_format",
		`{"reasoning":"summary","reasoning_format":"hidden"}`:                           "reasoning_format",
		`{"reasoning":{"summary":"none","generate_summary":"auto"}}`:                    "reasoning.summary",
		`{"reasoning_strategy":"guess"}`:                                                "reasoning_strategy",
		`{"include_reasoning":"some"}`:                                                  "include_reasoning",
		`{"include_reasoning":[]}`:                                                      "include_reasoning",
		`{"reasoning":"full","include_reasoning":"none"}`:                               "include_reasoning",
		`{"reasoning":{"exclude":true,"summary":"auto"}}`:                               "reasoning.exclude",
		`{"reasoning":{"summary":"auto"},"include":["reasoning.content"]}`:              "include",
		`{"reasoning":{"summary":"auto","generate_summary":"detailed"}}`:                "reasoning.generate_summary",
		`{"reasoning":{"effort":"low"},"reasoning_effort":"high"}`:                      "reasoning_effort",
		`{"reasoning":{"max_tokens":1},"reasoning_budget":2}`:                           "reasoning_budget",
		`{"reasoning":{"context":"current_turn"},"keep_reasoning":true}`:                "keep_reasoning",
		`{"chat_template_kwargs":{"thinking":false},"reasoning_effort":"low"}`:          "chat_template_kwargs.thinking",
		`{"chat_template_kwargs":{"reasoning_effort":"much"}}`:                          kwargsEffort,
		`{"chat_template_kwargs":{"reasoning_effort":"low"},"reasoning_effort":"high"}`: kwargsEffort,

		`{"chat_template_kwargs":{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}}`: "chat_template_kwargs",
	} {
		_, err := parse(t, body)
		var e *wire.Error
		if !errors.As(err, &e) || e.Status != 400 || e.Param != param {
			t.Errorf("%s: %v with param %q, want %q", body, err, e.Param, param)
		}
	}
}

// Effort and visibility do not affect each other.
func TestEffortAndVisibilityAreIndependent(t *testing.T) {
	for _, effort := range []string{"none", "minimal", "low", "medium", "high"} {
		got, err := parse(t, `{"reasoning":{"effort":"`+effort+`"}}`)
		if err != nil || got.Visibility != reasoning.VisibilityNone || string(got.Effort) != effort {
			t.Errorf("effort %s: %+v, %v", effort, got, err)
		}
	}
	for _, v := range []string{"none", "summary", "full"} {
		if got, err := parse(t, `{"reasoning":"`+v+`"}`); err != nil || got.Effort != reasoning.EffortDefault {
			t.Errorf("visibility %s: %+v, %v", v, got, err)
		}
	}
}

func TestApplyKeepsDefaults(t *testing.T) {
	req := generation.Request{Budget: 9, Effort: reasoning.EffortLow, Strategy: reasoning.StrategyMarkers,
		DetailedSummary: true}
	(&Asked{Summary: "auto"}).Apply(&req)
	if req.Budget != 9 || req.Effort != reasoning.EffortLow || req.Strategy != reasoning.StrategyMarkers ||
		!req.DetailedSummary {
		t.Errorf("defaults are gone: %+v", req)
	}
	(&Asked{Summary: "concise", Budget: 3}).Apply(&req)
	if req.DetailedSummary || req.Budget != 3 {
		t.Errorf("what was asked for is not in effect: %+v", req)
	}
}

func FuzzFields(f *testing.F) {
	f.Add(`{"reasoning":{"effort":"high","summary":"auto"},"include_reasoning":true}`)
	f.Add(`{"reasoning":"full"}`)
	f.Fuzz(func(t *testing.T, body string) {
		var fields Fields
		if json.Unmarshal([]byte(body), &fields) != nil {
			return
		}
		_, err := fields.Parse(nil)
		var e *wire.Error
		if err != nil && (!errors.As(err, &e) || e.Param == "" || e.Status != 400) {
			t.Fatalf("%q: %v", body, err)
		}
	})
}
