package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"

	"runner/chattemplate"
	"runner/generation"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/prompts"
)

// instruct adds to the conversation what the strategy and the form have to tell the model.
func (t *turn) instruct() {
	switch t.strategy {
	case reasoning.StrategyMarkers:
		if !t.effortNone() {
			t.conv.Messages = withInstruction(t.conv.Messages, prompts.MarkersV1)
		}
		t.conv.Effort = reasoning.EffortNone
	case reasoning.StrategyPosthoc:
		t.conv.Effort = reasoning.EffortNone
	case reasoning.StrategyJSON:
		t.conv.Effort = reasoning.EffortNone
		text := prompts.JSONV1
		if t.req.Form.IsJSON() {
			text = prompts.JSONSchemaV1
		}
		if t.req.Score {
			text += " " + prompts.JSONScoreV1
		}
		t.conv.Messages = withInstruction(t.conv.Messages, text)
	case reasoning.StrategyTool:
		if !t.effortNone() {
			t.conv.Tools = append(t.conv.Tools[:len(t.conv.Tools):len(t.conv.Tools)], reportTool())
			t.conv.Messages = withInstruction(t.conv.Messages, prompts.ReportV1)
		}
		t.conv.Effort = reasoning.EffortNone
	}
	if t.req.Rationale && len(t.req.Tools) > 0 && t.req.ToolChoice != generation.ToolChoiceNone {
		t.conv.Messages = withInstruction(t.conv.Messages, prompts.RationaleV1)
	}
	if s := t.req.Form.Schema(); s != nil && t.conv.ResponseFormat == nil {
		t.conv.ResponseFormat = &chattemplate.ResponseFormat{Name: "answer", Schema: s}
	}
}

// form returns what the text of the answer has to obey, the object of strategy json around it included.
func (t *turn) form() (grammar.Source, error) {
	if t.strategy != reasoning.StrategyJSON {
		return t.req.Form, nil
	}
	answer, ok := jsonForm(t.req.Form)
	if !ok {
		return answer, &generation.RequestError{Field: "Strategy",
			Err:    errors.New("an answer in GBNF cannot stand in the object of strategy json"),
			Advice: "use another strategy, or a schema"}
	}
	thoughts := grammar.JSONSchema([]byte(`{"type":"string"}`))
	if t.effortNone() {
		thoughts = grammar.Choices(`""`)
	}
	fields := []grammar.Field{{Name: "reasoning", Value: thoughts}, {Name: "answer", Value: answer}}
	if t.req.Score {
		// With its digits bounded, it is no longer than what is read as a score.
		score := grammar.JSONSchema([]byte(`{"type":"number","minimum":0,"maximum":1,"multipleOf":0.000001}`))
		fields = append(fields, grammar.Field{Name: "score", Value: score})
	}
	return grammar.Fields(fields...), nil
}

// effortNone reports whether the effort is none. Visibility has no say in this: reasoning that nobody may see is
// generated and hidden.
func (t *turn) effortNone() bool {
	return t.family().Effort(t.req.Effort, t.req.TemplateArgs) == reasoning.EffortNone
}

// jsonForm returns the form as a JSON value: a text form becomes that of a string with such a text. GBNF has none.
func jsonForm(form grammar.Source) (grammar.Source, bool) {
	if form.IsZero() {
		return grammar.JSONSchema([]byte(`{"type":"string"}`)), true
	}
	if form.IsJSON() {
		return form, true
	}
	if list := form.List(); list != nil {
		texts := make([]string, len(list))
		for i, s := range list {
			texts[i] = quote(s)
		}
		return grammar.Choices(texts...), true
	}
	if p := form.Pattern(); p != "" {
		return grammar.JSONSchema([]byte(`{"type":"string","pattern":` + quote("^(?:"+p+")$") + `}`)), true
	}
	return form, false
}

// quote returns the JSON text of a string, without escapes that JSON does not need.
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}

// check looks at a finished answer once more, with a program of its own: an answer that breaks its form although it
// was held to it is a mistake of ours.
type check struct {
	answer    strings.Builder
	validator *grammar.Validator
	pattern   *regexp.Regexp
	list      []string
}

// newCheck returns what checks a form, or nil if nothing can.
func (r *Runner) newCheck(form grammar.Source) (*check, error) {
	c := &check{list: form.List()}
	var err error
	switch schema := form.Schema(); {
	case schema != nil:
		if c.validator, err = r.grammars().Validator(schema); err != nil {
			return nil, &generation.RequestError{Field: "Form", Err: err, Advice: cmp.Or(hint(err), "correct the schema")}
		}
	case form.Pattern() != "":
		if c.pattern, err = grammar.NewPatternCheck(form.Pattern()); err != nil {
			return nil, &generation.RequestError{Field: "Form", Err: err, Advice: hint(err)}
		}
	case form.IsJSON():
		c.validator, err = r.grammars().Validator([]byte(`{"type":"object"}`))
	case c.list == nil:
		return nil, nil
	}
	return c, err
}

// holds reports whether the answer obeys its form, and if not, how it breaks it.
func (c *check) holds() error {
	text := c.answer.String()
	switch {
	case c.validator != nil:
		return c.validator.Validate([]byte(text))
	case c.pattern != nil && !c.pattern.MatchString(text):
		return errors.New("the pattern does not match")
	case c.list != nil:
		for _, s := range c.list {
			if s == text {
				return nil
			}
		}
		return errors.New("it is none of the choices")
	}
	return nil
}

// verify checks the answer of a run that came to its own end. A stop string cuts an answer as was asked, but says
// so where the form is lost with it.
func (t *turn) verify(finish reasoning.FinishReason) {
	switch {
	case finish != reasoning.FinishStop || t.req.Form.IsZero():
		return
	case t.result.StopString != "":
		if t.check == nil || t.check.holds() != nil {
			t.output.warn(generation.CodeFormCut, "a stop string cut the answer, which may not have the form that was asked for")
		}
		return
	case t.check == nil:
		return
	}
	if err := t.check.holds(); err != nil {
		t.r.violations.Add(1)
		t.r.cfg.Logger.Error("a constrained answer broke its form", "form", t.req.Form.String(), "error", err)
		t.output.warn(generation.CodeFormViolated, "the answer does not have the form that was asked for: "+err.Error())
	}
}

// Violations returns how many answers broke their form although they were held to it. Any is a mistake of the program.
func (r *Runner) Violations() int64 { return r.violations.Load() }

// CheckTool reports why calls of a function cannot be held to its parameters as those of strict ones are, or nil.
func (r *Runner) CheckTool(ctx context.Context, tool chattemplate.Tool) error {
	return r.family.CheckTool(ctx, r.grammars(), tool)
}
