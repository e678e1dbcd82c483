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
	"runner/hint"
	"runner/reasoning"
)

// form returns the form that the answer's text must match. With strategy json it includes the object around the answer.
func (t *turn) form() (grammar.Source, error) {
	if t.strategy != reasoning.StrategyJSON {
		return t.req.Form, nil
	}
	answer, ok := jsonForm(t.req.Form)
	if !ok {
		return answer, generation.BadField("Strategy", "use another strategy, or a schema",
			"strategy json does not work with a form in GBNF")
	}
	thoughts := grammar.JSONSchema([]byte(`{"type":"string"}`))
	if t.effortNone() {
		thoughts = grammar.Choices(`""`)
	}
	fields := []grammar.Field{{Name: "reasoning", Value: thoughts}, {Name: "answer", Value: answer}}
	if t.req.Score {
		// The bounded digits keep it short enough for the reader of scores.
		score := grammar.JSONSchema([]byte(`{"type":"number","minimum":0,"maximum":1,"multipleOf":0.000001}`))
		fields = append(fields, grammar.Field{Name: "score", Value: score})
	}
	return grammar.Fields(fields...), nil
}

// effortNone reports whether the effort is none. Visibility does not matter here, because hidden reasoning is generated
// too.
func (t *turn) effortNone() bool {
	return t.family().Effort(t.req.Effort, t.req.TemplateArgs) == reasoning.EffortNone
}

// jsonForm returns a form of JSON values. The form of a text becomes the form of a JSON string with that text. It
// returns false for GBNF, which cannot be converted.
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

// check verifies a finished answer with code that the constraints do not use. An answer that breaks its form although
// the form was enforced is a bug in this program.
type check struct {
	answer    strings.Builder
	validator *grammar.Validator
	pattern   *regexp.Regexp
	list      []string
	// decoded says that the answer is shown without quotes if it is a JSON string.
	decoded bool
}

// newCheck returns the check for a form, nil if the form cannot be checked.
func (r *Runner) newCheck(form grammar.Source) (*check, error) {
	c := &check{list: form.List()}
	var err error
	switch schema := form.Schema(); {
	case schema != nil:
		if c.validator, err = r.grammars().Validator(schema); err != nil {
			return nil, generation.BadField("Form", cmp.Or(hint.Of(err), "correct the schema"), "%w", err)
		}
	case form.Pattern() != "":
		if c.pattern, err = grammar.NewPatternCheck(form.Pattern()); err != nil {
			return nil, generation.BadField("Form", hint.Of(err), "%w", err)
		}
	case form.IsJSON():
		c.validator, err = r.grammars().Validator([]byte(`{"type":"object"}`))
	case c.list == nil:
		return nil, nil
	}
	return c, err
}

// holds returns nil if the answer matches its form, and otherwise how it breaks it.
func (c *check) holds() error {
	text := c.answer.String()
	switch {
	case c.validator != nil && c.decoded && c.validator.Validate([]byte(quote(text))) == nil:
		return nil
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
		return errors.New("it is not one of the choices")
	}
	return nil
}

// verify warns if an answer that ended by itself does not match its form. An answer that a stop string cut gets another
// warning, because there the caller asked for the cut.
func (t *turn) verify(finish reasoning.FinishReason) {
	switch {
	case finish != reasoning.FinishStop || t.req.Form.IsZero():
		return
	case t.result.StopString != "":
		if t.check == nil || t.check.holds() != nil {
			t.warn(generation.CodeFormCut, "a stop string cut the answer, which may not match its form")
		}
		return
	case t.check == nil:
		return
	}
	if err := t.check.holds(); err != nil {
		t.r.violations.Add(1)
		t.r.cfg.Logger.Error("a constrained answer broke its form", "form", t.req.Form.String(), "error", err)
		t.warn(generation.CodeFormViolated, "the answer does not match its form: "+err.Error())
	}
}

// CheckTool returns nil if calls of a tool can be made to match its parameters, as strict tools require. Otherwise it
// returns the reason.
func (r *Runner) CheckTool(ctx context.Context, tool chattemplate.Tool) error {
	return r.family.CheckTool(ctx, r.grammars(), tool)
}
