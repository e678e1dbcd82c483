package tags

import (
	"regexp"
	"strings"

	"runner/chattemplate"
	"runner/chattemplate/markup"
)

// detectCalls returns the style of calls, or nil if it is unknown. It is the style in which the template renders calls,
// or else the first style whose opening mark is in the template and is a special token of the vocabulary.
func detectCalls(j *chattemplate.Template) *markup.CallStyle {
	if text, ok := probeCall(j); ok {
		_, turn, _ := strings.Cut(text, chattemplate.ProbeUser)
		for _, s := range markup.CallStyles() {
			if probePattern(s).MatchString(turn) {
				return s
			}
		}
	}
	source := commentPattern.ReplaceAllString(j.Source(), "")
	for _, s := range markup.CallStyles() {
		if _, ok := j.Vocab().Special(s.Open); ok && strings.Contains(source, s.Open) {
			return s
		}
	}
	return nil
}

// probeCall renders a history with a call. It returns false if the template has no place for one.
func probeCall(j *chattemplate.Template) (string, bool) {
	if !j.ShowsCalls() {
		return "", false
	}
	c := &chattemplate.Conversation{Messages: []chattemplate.Message{probeAsk,
		{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{{ID: "call00001", Name: chattemplate.ProbeTool,
			Arguments: `{"` + chattemplate.ProbeKey + `": "` +
				chattemplate.ProbeValue + `"}`}}},
	}, NoGenerationPrompt: true}
	if j.ShowsTools() {
		c.Tools = chattemplate.ProbeTools
	}
	return j.Probe(c)
}

// probePattern returns a pattern that matches a block with the probe's call in a style.
func probePattern(s *markup.CallStyle) *regexp.Regexp {
	var b strings.Builder
	write := func(tokens ...markup.CallToken) {
		for _, t := range tokens {
			switch b.WriteString(`\s*`); t.Place {
			case markup.NoPlace:
				b.WriteString(regexp.QuoteMeta(t.Text))
			case markup.NamePlace:
				b.WriteString(chattemplate.ProbeTool)
			case markup.KeyPlace:
				b.WriteString(chattemplate.ProbeKey)
			case markup.ValuePlace:
				b.WriteString(chattemplate.ProbeValue)
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
		b.WriteString(`\s*\{\s*"` + chattemplate.ProbeKey + `"\s*:\s*"` + chattemplate.ProbeValue + `"\s*\}`)
	}
	write(s.Tail...)
	if s.List != nil {
		write(s.List[2])
	}
	write(s.Close...)
	return regexp.MustCompile(b.String())
}
