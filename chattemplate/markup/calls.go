package markup

import (
	"strings"
)

// CallStyle is a way of writing calls of functions in the text of an answer. All styles are in one table. They are
// compared by address and must not be changed.
//
// Calls come in blocks. A block begins with Open and ends with Close. Without Close it ends with the end of its list,
// or with its only call.
type CallStyle struct {
	// Name is the style's name, for people.
	Name string
	// Open begins a block. If it is empty, an answer that begins like a call is a call.
	Open string
	// Close ends a block.
	Close []CallToken
	// List is the beginning of a list of calls, the separator between calls, and the end of the list. It is nil in styles
	// without a list.
	List *[3]CallToken
	// Many says that a block may have several calls without a list. Between is then the text between two calls.
	Many    bool
	Between string
	// Head comes before a call's arguments and Tail after them.
	Head, Tail []CallToken
	// JSON says that a call is a JSON object, so that white space between its tokens has no meaning.
	JSON bool
	// Param is one argument, in styles that write arguments one by one. It is empty if the arguments are a JSON object.
	Param []CallToken
}

// CallToken is a piece of a call: a fixed text or a place to fill in.
type CallToken struct {
	// Space is the white space before the token: nothing, line breaks, or one space. A model may omit a single space.
	Space string
	// Text is the token's text. For a place it is the name of the place.
	Text string
	// Place is the kind of value that the token stands for. NoPlace is a fixed text.
	Place CallPlace
}

// CallPlace is a kind of place in a call.
type CallPlace uint8

// The kinds of places.
const (
	NoPlace    CallPlace = iota
	NamePlace            // the function's name
	IDPlace              // the call's id or index, which readers ignore
	KeyPlace             // an argument's name
	ValuePlace           // an argument's value: a string without quotes and escapes, other values as JSON
	KindPlace            // "true" if the argument is a string, else "false"
)

// callStyles are the known styles. A pattern is written as models write calls, with a space wherever one is possible.
// The places in it are %name, %id, %args, %key, %value and %kind.
var callStyles = []*CallStyle{
	newStyle("hermes", `<tool_call>`, "\n"+`{"name": "%name", "arguments": %args}`, "\n</tool_call>", ""),
	newStyle("qwen-xml", `<tool_call>`, "\n<function=%name>\n%args</function>", "\n</tool_call>",
		"<parameter=%key>\n%value\n</parameter>\n"),
	newStyle("glm", `<tool_call>`, `%name%args`, `</tool_call>`, `<arg_key>%key</arg_key><arg_value>%value</arg_value>`),
	listed(newStyle("apriel", `<tool_calls>`, `{"name": "%name", "arguments": %args}`, `</tool_calls>`, ""), "[",
		", ", "]"),
	listed(newStyle("cohere", `<|START_ACTION|>`, `{"tool_call_id": "%id", "tool_name": "%name", "parameters": %args}`,
		`<|END_ACTION|>`, ""), "[\n    ", ",\n    ", "\n]"),
	newStyle("gigachat", `<|function_call|>`, `{"name": "%name", "arguments": %args}`, "", ""),
	listed(newStyle("functools", `functools`, `{"name": "%name", "arguments": %args}`, "", ""), "[", ", ", "]"),
	listed(newStyle("granite", `<|tool_call|>`, `{"name": "%name", "arguments": %args}`, "", ""), "[", ", ", "]"),
	listed(newStyle("apertus", `<|tools_prefix|>`, `{"%name": %args}`, `<|tools_suffix|>`, ""), "[", ", ", "]"),
	listed(newStyle("mistral", `[TOOL_CALLS]`, `{"name": "%name", "arguments": %args, "id": "%id"}`, "", ""), "[",
		", ", "]"),
	newStyle("mistral-args", `[TOOL_CALLS]`, `%name[ARGS]%args`, "", ""),
	newStyle("mistral-id", `[TOOL_CALLS]`, `%name[CALL_ID]%id[ARGS]%args`, "", ""),
	newStyle("functionary", `<function=`, `%name>%args</function>`, "", ""),
	many("\n", newStyle("deepseek-r1", `<｜tool▁calls▁begin｜>`,
		"<｜tool▁call▁begin｜>function<｜tool▁sep｜>%name\n```json\n%args\n```<｜tool▁call▁end｜>", `<｜tool▁calls▁end｜>`, "")),
	many("", newStyle("deepseek", `<｜tool▁calls▁begin｜>`, `<｜tool▁call▁begin｜>%name<｜tool▁sep｜>%args<｜tool▁call▁end｜>`,
		`<｜tool▁calls▁end｜>`, "")),
	many("", newStyle("kimi", `<|tool_calls_section_begin|>`,
		`<|tool_call_begin|>functions.%name:%id<|tool_call_argument_begin|>%args<|tool_call_end|>`,
		`<|tool_calls_section_end|>`, "")),
	many("\n", newStyle("deepseek-dsml", `<｜DSML｜tool_calls>`, "\n"+`<｜DSML｜invoke name="%name">`+"\n%args</｜DSML｜invoke>",
		"\n</｜DSML｜tool_calls>",
		`<｜DSML｜parameter name="%key" string="%kind">%value</｜DSML｜parameter>`+"\n")),
	newStyle("llama", "", `{"name": "%name", "parameters": %args}`, "", ""),
	newStyle("llama-tag", `<|python_tag|>`, `{"name": "%name", "parameters": %args}`, "", ""),
}

// CallStyles lists the known styles. The list must not be changed.
func CallStyles() []*CallStyle { return callStyles }

func newStyle(name, open, call, closing, param string) *CallStyle {
	s := &CallStyle{Name: name, Open: open, JSON: strings.HasPrefix(strings.TrimSpace(call), "{")}
	head, tail, _ := strings.Cut(call, "%args")
	s.Head, s.Tail = callTokens(head, s.JSON), callTokens(tail, s.JSON)
	s.Close, s.Param = callTokens(closing, false), callTokens(param, false)
	return s
}

func listed(s *CallStyle, begin, between, end string) *CallStyle {
	list := [3]CallToken{}
	for i, text := range []string{begin, between, end} {
		list[i] = callTokens(strings.TrimRight(text, " \n"), true)[0]
	}
	// The text after a bracket or a comma is the white space before the next call.
	s.Head[0].Space = begin[1:]
	if s.Head[0].Space == "" {
		s.Head[0].Space = between[1:]
	}
	s.List = &list
	return s
}

func many(between string, s *CallStyle) *CallStyle {
	s.Many, s.Between = true, between
	return s
}

var callPlaces = []struct {
	verb  string
	place CallPlace
}{{"%name", NamePlace}, {"%id", IDPlace}, {"%key", KeyPlace}, {"%value", ValuePlace}, {"%kind", KindPlace}}

// callTokens splits a pattern into tokens. In JSON, brackets, commas, colons and strings are separate tokens.
func callTokens(pattern string, inJSON bool) []CallToken {
	var out []CallToken
	for pattern != "" {
		rest := strings.TrimLeft(pattern, " \n")
		t := CallToken{Space: pattern[:len(pattern)-len(rest)]}
		n := 0
		for _, p := range callPlaces {
			if strings.HasPrefix(rest, p.verb) {
				t.Place, t.Text, n = p.place, p.verb[1:], len(p.verb)
			}
		}
		if n == 0 {
			n = literal(rest, inJSON)
			t.Text = rest[:n]
		}
		out = append(out, t)
		pattern = rest[n:]
	}
	return out
}

// literal returns the length of the literal at the beginning of text.
func literal(text string, inJSON bool) int {
	n := strings.IndexAny(text, "% \n")
	if n < 0 {
		n = len(text)
	}
	if !inJSON || n == 0 {
		return n
	}
	if text[0] == '"' && n > 1 && text[1] >= 'a' { // the name of a member
		return strings.IndexByte(text[1:], '"') + 2
	}
	return 1
}
