package tags

import (
	"slices"
	"strings"
)

// CallStyle is how a family of models writes calls of functions in the text of its answers. Styles are the entries
// of one table; they are compared by address and must not be changed.
//
// Calls stand in blocks. A block begins with Open and ends with Close; where there is no Close it ends with its
// only call, or with the end of its list.
type CallStyle struct {
	// Name names the style for people.
	Name string
	// Open begins a block. Empty means that an answer which begins as a call is one.
	Open string
	// Close ends a block.
	Close []CallToken
	// List is set where the calls of a block stand in a list: its beginning, what is between calls, and its end.
	List *[3]CallToken
	// Many says that a block may hold several calls although it has no list. Between is then what stands between them.
	Many    bool
	Between string
	// Head is what stands before a call's arguments and Tail what stands after them.
	Head, Tail []CallToken
	// JSON says that a call is a JSON object, so that white space between its tokens means nothing.
	JSON bool
	// Param is one argument, in styles that write them one by one; empty where the arguments are a JSON object.
	Param []CallToken
}

// CallToken is a piece of a call: a text, or the place of something.
type CallToken struct {
	// Space is the white space that models write before the token: nothing, one space, which they may leave out, or
	// line breaks.
	Space string
	// Text is what the token says; for a place it is what the place is for.
	Text string
	// Place says that the token is a place.
	Place CallPlace
}

// CallPlace is what a place in a call is for.
type CallPlace uint8

// The places.
const (
	NoPlace    CallPlace = iota
	NamePlace            // the function's name
	IDPlace              // the call's id or index, which readers ignore
	KeyPlace             // an argument's name
	ValuePlace           // an argument's value: a string as it is, other values as JSON
	KindPlace            // true where the argument is a string, else false
)

// callStyles are the known styles. Patterns are written as models write them, with a space where there may be one:
// %name, %id, %args, %key, %value and %kind are places.
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

// CallStyleNamed returns the style of a name, or nil.
func CallStyleNamed(name string) *CallStyle {
	i := slices.IndexFunc(callStyles, func(s *CallStyle) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return callStyles[i]
}

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
	// What follows a bracket or a comma is the white space before the next call.
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

// callTokens takes a pattern apart. In JSON, brackets, commas, colons and strings are tokens of their own.
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

// literal returns the length of the literal that text begins with.
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
