package contract

import (
	"slices"

	"runner/chattemplate"
	"runner/generation"
	"runner/server/wire"
)

// AddTool adds the tool at path to a request.
func AddTool(req *generation.Request, path string, tool chattemplate.Tool) error {
	switch {
	case !chattemplate.ValidName(tool.Name):
		return wire.Invalid(path+".name", chattemplate.NameAdvice)
	case slices.ContainsFunc(req.Tools, func(t chattemplate.Tool) bool { return t.Name == tool.Name }):
		return wire.Invalid(path+".name", "another tool has the same name")
	}
	req.Tools = append(req.Tools, tool)
	return nil
}

// ChooseTools sets whether the model may or must call tools: auto, none or required.
func ChooseTools(req *generation.Request, path, word string) error {
	switch c := generation.ToolChoice(word); c {
	case generation.ToolChoiceAuto, generation.ToolChoiceNone, generation.ToolChoiceRequired:
		req.ToolChoice = c
		return nil
	}
	return wire.Invalid(path, "%q is not known; auto, none and required are", wire.Clip(word))
}
