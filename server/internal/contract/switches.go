package contract

import (
	"cmp"
	"encoding/json"

	"runner/reasoning"
	"runner/server/wire"
)

// thinking is the object form of Fields.Thinking, as clients of Anthropic and other vendors send it.
//
// Turns the reasoning on or off. It does not change how much of the reasoning is returned.
//
//openapi:request ThinkingSwitch
type thinking struct {
	// `disabled` means effort `none`.
	Type *string `json:"type" api:"=enabled,adaptive,auto,disabled"`
	// Another name of `reasoning_budget`.
	BudgetTokens *int `json:"budget_tokens" api:"[-1..16777216]"`
}

// Objects implements [wire.Holder].
func (*Fields) Objects() map[string]any {
	return map[string]any{"reasoning": object{}, "thinking": thinking{}}
}

// enable reads a field that turns the reasoning on or off. Off means effort none. On is the default, so agree only
// checks that no other field turns the reasoning off.
func (p *parser) enable(param string, on *bool) error {
	switch {
	case on == nil:
	case *on:
		p.on = param
	default:
		return p.effort.say(param, reasoning.EffortNone)
	}
	return nil
}

// switches reads the fields that other servers have for effort, budget and visibility.
func (p *parser) switches(f *Fields) error {
	return cmp.Or(
		p.budgetOf("reasoning_budget", f.ReasoningBudget), p.budgetOf("thinking_budget", f.ThinkingBudget),
		p.enable("enable_thinking", f.EnableThinking), p.think(f.Think), p.thinking(f.Thinking), p.format(f.ReasoningFormat),
	)
}

// isSwitch reads true or false.
func isSwitch(raw json.RawMessage) (on, ok bool) {
	return string(raw) == "true", string(raw) == "true" || string(raw) == "false"
}

// think reads the field think: a switch or an effort.
func (p *parser) think(raw json.RawMessage) error {
	if !wire.Given(raw) {
		return nil
	}
	if on, ok := isSwitch(raw); ok {
		return p.enable("think", &on)
	}
	var effort string
	if raw[0] != '"' {
		return wire.Invalid("think", "it takes true, false or an effort")
	}
	if err := wire.UnmarshalAt("think", raw, &effort); err != nil {
		return err
	}
	return p.effortOf("think", &effort)
}

// thinking reads the field thinking: a switch or an object.
func (p *parser) thinking(raw json.RawMessage) error {
	if !wire.Given(raw) {
		return nil
	}
	if on, ok := isSwitch(raw); ok {
		return p.enable("thinking", &on)
	}
	if raw[0] != '{' {
		return wire.Invalid("thinking", "it takes true, false or an object")
	}
	var t thinking
	if err := wire.UnmarshalAt("thinking", raw, &t); err != nil {
		return err
	}
	if t.Type != nil {
		on := *t.Type != "disabled"
		if on && *t.Type != "enabled" && *t.Type != "adaptive" && *t.Type != "auto" {
			return wire.Invalid("thinking.type", "it takes enabled, adaptive, auto or disabled")
		}
		if err := p.enable("thinking.type", &on); err != nil {
			return err
		}
		if !on {
			return nil // a budget for no reasoning
		}
	}
	return p.budgetOf("thinking.budget_tokens", t.BudgetTokens)
}

// format reads the field reasoning_format.
func (p *parser) format(format *string) error {
	const param = "reasoning_format"
	if format == nil {
		return nil
	}
	switch *format {
	case "raw", "none", "deepseek-legacy":
		p.warnings.Add(wire.CodeIgnored,
			param+": this server never puts reasoning into the answer; visibility full returns it separately")
	}
	switch *format {
	case "hidden":
		return p.visibility.say(param, reasoning.VisibilityNone)
	case "parsed", "raw", "deepseek", "deepseek-legacy":
		return p.visibility.say(param, reasoning.VisibilityFull)
	}
	return nil
}

// agree checks what can only be checked after all fields were read.
func (p *parser) agree() error {
	if p.on != "" && p.effort.from != "" && p.effort.value == reasoning.EffortNone {
		return wire.Invalid(p.on, "it asks for reasoning and %s for none; say it in one place", p.effort.from)
	}
	if p.noSummary == "" {
		return nil
	}
	if p.visibility.from != "" && p.visibility.value == reasoning.VisibilitySummary {
		return wire.Invalid(p.noSummary, "it asks for no summary and %s for one; say it in one place", p.visibility.from)
	}
	if p.visibility.from == "" {
		return p.visibility.say(p.noSummary, reasoning.VisibilityNone)
	}
	return nil
}
