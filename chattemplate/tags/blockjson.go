package tags

import (
	"encoding/json"
	"slices"
	"strings"

	"runner/chattemplate/reader"
	"runner/reasoning"
)

const pythonTag = "<|python_tag|>"

// maxCall is about the most bytes of a call that has to be read whole. A longer one is text of the answer.
const maxCall = 1 << 20

// callGroup is the styles that begin with one mark.
type callGroup struct {
	open   string
	styles []*CallStyle
}

// callGroups lists the styles that a splitter reads: the model's own, or where that is not known those whose marks
// cannot be anything else: tokens of the vocabulary, and <tool_call>.
func callGroups(cfg *reader.Config, own *CallStyle) []callGroup {
	var groups []callGroup
	_, llama := cfg.Vocab.Special(pythonTag)
	for _, s := range callStyles {
		_, token := cfg.Vocab.Special(s.Open)
		read := token || s.Open == "<tool_call>" || s.Open == "" && llama
		if own != nil {
			read = s.Open == own.Open || own.Open == "" && s.Open == pythonTag && token
		}
		if !read {
			continue
		}
		i := slices.IndexFunc(groups, func(g callGroup) bool { return g.open == s.Open })
		if i < 0 {
			i = len(groups)
			groups = append(groups, callGroup{open: s.Open})
		}
		groups[i].styles = append(groups[i].styles, s)
	}
	return groups
}

// wholeCalls reads a block that is in none of the known forms but still JSON: members in another order, other names
// of members, arguments in a string. It reports false if it is not.
func (c *block) wholeCalls(text string) bool {
	calls, ok := readCalls(text)
	for _, call := range calls {
		ok = ok && (c.opened() || c.knows(call.Name))
	}
	if !ok {
		return false
	}
	out := &c.core.Out
	out.End()
	c.takeCall(len(c.buf))
	for _, call := range calls {
		if c.core.Cfg.Report && call.Name == reasoning.ReportReasoningName {
			c.report = true
			c.core.Object.Reset(true, false)
			c.argument(call.Arguments)
			c.endReport()
			continue
		}
		if !c.knows(call.Name) {
			c.core.Warn(reader.CodeUnknownFunction)
		}
		out.Begin(reasoning.ToolCall, c.core.Call(call.Name))
		out.Salvage(call.Arguments)
		out.End()
		c.core.Rationale(call.object)
	}
	return true
}

func (c *block) knows(name string) bool {
	return slices.Contains(c.core.Cfg.Tools, name) || c.core.Cfg.Report && name == reasoning.ReportReasoningName
}

// textCall is a tool call as models write it in text.
type textCall struct {
	Name      string
	Arguments string
	// object is what the call was read from.
	object []byte
}

// readCalls reads one call, a list of calls, or several after each other.
func readCalls(text string) ([]textCall, bool) {
	text = strings.TrimSpace(text)
	var raw []json.RawMessage
	if strings.HasPrefix(text, "[") {
		if json.Unmarshal([]byte(text), &raw) != nil {
			return nil, false
		}
	} else {
		for d := json.NewDecoder(strings.NewReader(text)); ; {
			var one json.RawMessage
			if err := d.Decode(&one); err != nil {
				if len(raw) == 0 || d.InputOffset() < int64(len(text)) {
					return nil, false
				}
				break
			}
			raw = append(raw, one)
		}
	}
	var calls []textCall
	for _, r := range raw {
		c, ok := readCall(r)
		if !ok {
			return nil, false
		}
		calls = append(calls, c)
	}
	return calls, len(calls) > 0
}

func readCall(raw json.RawMessage) (textCall, bool) {
	var c struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
		Function   json.RawMessage `json:"function"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return textCall{}, false
	}
	if c.Name == "" && len(c.Function) > 0 && c.Function[0] == '{' {
		inner, ok := readCall(c.Function)
		inner.object = raw
		return inner, ok
	}
	args := c.Arguments
	if args == nil {
		args = c.Parameters
	}
	var quoted string
	switch {
	case c.Name == "":
		return textCall{}, false
	case args == nil || string(args) == "null":
		return textCall{c.Name, "{}", raw}, true
	case json.Unmarshal(args, &quoted) == nil:
		return textCall{c.Name, quoted, raw}, true
	}
	return textCall{c.Name, string(args), raw}, true
}
