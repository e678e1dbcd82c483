package channels

import (
	"slices"
	"strings"

	"runner/chattemplate"
)

// functions is the namespace of the request's functions in recipients.
const functions = "functions."

// persons are recipients that make no call of a message. gpt-oss writes them now and then.
var persons = []string{"assistant", "user", "all"}

// builtins are the tools of gpt-oss's own, with the recipients of their calls. They are named in the template variable
// builtin_tools.
var builtins = map[string][]string{
	"python":  {"python"},
	"browser": {"browser.search", "browser.open", "browser.find"},
}

// builtinTools returns the tools of gpt-oss's own that the caller's variables offer.
func builtinTools(args map[string]any) []any {
	list, _ := args["builtin_tools"].([]any)
	return list
}

// offers reports whether a conversation offers something to call.
func offers(c *chattemplate.Conversation) bool { return len(c.Tools)+len(builtinTools(c.Args)) > 0 }

// isBuiltin reports whether a name is that of a tool of gpt-oss's own, or of a function of one.
func isBuiltin(name, tool string) bool { return name == tool || strings.HasPrefix(name, tool+".") }

// callsBuiltin reports whether a recipient is a tool of gpt-oss's own.
func callsBuiltin(recipient string) bool {
	return recipient == "python" || strings.HasPrefix(recipient, "browser.")
}

func isPerson(name string) bool { return slices.Contains(persons, name) }
