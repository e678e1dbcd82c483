package chattemplate

import (
	"strings"
	"time"

	"runner/chattemplate/jinja"
)

// The texts of probes: nothing that a template would change or write itself.
const (
	probeUser      = "qzu7mx"
	probeSystem    = "qzs4kd"
	probeAnswer    = "qza9wn"
	probeReasoning = "qzr3vb"
	probeTool      = "qzt5hj"
	probeKey       = "qzk2fp"
	probeValue     = "qzv8lc"
	probeResult    = "qzd6gy"
)

// probeLimits keep a template that does much work from making New slow: probes are small conversations.
var probeLimits = jinja.Limits{Steps: 500_000, Output: 4 << 20, Memory: 64 << 20}

// probeTime is what time it is in probes.
var probeTime = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// traits are the points on which chat templates differ in what they take. Each is found out by rendering a probe that
// would show it.
type traits struct {
	// system: there is a place for a system prompt.
	system bool
	// typedContent: content is a list of parts with types, not a string.
	typedContent bool
	// tools and calls: tools are shown to the model, and calls in the history are.
	tools, calls bool
	// objectArguments: a call's arguments are an object, not a string with JSON.
	objectArguments bool
	// noneContent: the content of a message that only calls is None.
	noneContent bool
	// listedTools: tools are an empty list when there are none, since the template goes through them.
	listedTools bool
	// shortIDs: ids of calls are nine letters and digits.
	shortIDs bool
}

// probeTraits finds out what the template takes. A template that fails on every probe gets the usual traits, so that
// its own error shows when it is used.
func (j *jinjaTemplate) probeTraits() traits {
	ask := Message{Role: User, Content: probeUser}
	shows := func(t traits, needle string, tools []Tool, msgs ...Message) bool {
		text, ok := j.probe(t, &Conversation{Messages: msgs, Tools: tools})
		return ok && strings.Contains(text, needle)
	}
	t := traits{system: true, objectArguments: true}
	for _, try := range []traits{t, {listedTools: true}, {typedContent: true}, {listedTools: true, typedContent: true}} {
		try.system, try.objectArguments = true, true
		if shows(try, probeUser, nil, ask) {
			t = try
			break
		}
	}
	t.system = shows(t, probeSystem, nil, Message{Role: System, Content: probeSystem}, ask) ||
		!shows(t, probeUser, nil, ask)

	tools := []Tool{{Name: probeTool, Description: "d", Parameters: []byte(
		`{"type": "object", "properties": {"` + probeKey + `": {"type": "string", "description": "d"}}, "required": ["` +
			probeKey + `"]}`)}}
	if t.tools = shows(t, probeTool, tools, ask); !t.tools {
		tools = nil
	}
	call := func(id string) []Message {
		return []Message{
			ask,
			{Role: Assistant, ToolCalls: []ToolCall{{ID: id, Name: probeTool, Arguments: `{"` + probeKey + `": "` +
				probeValue + `"}`}}},
			{Role: ToolRole, ToolCallID: id, ToolName: probeTool, Content: probeResult},
		}
	}
	for _, try := range []traits{
		{objectArguments: true}, {objectArguments: true, noneContent: true}, {}, {noneContent: true},
		{objectArguments: true, shortIDs: true}, {shortIDs: true},
	} {
		try.calls = true
		try.system, try.typedContent, try.tools, try.listedTools = t.system, t.typedContent, t.tools, t.listedTools
		if shows(try, probeValue, tools, call("call_0123456789abcdef")...) {
			return try
		}
	}
	return t
}

// probe renders a conversation under assumed traits. It reports whether the template took it.
func (j *jinjaTemplate) probe(t traits, c *Conversation, set ...variable) (string, bool) {
	assumed := *j
	assumed.traits = t
	c.Now = probeTime
	vars, err := assumed.variables(c)
	if err != nil {
		return "", false
	}
	for _, v := range set {
		vars[v.name] = v.value()
	}
	text, err := j.execute(vars, probeTime)
	return text.String(), err == nil
}
