package decision

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"runner/reasoning"
)

// maxSteps is the maximum number of steps in a plan. The schema has it, too.
const maxSteps = 16

// Plan is what a model would do, in order. None of it has been done.
type Plan struct {
	Steps []PlanStep `json:"steps"`
	// Missing is the number of steps with a tool but without a reason.
	Missing int `json:"plan_rationale_missing"`
}

// PlanStep is a step of a plan, with the names of Reactive Agents.
type PlanStep struct {
	// Title says what the step is for.
	Title string `json:"title"`
	// Type is tool_call or analysis.
	Type string `json:"type"`
	// ToolName is the function that the step calls; empty if it calls none. ToolArgs are its arguments, if they are
	// planned.
	ToolName string          `json:"toolName,omitempty"`
	ToolArgs json.RawMessage `json:"toolArgs,omitempty"`
	// Rationale is the reason for this tool; nil if the model gave none.
	Rationale *reasoning.Rationale `json:"rationale,omitempty"`
}

// planSchema is the JSON Schema of plans, with TOOLS for the names of tools and TEXT for the schema of a text. An
// answer has its members in the order of properties. The model reads this text: the bundled model is trained on it, so
// another order of keywords is a change of the prompt.
const planSchema = `{"additionalProperties": false, "properties": {
	"steps": {"items": {"anyOf": [
		{"additionalProperties": false, "properties": {
			"tool": {"enum": TOOLS},
			"purpose": TEXT,
			"rationale": {"additionalProperties": false, "properties": {
				"why": TEXT,
				"refs": {"items": TEXT, "maxItems": 8, "type": "array"},
				"alternatives": {"items": {
					"additionalProperties": false, "properties": {"option": TEXT, "rejectedBecause": TEXT},
					"required": ["option", "rejectedBecause"], "type": "object"}, "maxItems": 8, "type": "array"},
				"confidence": {"maximum": 1, "minimum": 0, "type": "number"}},
				"required": ["why"], "type": "object"}},
			"required": ["tool", "purpose", "rationale"], "type": "object"},
		{"additionalProperties": false, "properties": {"purpose": TEXT}, "required": ["purpose"], "type": "object"}]},
		"maxItems": 16, "minItems": 1, "type": "array"}},
	"required": ["steps"], "type": "object"}`

// PlanSchema returns the JSON Schema of plans that use the given tools. It requires a rationale for each step with a
// tool.
func PlanSchema(tools []string) ([]byte, error) {
	names, err := json.Marshal(tools)
	return []byte(strings.NewReplacer("TEXT", `{"maxLength": 280, "minLength": 1, "type": "string"}`,
		"TOOLS", string(names)).Replace(planSchema)), err
}

// ParsePlan reads a plan that uses the given tools, in the words of the schema or in those of a [PlanStep]. A rationale
// that cannot be read counts as missing. Other violations of the schema are errors.
func ParsePlan(text string, tools []string) (Plan, error) {
	var raw struct {
		Steps []struct {
			Tool      string          `json:"tool"`
			Purpose   string          `json:"purpose"`
			Title     string          `json:"title"`
			ToolName  string          `json:"toolName"`
			ToolArgs  json.RawMessage `json:"toolArgs"`
			Rationale json.RawMessage `json:"rationale"`
		} `json:"steps"`
	}
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return Plan{}, errors.New("the plan is not a complete JSON object")
	}
	if n := len(raw.Steps); n < 1 || n > maxSteps {
		return Plan{}, fmt.Errorf("the plan has %d steps; 1 to %d are allowed", n, maxSteps)
	}
	var p Plan
	for i, s := range raw.Steps {
		step := PlanStep{Title: cmp.Or(s.Title, s.Purpose), Type: "analysis", ToolName: cmp.Or(s.ToolName, s.Tool)}
		r, stated := reasoning.ParseRationale(s.Rationale)
		switch called := step.ToolName != ""; {
		case called && !slices.Contains(tools, step.ToolName):
			return Plan{}, fmt.Errorf("step %d names a tool that does not exist", i+1)
		case called:
			step.Type, step.ToolArgs = "tool_call", s.ToolArgs
			if stated {
				step.Rationale = &r
			} else {
				p.Missing++
			}
		case step.Title == "":
			return Plan{}, fmt.Errorf("step %d is empty", i+1)
		}
		p.Steps = append(p.Steps, step)
	}
	return p, nil
}
