package chattemplate

import (
	"regexp"
	"strings"
)

// detectCalls finds out how the family writes calls: as the template renders them, or else with the first known
// mark that stands in the template and is a token of the vocabulary.
func (j *jinjaTemplate) detectCalls() *CallStyle {
	if text, ok := j.probeCall(); ok {
		_, turn, _ := strings.Cut(text, probeUser)
		for _, s := range callStyles {
			if probePattern(s).MatchString(turn) {
				return s
			}
		}
	}
	source := commentPattern.ReplaceAllString(j.source, "")
	for _, s := range callStyles {
		if _, ok := j.vocab.Special(s.Open); ok && strings.Contains(source, s.Open) {
			return s
		}
	}
	return nil
}

// probeCall renders a history with a call. It reports false where the template has no place for one.
func (j *jinjaTemplate) probeCall() (string, bool) {
	if !j.traits.calls {
		return "", false
	}
	c := &Conversation{Messages: []Message{
		{Role: User, Content: probeUser},
		{Role: Assistant, ToolCalls: []ToolCall{{ID: "call00001", Name: probeTool, Arguments: `{"` + probeKey + `": "` +
			probeValue + `"}`}}},
	}, NoGenerationPrompt: true}
	if j.traits.tools {
		c.Tools = []Tool{{Name: probeTool, Description: "d", Parameters: []byte(
			`{"type": "object", "properties": {"` + probeKey + `": {"type": "string", "description": "d"}}, "required": ["` +
				probeKey + `"]}`)}}
	}
	return j.probe(j.traits, c)
}

// probePattern matches a block that holds the probe's call.
func probePattern(s *CallStyle) *regexp.Regexp {
	var b strings.Builder
	write := func(tokens ...CallToken) {
		for _, t := range tokens {
			switch b.WriteString(`\s*`); t.Place {
			case NoPlace:
				b.WriteString(regexp.QuoteMeta(t.Text))
			case NamePlace:
				b.WriteString(probeTool)
			case KeyPlace:
				b.WriteString(probeKey)
			case ValuePlace:
				b.WriteString(probeValue)
			default:
				b.WriteString(`[\w-]+`)
			}
		}
	}
	b.WriteString(regexp.QuoteMeta(s.Open))
	if s.List != nil {
		write(s.List[0])
	}
	write(s.Head...)
	if write(s.Param...); s.Param == nil {
		b.WriteString(`\s*\{\s*"` + probeKey + `"\s*:\s*"` + probeValue + `"\s*\}`)
	}
	write(s.Tail...)
	if s.List != nil {
		write(s.List[2])
	}
	write(s.Close...)
	return regexp.MustCompile(b.String())
}
