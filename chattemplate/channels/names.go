package channels

import (
	"slices"
	"strings"

	"runner/chattemplate"
)

// functions is the namespace of the request's functions in recipients.
const functions = "functions."

// persons are recipients that do not make a message a call. gpt-oss sometimes writes them.
var persons = []string{"assistant", "user", "all"}

// builtins are the built-in tools of gpt-oss, with the recipients of their calls. The template variable builtin_tools
// offers them.
var builtins = map[string][]string{
	"python":  {"python"},
	"browser": {"browser.search", "browser.open", "browser.find"},
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
	return recipient == "python" || strings.HasPrefix(recipient, "browser.")
}

func isPerson(name string) bool { return slices.Contains(persons, name) }
