package contract

import (
	"slices"

	"runner/chattemplate"
	"runner/generation"
	"runner/server/wire"
)

// AddTool adds the tool at path to a request. schema is the place of its parameters, as they were sent.
func AddTool(req *generation.Request, path, schema string, tool chattemplate.Tool) (err error) {
	if tool.Parameters, err = wire.Schema(schema, tool.Parameters); err != nil {
		return err
	}
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
