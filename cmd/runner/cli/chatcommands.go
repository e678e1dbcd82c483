package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rivo/uniseg"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/hint"
)

// errLeave ends the chat.
var errLeave = errors.New("the user leaves the chat")

// chatCommand is a command of the chat.
type chatCommand struct {
	name string
	// arguments shows what follows the name in the help, and help says what the command does.
	arguments, help string
	// run follows the command. Its error ends the chat if it is errLeave, ErrInterrupted or a broken pipe.
	run func(c *chat, ctx context.Context, arguments string) error
	// values returns the values that the arguments can have, of which some begin with what was typed. It may be nil.
	values func(c *chat, typed string) []string
	// lines is set if the arguments may have several lines.
	lines bool
}

// chatCommands returns the commands in the order of /help.
func chatCommands() []chatCommand {
	return []chatCommand{
		{name: "/system", arguments: "[TEXT]", help: `show or set the system message; "none" removes it`,
			run: (*chat).setSystem, values: fixed(valueNone), lines: true},
		{name: "/file", arguments: "[PATH]", help: `add a text file to the next message; "none" drops it`,
			run: (*chat).attach, values: completePaths},
		{name: "/model", arguments: "[NAME]", help: "show or change the model", run: (*chat).setModel,
			values: func(_ *chat, typed string) []string { return modelNames(typed) }},
		{name: "/regenerate", help: "answer the last message again", run: (*chat).regenerate},
		{name: "/undo", help: "take back the last message and its answer", run: (*chat).undo},
		{name: "/stats", help: "show figures of the last answer and the conversation", run: (*chat).showStats},
		{name: "/reasoning", arguments: "[HOW]", help: "how much reasoning is shown: " + flags.Alternatives(visibilityNames),
			run: (*chat).setReasoning, values: fixed(visibilityNames...)},
		{name: "/effort", arguments: "[LEVEL]", help: "how much the model reasons, from none to high",
			run: (*chat).setEffort, values: fixed(effortNames()...)},
		{name: "/summary", arguments: "[HOW]", help: "summary of the reasoning: " + flags.Alternatives(summaryNames),
			run: (*chat).setSummary, values: fixed(summaryNames...)},
		{name: "/save", arguments: "FILE", help: "write the conversation to a new file; /load reads .json",
			run: (*chat).save, values: completePaths},
		{name: "/load", arguments: "FILE.json", help: "go on with a conversation that /save wrote",
			run: (*chat).load, values: completeJSON},
		{name: "/clear", help: "forget the conversation", run: (*chat).clear},
		{name: "/help", arguments: "[COMMAND]", help: "list the commands, or tell more of one", run: (*chat).help,
			values: func(*chat, string) []string { return commandNames() }},
		{name: "/exit", help: "leave", run: func(*chat, context.Context, string) error { return errLeave }},
	}
}

// valueNone is the value that removes a system message and attached files.
const valueNone = "none"

// fixed returns values that do not change.
func fixed(values ...string) func(*chat, string) []string {
	return func(*chat, string) []string { return values }
}

func commandNames() []string {
	var names []string
	for _, c := range chatCommands() {
		names = append(names, c.name)
	}
	return names
}

// findCommand returns the command with a name.
func findCommand(name string) (chatCommand, bool) {
	list := chatCommands()
	i := slices.IndexFunc(list, func(c chatCommand) bool { return c.name == name })
	if i < 0 {
		return chatCommand{}, false
	}
	return list[i], true
}

// otherNames are names of commands that people know from other programs.
var otherNames = map[string]string{"exit": "/exit", "quit": "/exit", "/quit": "/exit", "/bye": "/exit", "/?": "/help"}

// parseCommand recognises a command: one line that begins with a slash and a lowercase word, or one of the other names
// alone. Some commands take several lines. Other text that begins with a slash, such as a path, is a message.
func parseCommand(text string) (name, arguments string, ok bool) {
	text = strings.TrimSpace(text)
	if name, ok = otherNames[text]; ok {
		return name, "", true
	}
	name = text
	if i := strings.IndexAny(text, " \n"); i >= 0 {
		name, arguments = text[:i], strings.TrimSpace(text[i:])
	}
	other := func(r rune) bool { return r < 'a' || r > 'z' }
	if len(name) < 2 || name[0] != '/' || strings.IndexFunc(name[1:], other) >= 0 {
		return "", "", false
	}
	cmd, _ := findCommand(name)
	return name, arguments, cmd.lines || !strings.Contains(text, "\n")
}

// command follows a command.
func (c *chat) command(ctx context.Context, name, arguments string) error {
	cmd, ok := findCommand(name)
	if !ok {
		return unknownCommand(name)
	}
	if cmd.arguments == "" && arguments != "" {
		return Usage("%s takes no argument", name).Hint("enter it alone")
	}
	return cmd.run(c, ctx, arguments)
}

// chatElsewhere has commands of ollama's chat, and what does their work here.
var chatElsewhere = map[string]hint.Advice{
	"/set": "/system, /reasoning and /effort set those; sampling is set by flags, see runner run --help-all",
	"/show": "/stats shows figures of the last answer, /system the system message, and /model the model; " +
		"runner show MODEL has the rest",
}

func unknownCommand(name string) error {
	e := Usage("there is no command %s", name).Hint("/help lists them")
	switch near := Nearest(name, commandNames()); {
	case chatElsewhere[name] != "":
		e.Advice = chatElsewhere[name]
	case near != "":
		e.Advice = didYouMean(near)
	}
	return e
}

// candidates returns what Tab can complete a text to.
func (c *chat) candidates(text string) (list []string) {
	if !strings.HasPrefix(text, "/") {
		return nil
	}
	name, typed, given := strings.Cut(text, " ")
	if given {
		if cmd, ok := findCommand(name); ok && cmd.values != nil {
			for _, value := range cmd.values(c, typed) {
				list = append(list, name+" "+value)
			}
		}
		return list
	}
	for _, cmd := range chatCommands() {
		if cmd.arguments != "" {
			cmd.name += " "
		}
		list = append(list, cmd.name)
	}
	return list
}

// help lists the commands, or tells more of one.
func (c *chat) help(_ context.Context, name string) error {
	w, width := c.app.Stdout(), c.app.helpWidth()
	if name != "" {
		name = "/" + strings.TrimPrefix(name, "/")
		cmd, ok := findCommand(name)
		if !ok {
			return unknownCommand(name)
		}
		fmt.Fprintf(w, "  %s %s\n%s\n", cmd.name, cmd.arguments, render.Hanging("  ", cmd.help, 2, width))
		if more := helpTexts[name]; more != "" {
			fmt.Fprintln(w, indented(more, width))
		}
		return nil
	}
	for _, cmd := range chatCommands() {
		fmt.Fprintln(w, render.Hanging("  "+render.Pad(cmd.name+" "+cmd.arguments, 19), cmd.help, 21, width))
	}
	fmt.Fprintln(w, indented(fmt.Sprintf(`
  Tab completes commands and their values. Ctrl-C stops an answer; twice leaves.
  A line that ends in \ goes on in the next one; %s opens and closes a block.
  Pasted lines stay together. What begins with a space is not in the history.`, blockMark), width))
	return nil
}

// indented breaks the lines that are wider than width. The rest of a line begins below its text, or below the second
// column of a table.
func indented(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if uniseg.StringWidth(line) <= width {
			continue
		}
		first, rest := "  ", strings.TrimPrefix(line, "  ")
		if name, after, ok := strings.Cut(rest, "  "); ok {
			rest = strings.TrimLeft(after, " ")
			first += name + strings.Repeat(" ", len(after)-len(rest)+2)
		}
		lines[i] = render.Hanging(first, rest, uniseg.StringWidth(first), width)
	}
	return strings.Join(lines, "\n")
}

// helpTexts are what /help COMMAND tells besides the line in /help. No line is longer than 80 columns.
var helpTexts = map[string]string{
	"/system": `
  The system message tells the model how to answer. It holds from the next
  message on, and the conversation stays. @FILE reads it from a file.`,
	"/file": `
  Without PATH it shows what will go with the next message. Tab completes PATH.`,
	"/model": `
  NAME is what runner run takes: an installed model, a file or a folder. The
  conversation stays. If the new model cannot be opened, the old one is opened
  again.`,
	"/regenerate": `
  The earlier answer stays if the new one fails or is stopped. With --seed, each
  new answer has the next seed, because the same seed gives the same answer.`,
	"/reasoning": `
  none      only the answer
  summary   a summary of the reasoning, and the answer
  full      all of the reasoning, and the answer`,
	"/effort": `
  default, none, minimal, low, medium or high. Not every model has all of them.`,
	"/summary": `
  on        the same as /reasoning summary
  off       no summary is shown
  concise   show one or two sentences
  detailed  show a paragraph`,
	"/save": `
  FILE.json gets the messages, and /load reads it. Another FILE gets the text as
  it was shown. Reasoning is in the file only where it was shown. Only you can
  read the file. A file that exists is not replaced.`,
	"/load": `
  The conversation in the file takes the place of this one, with its system
  message. The model and the settings stay.`,
	"/clear": `
  The system message, the model and the settings stay.`,
}
