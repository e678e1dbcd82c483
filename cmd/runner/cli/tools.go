package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"

	"runner/chattemplate"
	"runner/reasoning"
)

const maxTools = 1024

// toolName matches the function names that OpenAI's API reference allows.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

type toolDefinition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

// parseTools parses function definitions: an OpenAI tools array, an array of bare functions, or a single one of
// either. Tools that are not functions are skipped; skipped has their types.
func parseTools(data []byte) (tools []chattemplate.Tool, skipped []string, err error) {
	data = bytes.TrimSpace(data)
	items := make([]json.RawMessage, 1)
	var into any = &items
	if len(data) > 0 && data[0] != '[' {
		into = &items[0]
	}
	if err := json.Unmarshal(data, into); err != nil {
		return nil, nil, fmt.Errorf("is not JSON: %w", err)
	}
	if len(items) == 0 || len(items) > maxTools {
		return nil, nil, fmt.Errorf("has %d functions; 1 to %d are allowed", len(items), maxTools)
	}
	seen := map[string]bool{}
	for i, item := range items {
		var wrapper struct {
			Type     string          `json:"type"`
			Function *toolDefinition `json:"function"`
			toolDefinition
		}
		if err := json.Unmarshal(item, &wrapper); err != nil {
			return nil, nil, fmt.Errorf("entry %d is not a function: %s", i+1, jsonProblem(err))
		}
		if wrapper.Type != "" && wrapper.Type != "function" {
			skipped = append(skipped, wrapper.Type)
			continue
		}
		d := wrapper.toolDefinition
		if wrapper.Function != nil {
			d = *wrapper.Function
		}
		if err := d.check(seen); err != nil {
			return nil, nil, fmt.Errorf("entry %d: %w", i+1, err)
		}
		tools = append(tools, chattemplate.Tool{Name: d.Name, Description: d.Description, Parameters: d.Parameters,
			Strict: d.Strict})
	}
	return tools, skipped, nil
}

func (d *toolDefinition) check(seen map[string]bool) error {
	if string(d.Parameters) == "null" {
		d.Parameters = nil
	}
	switch {
	case !toolName.MatchString(d.Name):
		return fmt.Errorf("the name %q is not 1 to 64 letters, digits, - or _", clip(d.Name))
	case d.Name == reasoning.ReportReasoningName:
		return fmt.Errorf("the name %q is reserved for the function with which models report their reasoning", d.Name)
	case seen[d.Name]:
		return fmt.Errorf("the name %q is used twice", d.Name)
	case len(d.Parameters) > 0 && d.Parameters[0] != '{':
		return fmt.Errorf("the parameters of %q are not a JSON Schema object", d.Name)
	}
	seen[d.Name] = true
	return nil
}

// clip shortens a name from a file for an error message.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

// readTools reads the file of --tools.
func (a *App) readTools(path string) ([]chattemplate.Tool, error) {
	text, err := a.ReadFile("--tools", path)
	if err != nil {
		return nil, err
	}
	tools, skipped, err := parseTools([]byte(text))
	if err != nil {
		return nil, Input("--tools %s %v", path, err).From(err).Hint("give an OpenAI tools array or function objects")
	}
	for _, kind := range skipped {
		a.Complain(fmt.Sprintf("warning: --tools %s: a tool of type %q was skipped; only functions can be called", path,
			clip(kind)))
	}
	return tools, nil
}

// jsonProblem describes JSON of the wrong type without naming Go types.
func jsonProblem(err error) string {
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong) && wrong.Field != "":
		return fmt.Sprintf("%q cannot be a %s", wrong.Field, wrong.Value)
	case errors.As(err, &wrong):
		return "it is a " + wrong.Value
	}
	return err.Error()
}
