package channels

import (
	"slices"
	"strings"

	"runner/chattemplate"
	"runner/chattemplate/channels/harmony"
)

// functions is the namespace of the request's functions in recipients, and to comes before a recipient.
const (
	functions = "functions."
	to        = "to="
)

// assistant is the role of the model.
const assistant = string(harmony.RoleAssistant)

// The content types of calls.
const (
	contentJSON = "json"
	contentCode = "code"
)

// persons are recipients that are not functions: a message to one is not a call. gpt-oss sometimes writes them.
var persons = []string{assistant, string(harmony.RoleUser), "all"}

// The built-in tools of gpt-oss. The template variable builtin_tools offers them.
const (
	python  = "python"
	browser = "browser"
)

// builtins has the recipients of each built-in tool.
var builtins = map[string][]string{
	python:  {python},
	browser: {browser + ".search", browser + ".open", browser + ".find"},
}

// builtinTools returns the built-in tools that the caller's variables offer.
func builtinTools(args map[string]any) []any {
	list, _ := args["builtin_tools"].([]any)
	return list
}

// offers reports whether a conversation offers a tool.
func offers(c *chattemplate.Conversation) bool { return len(c.Tools)+len(builtinTools(c.Args)) > 0 }

// isBuiltin reports whether name is a built-in tool or a function of it.
func isBuiltin(name, tool string) bool { return name == tool || strings.HasPrefix(name, tool+".") }

// callsBuiltin reports whether a recipient is a built-in tool.
func callsBuiltin(recipient string) bool {
	return recipient == python || strings.HasPrefix(recipient, browser+".")
}

func isPerson(name string) bool { return slices.Contains(persons, name) }
