package harmony

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The defaults of a system message.
const (
	DefaultIdentity        = "You are ChatGPT, a large language model trained by OpenAI."
	DefaultKnowledgeCutoff = "2024-06"
	DefaultEffort          = "medium"
)

// DefaultChannels are the channels that a system message allows by default.
var DefaultChannels = []string{Analysis, Commentary, Final}

// System is the content of a system message. The system prompt of an API does not go here but into [Developer].
type System struct {
	// Identity is the first line; empty means DefaultIdentity.
	Identity string
	// KnowledgeCutoff is a month as YYYY-MM; empty means DefaultKnowledgeCutoff.
	KnowledgeCutoff string
	// CurrentDate is a day as YYYY-MM-DD; empty shows no date.
	CurrentDate string
	// Effort is low, medium or high; empty means DefaultEffort.
	Effort string
	// Browser and Python offer the built-in tools of gpt-oss.
	Browser, Python bool
	// Channels are the valid channels; nil means DefaultChannels.
	Channels []string
	// Functions says that the developer message defines functions.
	Functions bool
}

// Text renders the system message's content.
func (s System) Text() string {
	var b strings.Builder
	b.WriteString(or(s.Identity, DefaultIdentity))
	b.WriteString("\nKnowledge cutoff: ")
	b.WriteString(or(s.KnowledgeCutoff, DefaultKnowledgeCutoff))
	if s.CurrentDate != "" {
		b.WriteString("\nCurrent date: ")
		b.WriteString(s.CurrentDate)
	}
	b.WriteString("\n\nReasoning: ")
	b.WriteString(or(s.Effort, DefaultEffort))
	if s.Browser || s.Python {
		b.WriteString("\n\n# Tools")
		if s.Browser {
			b.WriteString("\n\n")
			b.WriteString(browserTool)
		}
		if s.Python {
			b.WriteString("\n\n")
			b.WriteString(pythonTool)
		}
	}
	channels := s.Channels
	if channels == nil {
		channels = DefaultChannels
	}
	b.WriteString("\n\n# Valid channels: ")
	b.WriteString(strings.Join(channels, ", "))
	b.WriteString(". Channel must be included for every message.")
	if s.Functions {
		b.WriteString("\nCalls to these tools must go to the commentary channel: 'functions'.")
	}
	return b.String()
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// Function is a function that the model may call in the namespace functions.
type Function struct {
	Name        string
	Description string
	// Parameters is a JSON Schema. If it is empty, null or an object without properties, the function has no parameters.
	Parameters json.RawMessage
}

// ResponseFormat shows the model the schema of its answer.
type ResponseFormat struct {
	Name        string
	Description string
	// Schema is a JSON Schema. It is shown without insignificant white space.
	Schema json.RawMessage
}

// Developer is the content of a developer message: the API's system prompt, the functions and the answer's format.
type Developer struct {
	Instructions    string
	Functions       []Function
	ResponseFormats []ResponseFormat
}

// Empty reports whether the message would be empty.
func (d Developer) Empty() bool {
	return d.Instructions == "" && len(d.Functions) == 0 && len(d.ResponseFormats) == 0
}

// Text renders the developer message's content. It returns a [*SchemaError] if a function's parameters or a format's
// schema are not JSON or exceed this package's limits.
func (d Developer) Text() (string, error) {
	var sections []string
	if d.Instructions != "" {
		sections = append(sections, "# Instructions", d.Instructions)
	}
	if len(d.Functions) > 0 {
		text, err := functionsText(d.Functions)
		if err != nil {
			return "", err
		}
		sections = append(sections, "# Tools", text)
	}
	if len(d.ResponseFormats) > 0 {
		sections = append(sections, "# Response Formats")
		for i, f := range d.ResponseFormats {
			schema, err := compactJSON(f.Schema)
			if err != nil {
				return "", &SchemaError{What: "response format", Index: i, Err: err}
			}
			if f.Description != "" {
				schema = "// " + f.Description + "\n" + schema
			}
			sections = append(sections, "## "+f.Name, schema)
		}
	}
	return strings.Join(sections, "\n\n"), nil
}

// functionsText renders the namespace functions.
func functionsText(functions []Function) (string, error) {
	w := &tsWriter{}
	w.put("## functions\n\nnamespace functions {\n\n")
	for i, f := range functions {
		for line := range strings.Lines(f.Description) {
			w.put("// ", strings.TrimRight(line, "\r\n"), "\n")
		}
		schema, err := parseSchema(f.Parameters)
		if err != nil {
			return "", &SchemaError{What: "function", Index: i, Err: err}
		}
		if schema.takesNothing() {
			w.put("type ", f.Name, " = () => any;\n\n")
		} else {
			w.put("type ", f.Name, " = (_: ")
			w.typ(schema, 0)
			w.put(") => any;\n\n")
		}
		if w.full {
			return "", &SchemaError{What: "function", Index: i, Err: fmt.Errorf("definitions take more than %d bytes",
				maxDefinitions)}
		}
	}
	w.put("} // namespace functions")
	return w.String(), nil
}

const browserTool = `## browser

// Tool for browsing.
// The ` + "`cursor`" + ` appears in brackets before each browsing display: ` + "`[{cursor}]`" + `.
// Cite information from the tool using the following format:
// ` + "`【{cursor}†L{line_start}(-L{line_end})?】`" + `, for example: ` + "`【6†L9-L11】` or `【8†L3】`" + `.
// Do not quote more than 10 words directly from the tool output.
// sources=web (default: web)
namespace browser {

// Searches for information related to ` + "`query` and displays `topn`" + ` results.
type search = (_: {
query: string,
topn?: number, // default: 10
source?: string,
}) => any;

// Opens the link ` + "`id` from the page indicated by `cursor` starting at line number `loc`, " +
	"showing `num_lines`" + ` lines.
// Valid link ids are displayed with the formatting: ` + "`【{id}†.*】`" + `.
// If ` + "`cursor`" + ` is not provided, the most recent page is implied.
// If ` + "`id` is a string, it is treated as a fully qualified URL associated with `source`" + `.
// If ` + "`loc`" + ` is not provided, the viewport will be positioned at the beginning of the document ` +
	`or centered on the most relevant passage, if available.
// Use this function without ` + "`id`" + ` to scroll to a new location of an opened page.
type open = (_: {
id?: number | string, // default: -1
cursor?: number, // default: -1
loc?: number, // default: -1
num_lines?: number, // default: -1
view_source?: boolean, // default: false
source?: string,
}) => any;

// Finds exact matches of ` + "`pattern` in the current page, or the page given by `cursor`" + `.
type find = (_: {
pattern: string,
cursor?: number, // default: -1
}) => any;

} // namespace browser`

const pythonTool = `## python

Use this tool to execute Python code in your chain of thought. The code will not be shown to the user. ` +
	`This tool should be used for internal reasoning, but not for code that is intended to be visible to the user ` +
	`(e.g. when creating plots, tables, or files).

When you send a message containing Python code to python, ` +
	`it will be executed in a stateful Jupyter notebook environment. ` +
	`python will respond with the output of the execution or time out after 120.0 seconds. ` +
	`The drive at '/mnt/data' can be used to save and persist user files. ` +
	`Internet access for this session is UNKNOWN. Depends on the cluster.`
