package anthropic

import (
	"encoding/json"
	"strings"
)

// clientTools are the tools that Anthropic defines and clients carry out. A request names only their types, which begin
// with kind and end with a date. Source: Anthropic's documents of the tools bash, text editor and memory.
var clientTools = []struct{ kind, description, schema string }{
	{"bash_", "Runs a command in a shell that stays open between calls.", `{"type": "object", "properties": {
		"command": {"type": "string", "description": "the command; required unless restart is true"},
		"restart": {"type": "boolean", "description": "true starts the shell anew"}}}`},
	{"text_editor_", "Shows, creates and changes text files.", `{"type": "object", "properties": {
		"command": {"enum": ["view", "create", "str_replace", "insert"]},
		"path": {"type": "string", "description": "the file; for view also a folder"},` + editing + `},
		"required": ["command", "path"]}`},
	{"memory_", "Keeps notes in files below /memories, which stay from one conversation to the next.",
		`{"type": "object", "properties": {
		"command": {"enum": ["view", "create", "str_replace", "insert", "delete", "rename"]},
		"path": {"type": "string", "description": "the file or folder; not for rename"},` + editing + `,
		"old_path": {"type": "string", "description": "for rename"},
		"new_path": {"type": "string", "description": "for rename"}}, "required": ["command"]}`},
}

// editing are the parameters for commands that show and change a text file.
const editing = `
		"view_range": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 2,
			"description": "for view: the first and the last line, from 1; -1 is the end"},
		"file_text": {"type": "string", "description": "for create: the text of the file"},
		"old_str": {"type": "string", "description": "for str_replace: the text to replace, which must be there once"},
		"new_str": {"type": "string", "description": "for str_replace: the text instead"},
		"insert_line": {"type": "integer", "description": "for insert: the line after which the text comes; 0 is the start"},
		"insert_text": {"type": "string", "description": "for insert: the text"}`

// define fills in the description and the parameters of a tool that Anthropic defines. It reports whether it is one.
func (t *Tool) define() bool {
	for _, c := range clientTools {
		if strings.HasPrefix(t.Type, c.kind) {
			t.Description, t.InputSchema = c.description, json.RawMessage(c.schema)
			return true
		}
	}
	return false
}
