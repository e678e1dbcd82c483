package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"runner/reasoning"
)

// chatCommand is a command of the chat.
type chatCommand struct {
	name, arguments, help string
	// run returns true to leave the chat.
	run func(c *chat, arguments string) bool
}

// chatCommands returns the commands in the order of /help.
func chatCommands() []chatCommand {
	return []chatCommand{
		{"/help", "", "list the commands", (*chat).help},
		{"/reasoning", "[" + strings.Join(visibilityNames, "|") + "]", "show or set how much reasoning is shown",
			(*chat).setReasoning},
		{"/effort", "[" + strings.Join(effortNames(), "|") + "]", "show or set how much the model reasons",
			(*chat).setEffort},
		{"/clear", "", "forget the conversation", (*chat).clear},
		{"/save", "FILE", "write the conversation, as it was shown, to a new file", (*chat).save},
		{"/exit", "", "leave", func(*chat, string) bool { return true }},
	}
}

func commandNames() []string {
	var names []string
	for _, c := range chatCommands() {
		names = append(names, c.name)
	}
	return names
}

func effortNames() []string {
	names := []string{effortName(reasoning.EffortDefault)}
	for _, e := range efforts {
		names = append(names, string(e))
	}
	return names
}

// otherNames are names of commands that people know from other programs.
var otherNames = map[string]string{"exit": "/exit", "quit": "/exit", "/quit": "/exit", "/bye": "/exit", "/?": "/help"}

// parseCommand recognises a command: one line that begins with a slash and a lowercase word, or one of the other names
// alone. Other text that begins with a slash, such as a path, is a message.
func parseCommand(text string) (name, arguments string, ok bool) {
	if name, ok = otherNames[strings.TrimSpace(text)]; ok {
		return name, "", true
	}
	name, arguments, _ = strings.Cut(strings.TrimSpace(text), " ")
	if len(name) < 2 || name[0] != '/' || strings.Contains(text, "\n") {
		return "", "", false
	}
	other := func(r rune) bool { return r < 'a' || r > 'z' }
	return name, strings.TrimSpace(arguments), strings.IndexFunc(name[1:], other) < 0
}

func (c *chat) command(name, arguments string) (leave bool) {
	for _, cmd := range chatCommands() {
		if cmd.name == name {
			return cmd.run(c, arguments)
		}
	}
	c.say("There is no command %s; /help lists them.", name)
	return false
}

func (c *chat) help(string) bool {
	for _, cmd := range chatCommands() {
		fmt.Fprintf(c.app.out, "  %-12s%s\n", cmd.name, cmd.help)
		if cmd.arguments != "" {
			fmt.Fprintf(c.app.out, "  %-12s  %s\n", "", cmd.arguments)
		}
	}
	fmt.Fprintf(c.app.out, `
  A line that ends in \ goes on in the next one; %s opens and closes a block.
  Pasted lines stay together. Ctrl-C stops an answer, and twice leaves.
  What begins with a space is not kept in the history.
`, blockMark)
	return false
}

func (c *chat) setReasoning(value string) bool {
	if value != "" {
		i := slices.Index(visibilityNames, value)
		if i < 0 {
			c.say("Reasoning cannot be %q; use %s.", value, alternatives(visibilityNames))
			return false
		}
		c.options.request.Visibility = visibilities[i]
	}
	c.say("Reasoning shown: %s.", c.options.request.Visibility)
	return false
}

func (c *chat) setEffort(value string) bool {
	if value != "" {
		names := effortNames()
		i := slices.Index(names, value)
		if i < 0 {
			c.say("Effort cannot be %q; use %s.", value, alternatives(names))
			return false
		}
		c.options.request.Effort = reasoning.EffortDefault
		if i > 0 {
			c.options.request.Effort = efforts[i-1]
		}
	}
	c.say("Reasoning effort: %s.", effortName(c.options.request.Effort))
	return false
}

func (c *chat) clear(string) bool {
	c.messages = c.messages[:c.system]
	c.shown = nil
	c.say("The conversation is forgotten.")
	return false
}

// save writes the shown text to a new file that only the user can read.
func (c *chat) save(path string) bool {
	if path == "" {
		c.say("Name a file: /save FILE")
		return false
	}
	if err := c.shown.write(path, c.gen.Info().Name); err != nil {
		reason := err
		if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
			reason = pe.Err
		}
		if errors.Is(err, fs.ErrExist) {
			reason = errors.New("the file exists already; choose another name")
		}
		c.say("Not saved to %s: %v", path, reason)
		return false
	}
	c.say("Saved to %s.", path)
	return false
}

func (t transcript) write(path, model string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Conversation with %s\n", model)
	for _, part := range t {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", part.heading, strings.Trim(part.text, "\n"))
	}
	_, err = f.WriteString(b.String())
	return errors.Join(err, f.Close())
}
