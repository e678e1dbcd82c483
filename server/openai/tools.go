package openai

import (
	"encoding/json"
	"slices"
	"strings"

	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/server/internal/contract"
	"runner/server/wire"
)

// ToolOptions are the fields about tools.
type ToolOptions struct {
	// The tools that the model may call.
	Tools      []json.RawMessage `json:"tools" api:"[..1024]#Tool" of:"Tools"`
	ToolChoice json.RawMessage   `json:"tool_choice" api:"#ToolChoice" of:"ToolChoice,ToolName"`
	// With false the model makes at most one call.
	ParallelToolCalls *bool `json:"parallel_tool_calls" api:"default=true"`
	// The older form of `tools`. The answer then has `function_call`.
	Functions []json.RawMessage `json:"functions" api:"[..1024]#Function deprecated"`
	// The older form of `tool_choice`. It is used only with `functions`.
	FunctionCall json.RawMessage `json:"function_call" api:"=auto,none|#FunctionName deprecated"`
}

// Function is a function that the model may call.
//
//openapi:request Function
type Function struct {
	// 1 to 256 bytes without white space, control characters, and angle, square and curly brackets. Names must be
	// unique.
	Name string `json:"name" api:"[1..256] required"`
	// What the tool does. The model reads this.
	Description string `json:"description"`
	// A JSON Schema of the arguments. Without it the function takes none.
	Parameters json.RawMessage `json:"parameters" api:"{}|null"`
	Strict     *bool           `json:"strict" api:"#FunctionStrict"`
}

// tools reads the tools into an order, and reports whether they are in the older form.
func (o *ToolOptions) tools(d *order) (legacy bool, err error) {
	path, list := "tools", o.Tools
	if len(o.Functions) > 0 {
		if len(list) > 0 {
			return false, conflict("tools", "functions")
		}
		path, list, legacy = "functions", o.Functions, true
	}
	for i, raw := range list {
		if err := d.addTool(raw, wire.Index(path, i), legacy); err != nil {
			return legacy, err
		}
	}
	d.req.SingleCall = legacy || o.ParallelToolCalls != nil && !*o.ParallelToolCalls
	if legacy {
		return legacy, d.functionCall(o.FunctionCall)
	}
	return legacy, d.toolChoice(o.ToolChoice)
}

// addTool adds one tool.
func (d *order) addTool(raw json.RawMessage, path string, legacy bool) error {
	if !legacy {
		var t struct {
			Type     string          `json:"type"`
			Function json.RawMessage `json:"function"`
		}
		if err := wire.Object(path, raw, &t); err != nil {
			return err
		}
		if t.Type == "" && !wire.Given(t.Function) {
			return wire.Invalid(path+".type", "it is missing; function and custom are known")
		}
		if t.Type == typeCustom {
			return d.addCustom(raw, path+".custom")
		}
		if t.Type != "" && t.Type != "function" {
			d.warnings.Add("tool_skipped", path+": tools of this type are not known here and were left out")
			return nil
		}
		raw, path = t.Function, path+".function"
	}
	var f Function
	if err := wire.Object(path, raw, &f); err != nil {
		return err
	}
	return contract.AddTool(&d.req, path, path+".parameters", chattemplate.Tool{
		Name: f.Name, Description: f.Description, Parameters: f.Parameters, Strict: f.Strict != nil && *f.Strict,
	})
}

// typeCustom is the type of custom tools, whose argument is free text, and of their calls.
const typeCustom = "custom"

// addCustom adds a custom tool. The model sees it as a function with one text argument.
func (d *order) addCustom(raw json.RawMessage, path string) error {
	var t struct {
		Custom contract.CustomTool `json:"custom"`
	}
	if err := wire.Unmarshal(raw, &t); err != nil {
		return wire.Under(strings.TrimSuffix(path, ".custom"), err)
	}
	tool, err := t.Custom.Tool(path)
	if err != nil {
		return err
	}
	if d.custom == nil {
		d.custom = map[string]bool{}
	}
	d.custom[tool.Name] = true
	return contract.AddTool(&d.req, path, path, tool)
}

func (d *order) toolChoice(raw json.RawMessage) error {
	const path = "tool_choice"
	d.req.ToolChoice, d.req.ToolName = "", ""
	switch {
	case !wire.Given(raw):
		return nil
	case wire.Is(raw, '"'):
		word, err := wire.Text(path, raw)
		if err != nil {
			return err
		}
		return contract.ChooseTools(&d.req, path, word)
	}
	type named struct {
		Type     string `json:"type"`
		Function struct {
			Name string `json:"name"`
		} `json:"function"`
		Custom struct {
			Name string `json:"name"`
		} `json:"custom"`
	}
	var choice struct {
		named
		AllowedTools struct {
			Mode  string  `json:"mode"`
			Tools []named `json:"tools"`
		} `json:"allowed_tools"`
	}
	if err := wire.Object(path, raw, &choice); err != nil {
		return err
	}
	switch choice.Type {
	case "function":
		d.req.ToolChoice, d.req.ToolName = generation.ToolChoiceFunction, choice.Function.Name
		return d.mustHave(choice.Function.Name, path+".function.name")
	case typeCustom:
		d.req.ToolChoice, d.req.ToolName = generation.ToolChoiceFunction, choice.Custom.Name
		return d.mustHave(choice.Custom.Name, path+".custom.name")
	case "allowed_tools":
		if len(choice.AllowedTools.Tools) > maxTools {
			return wire.Invalid(path+".allowed_tools.tools", "there are more than %d", maxTools)
		}
		allowed := map[string]bool{}
		for i, t := range choice.AllowedTools.Tools {
			at, name := wire.Index(path+".allowed_tools.tools", i), t.Function.Name
			switch t.Type {
			case "function":
				at += ".function.name"
			case typeCustom:
				at, name = at+".custom.name", t.Custom.Name
			default:
				d.warnings.Add("tool_skipped", at+": tools of this type are not known here and were left out")
				continue
			}
			if err := d.mustHave(name, at); err != nil {
				return err
			}
			allowed[name] = true
		}
		// The model is shown only these, because nothing else prevents it from calling the others.
		d.req.Tools = slices.DeleteFunc(d.req.Tools, func(t chattemplate.Tool) bool { return !allowed[t.Name] })
		if choice.AllowedTools.Mode == "none" {
			return wire.Invalid(path+".allowed_tools.mode", "auto and required are known")
		}
		return contract.ChooseTools(&d.req, path+".allowed_tools.mode", choice.AllowedTools.Mode)
	}
	return wire.Unsupported(path+".type", "%q is not known here; function, custom and allowed_tools are",
		wire.Clip(choice.Type))
}

func (d *order) functionCall(raw json.RawMessage) error {
	const path = "function_call"
	d.req.ToolChoice, d.req.ToolName = "", ""
	switch {
	case !wire.Given(raw):
		return nil
	case wire.Is(raw, '"'):
		word, err := wire.Text(path, raw)
		if err == nil && word != "auto" && word != "none" {
			err = wire.Invalid(path, "%q is not known; none, auto and a function's name are", wire.Clip(word))
		}
		if err != nil {
			return err
		}
		return contract.ChooseTools(&d.req, path, word)
	}
	var f struct {
		Name string `json:"name"`
	}
	if err := wire.Object(path, raw, &f); err != nil {
		return err
	}
	d.req.ToolChoice, d.req.ToolName = generation.ToolChoiceFunction, f.Name
	return d.mustHave(f.Name, path+".name")
}

// mustHave returns an error unless a function is called name.
func (d *order) mustHave(name, path string) error {
	if slices.ContainsFunc(d.req.Tools, func(t chattemplate.Tool) bool { return t.Name == name }) ||
		delegation.IsTool(name) {
		return nil // Validate checks whether the model may delegate
	}
	return wire.Invalid(path, "the request has no function named %q", wire.Clip(name))
}
