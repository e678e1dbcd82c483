package decision

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"runner/reasoning"
)

// maxSteps is the maximum number of steps in a plan.
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

type object map[string]any

// property is a member of an object of a schema.
type property struct {
	name   string
	schema any
}

// properties keep their order in JSON. An answer that follows a schema has its members in the schema's order, and the
// prompt asks for this order.
type properties []property

func (list properties) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, p := range list {
		schema, err := json.Marshal(p.schema)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(strconv.AppendQuote(text, p.name), ':'), schema...)
	}
	return append(text, '}'), nil
}

// PlanSchema returns the JSON Schema of plans that use the given tools. It requires a rationale for each step with a
// tool.
func PlanSchema(tools []string) ([]byte, error) {
	text := object{"type": "string", "minLength": 1, "maxLength": 280}
	closed := func(required []string, members ...property) object {
		return object{"type": "object", "properties": properties(members), "required": required,
			"additionalProperties": false}
	}
	several := func(items any) object { return object{"type": "array", "items": items, "maxItems": 8} }
	rationale := closed([]string{"why"}, property{"why", text}, property{"refs", several(text)},
		property{"alternatives", several(closed([]string{"option", "rejectedBecause"}, property{"option", text},
			property{"rejectedBecause", text}))},
		property{"confidence", object{"type": "number", "minimum": 0, "maximum": 1}})
	step := object{"anyOf": []object{
		closed([]string{"tool", "purpose", "rationale"}, property{"tool", object{"enum": tools}}, property{"purpose", text},
			property{"rationale", rationale}),
		closed([]string{"purpose"}, property{"purpose", text}),
	}}
	return json.Marshal(closed([]string{"steps"},
		property{"steps", object{"type": "array", "items": step, "minItems": 1, "maxItems": maxSteps}}))
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
