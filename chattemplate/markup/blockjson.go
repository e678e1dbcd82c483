package markup

import (
	"encoding/json"
	"strings"

	"runner/chattemplate/reader"
	"runner/reasoning"
)

// maxCall limits the calls that are read whole, in bytes. A longer call is text of the answer. A longer value of an
// argument is sent as a string.
const maxCall = 1 << 20

// readWhole reads a block that does not have the form of a known style but is still JSON: its members have another
// order or other names, or its arguments are in a string. It returns false if the block is anything else.
func (b *block) readWhole(text string) bool {
	calls, ok := readCalls(text)
	for _, call := range calls {
		ok = ok && (b.opened() || b.knows(call.Name))
	}
	if !ok {
		return false
	}
	out := &b.core.Out
	out.End()
	b.drop(len(b.buf))
	for _, call := range calls {
		if b.core.Cfg.Report && call.Name == reasoning.ReportReasoningName {
			b.report = true
			b.core.Object.Reset(true, false)
			b.send(call.Arguments)
			b.endReport()
			continue
		}
		if !b.knows(call.Name) {
			b.core.Warn(reader.CodeUnknownFunction)
		}
		out.Begin(reasoning.ToolCall, b.core.Call(call.Name))
		out.Salvage(call.Arguments)
		out.End()
		b.core.Rationale(call.object)
	}
	return true
}

// jsonCall is a call that was read whole.
type jsonCall struct {
	Name      string
	Arguments string
	// object is the JSON of the call.
	object []byte
}

// readCalls reads one call, a list of calls, or several calls in a row.
func readCalls(text string) ([]jsonCall, bool) {
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
	var calls []jsonCall
	for _, r := range raw {
		c, ok := readCall(r)
		if !ok {
			return nil, false
		}
		calls = append(calls, c)
	}
	return calls, len(calls) > 0
}

func readCall(raw json.RawMessage) (jsonCall, bool) {
	var c struct {
		Name       string          `json:"name"`
		Arguments  json.RawMessage `json:"arguments"`
		Parameters json.RawMessage `json:"parameters"`
		Function   json.RawMessage `json:"function"`
	}
	if json.Unmarshal(raw, &c) != nil {
		return jsonCall{}, false
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
		return jsonCall{}, false
	case args == nil || string(args) == "null":
		return jsonCall{c.Name, "{}", raw}, true
	case json.Unmarshal(args, &quoted) == nil:
		return jsonCall{c.Name, quoted, raw}, true
	}
	return jsonCall{c.Name, string(args), raw}, true
}
