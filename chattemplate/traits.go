package chattemplate

import (
	"strings"
	"time"

	"runner/chattemplate/jinja"
)

// The texts of probes, small conversations that show what a template does. Templates neither change these texts nor
// contain them.
const (
	ProbeUser      = "qzu7mx"
	ProbeAnswer    = "qza9wn"
	ProbeReasoning = "qzr3vb"
	ProbeTool      = "qzt5hj"
	ProbeKey       = "qzk2fp"
	ProbeValue     = "qzv8lc"
	ProbeResult    = "qzd6gy"
	probeSystem    = "qzs4kd"
	probeID        = "call_0123456789abcdef"
)

// ProbeTools are the tools in probes.
var ProbeTools = []Tool{{Name: ProbeTool, Description: "d", Parameters: []byte(
	`{"type": "object", "properties": {"` + ProbeKey + `": {"type": "string", "description": "d"}}, "required": ["` +
		ProbeKey + `"]}`)}}

// probeLimits keep NewTemplate fast even if a template does much work. Probes are small conversations.
var probeLimits = jinja.Limits{Steps: 500_000, Output: 4 << 20, Memory: 64 << 20}

// probeTime is the current time in probes.
var probeTime = time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)

// traits are the ways in which chat templates differ in their input. Each is found by rendering a probe.
type traits struct {
	// system: there is a place for a system prompt.
	system bool
	// typedContent: content is a list of parts with types, not a string.
	typedContent bool
	// tools and calls: the template shows tools to the model, and the calls in the history.
	tools, calls bool
	// objectArguments: a call's arguments are an object, not a string with JSON.
	objectArguments bool
	// textArguments: text that is no object is accepted as arguments, too.
	textArguments bool
	// noneContent: the content of a message that has only calls is None.
	noneContent bool
	// listedTools: without tools the template needs an empty list, because it loops over it.
	listedTools bool
	// ids is the form of the ids of calls.
	ids idForm
	// laterPrompts: a system prompt may come after other messages. usersInRow: two messages of the user may follow each
	// other.
	laterPrompts, usersInRow bool
}

// probeTraits finds the template's traits. A template that fails on every probe gets the usual ones, so that its own
// error shows when it is used.
func (j *Template) probeTraits() traits {
	ask := Message{Role: User, Content: ProbeUser}
	shows := func(t traits, needle string, tools []Tool, msgs ...Message) bool {
		text, ok := j.probe(t, &Conversation{Messages: msgs, Tools: tools})
		return ok && strings.Contains(text, needle)
	}
	t := traits{system: true, objectArguments: true}
	for _, try := range []traits{t, {listedTools: true}, {typedContent: true}, {listedTools: true, typedContent: true}} {
		try.system, try.objectArguments = true, true
		if shows(try, ProbeUser, nil, ask) {
			t = try
			break
		}
	}
	t.system = shows(t, probeSystem, nil, Message{Role: System, Content: probeSystem}, ask) ||
		!shows(t, ProbeUser, nil, ask)

	t.laterPrompts, t.usersInRow = true, true
	answer, later := Message{Role: Assistant, Content: ProbeAnswer}, Message{Role: System, Content: probeSystem}
	t.laterPrompts = shows(t, probeSystem, nil, ask, answer, later, ask)
	t.usersInRow = shows(t, probeSystem, nil, ask, Message{Role: User, Content: probeSystem})

	tools := ProbeTools
	if t.tools = shows(t, ProbeTool, tools, ask); !t.tools {
		tools = nil
	}
	call := func(id string) []Message {
		return []Message{
			ask,
			{Role: Assistant, ToolCalls: []ToolCall{{ID: id, Name: ProbeTool, Arguments: `{"` + ProbeKey + `": "` +
				ProbeValue + `"}`}}},
			{Role: ToolRole, ToolCallID: id, ToolName: ProbeTool, Content: ProbeResult},
		}
	}
	for _, try := range []traits{
		{objectArguments: true}, {objectArguments: true, noneContent: true}, {}, {noneContent: true},
		{objectArguments: true, ids: shortIDs}, {ids: shortIDs},
	} {
		try.calls = true
		try.system, try.typedContent, try.tools, try.listedTools = t.system, t.typedContent, t.tools, t.listedTools
		try.laterPrompts, try.usersInRow = t.laterPrompts, t.usersInRow
		if shows(try, ProbeValue, tools, call(probeID)...) {
			if try.ids == givenIDs {
				try.ids = j.probeIDs(try, call(probeID))
			}
			text := call(probeID)
			text[1].ToolCalls[0].Arguments = ProbeValue
			try.textArguments = true
			try.textArguments = shows(try, ProbeValue, tools, text...)
			return try
		}
	}
	return t
}

// probeIDs finds the form of ids in calls of a template that takes any id.
func (j *Template) probeIDs(t traits, call []Message) idForm {
	once, _ := j.probe(t, &Conversation{Messages: call})
	first, second := namedID(ProbeTool, 0), namedID(ProbeTool, 1)
	if !strings.Contains(once, first) {
		if strings.Contains(once, probeID) && !strings.Contains(once, ProbeTool) {
			return namedIDs // the id is the only place for the name
		}
		return givenIDs
	}
	if twice, _ := j.probe(t, &Conversation{Messages: append(call, call[1:]...)}); strings.Contains(twice, second) {
		return namedIDs
	}
	return turnIDs
}

// Probe renders a small conversation, with the variables in set, and returns whether the template accepted it. It sets
// c.Now.
func (j *Template) Probe(c *Conversation, set ...Variable) (string, bool) {
	return j.probe(j.traits, c, set...)
}

// probe is Probe with assumed traits.
func (j *Template) probe(t traits, c *Conversation, set ...Variable) (string, bool) {
	assumed := *j
	assumed.traits = t
	c.Now = probeTime
	vars, err := assumed.variables(c)
	if err != nil {
		return "", false
	}
	for _, v := range set {
		vars[v.Name] = v.value()
	}
	text, err := j.execute(vars, probeTime)
	if err == nil && j.probing {
		j.scanner = j.scanner.learned(text)
	}
	return text.String(), err == nil
}
