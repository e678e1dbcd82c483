package decision

import (
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

// PlanStep is a step of a plan.
type PlanStep struct {
	// Tool is the function that the step calls; empty if it calls none.
	Tool    string `json:"tool,omitempty"`
	Purpose string `json:"purpose"`
	// Rationale is the reason for this tool; nil if the model gave none.
	Rationale *reasoning.Rationale `json:"rationale,omitempty"`
}

// planSchema is the JSON Schema of plans, with TOOLS for the names of tools and TEXT for the schema of a text. An
// answer has its members in this order, which is that of the prompt.
const planSchema = `{"type": "object", "additionalProperties": false, "required": ["steps"], "properties": {
	"steps": {"type": "array", "minItems": 1, "maxItems": 16, "items": {"anyOf": [
		{"type": "object", "additionalProperties": false, "required": ["tool", "purpose", "rationale"], "properties": {
			"tool": {"enum": TOOLS},
			"purpose": TEXT,
			"rationale": {"type": "object", "additionalProperties": false, "required": ["why"], "properties": {
				"why": TEXT,
				"refs": {"type": "array", "items": TEXT, "maxItems": 8},
				"alternatives": {"type": "array", "maxItems": 8, "items": {
					"type": "object", "additionalProperties": false, "required": ["option", "rejectedBecause"], "properties": {
						"option": TEXT, "rejectedBecause": TEXT}}},
				"confidence": {"type": "number", "minimum": 0, "maximum": 1}}}}},
		{"type": "object", "additionalProperties": false, "required": ["purpose"], "properties": {"purpose": TEXT}}]}}}}`

// PlanSchema returns the JSON Schema of plans that use the given tools. It requires a rationale for each step with a
// tool.
func PlanSchema(tools []string) ([]byte, error) {
	names, err := json.Marshal(tools)
	return []byte(strings.NewReplacer("TEXT", `{"type": "string", "minLength": 1, "maxLength": 280}`,
		"TOOLS", string(names)).Replace(planSchema)), err
}

// ParsePlan reads a plan that uses the given tools. A rationale that cannot be read counts as missing. Other violations
// of the schema are errors.
func ParsePlan(text string, tools []string) (Plan, error) {
	var raw struct {
		Steps []struct {
			Tool      string          `json:"tool"`
			Purpose   string          `json:"purpose"`
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
		switch {
		case s.Tool != "" && !slices.Contains(tools, s.Tool):
			return Plan{}, fmt.Errorf("step %d names a tool that does not exist", i+1)
		case s.Purpose == "" && s.Tool == "":
			return Plan{}, fmt.Errorf("step %d is empty", i+1)
		}
		step := PlanStep{Tool: s.Tool, Purpose: s.Purpose}
		if r, ok := reasoning.ParseRationale(s.Rationale); s.Tool != "" && ok {
			step.Rationale = &r
		} else if s.Tool != "" {
			p.Missing++
		}
		p.Steps = append(p.Steps, step)
	}
	return p, nil
}
