// Package help lays out the help of commands. It fits the terminal, or 80 columns where there is none. A command with
// many flags shows those that people use most; --help-all shows all of them by topic.
package help

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
)

const (
	// PlainWidth is the width, in columns, of help that does not go to a terminal.
	PlainWidth = 80
	// nameWidth is the widest flag, in columns, whose description stands in the same line.
	nameWidth = 30
)

// OnlyGroups is the annotation of a command that does nothing but hold others.
const OnlyGroups = "group"

// Write writes the help of a command: its description, how it is called, examples, and the commands and flags that it
// has. Lines have at most width columns.
func Write(to io.Writer, cmd *cobra.Command, width int) {
	fmt.Fprintln(to, reflow(Description(cmd), min(width, render.ProseWidth)))
	WriteUsage(to, cmd, width)
}

// Description returns the long description of a command, or the short one.
func Description(cmd *cobra.Command) string {
	if cmd.Long == "" {
		return cmd.Short + "."
	}
	return cmd.Long
}

// Usages returns the lines that show how cmd is called.
func Usages(cmd *cobra.Command) (list []string) {
	if cmd.Annotations[OnlyGroups] == "" {
		list = append(list, cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		list = append(list, cmd.CommandPath()+" COMMAND")
	}
	return list
}

// WriteUsage writes all of the help but the description.
func WriteUsage(to io.Writer, cmd *cobra.Command, width int) {
	fmt.Fprintln(to, "\nUsage:\n  "+strings.Join(Usages(cmd), "\n  "))
	if cmd.HasExample() {
		fmt.Fprintln(to, "\nExamples:\n"+strings.TrimRight(cmd.Example, "\n"))
	}
	for _, g := range Commands(cmd) {
		fmt.Fprintf(to, "\n%s:\n", g.Title)
		for _, sub := range g.Commands {
			fmt.Fprintln(to, render.Hanging("  "+render.Pad(sub.Name(), 12), sub.Short, 14, width))
		}
	}
	whole := cmd.Flags().Lookup(flags.AllFlag)
	all := whole == nil || whole.Value.String() == "true"
	for _, g := range Flags(cmd, all) {
		fmt.Fprintf(to, "\n%s:\n", cmp.Or(g.Title, "Flags"))
		for _, f := range g.Flags {
			fmt.Fprintln(to, flagHelp(f, width))
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(to, "\n\"%s COMMAND --help\" says more about a command.\n", cmd.CommandPath())
	}
}

// CommandGroup is a group of commands in the help.
type CommandGroup struct {
	Title    string
	Commands []*cobra.Command
}

// Commands returns the commands of cmd by their groups.
func Commands(cmd *cobra.Command) (list []CommandGroup) {
	groups := append(slices.Clone(cmd.Groups()), &cobra.Group{Title: "Commands"})
	for _, g := range groups {
		shown := CommandGroup{Title: g.Title}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.GroupID == g.ID {
				shown.Commands = append(shown.Commands, sub)
			}
		}
		if len(shown.Commands) > 0 {
			list = append(list, shown)
		}
	}
	return list
}

// FlagGroup is a group of flags in the help. One without a title has no topic.
type FlagGroup struct {
	Title string
	Flags []*pflag.Flag
}

// Flags returns all flags of cmd by topic, or those that people use most.
func Flags(cmd *cobra.Command, all bool) (list []FlagGroup) {
	add := func(f *pflag.Flag) {
		if f.Hidden || !all && !flags.IsCommon(f) && f.Name != "help" {
			return
		}
		title := ""
		if all {
			title = flags.TopicOf(f)
		}
		i := slices.IndexFunc(list, func(g FlagGroup) bool { return g.Title == title })
		if i < 0 {
			i, list = len(list), append(list, FlagGroup{Title: title})
		}
		list[i].Flags = append(list[i].Flags, f)
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return list
}

// Parts returns a flag's names, such as "-m, --model", what its value is called, and its description with the default.
func Parts(f *pflag.Flag) (names, value, usage string) {
	value, usage = pflag.UnquoteUsage(f)
	switch f.DefValue {
	case "", "false", "0", "0s": // go without saying
	default:
		if !strings.Contains(usage, "(default") {
			usage += " (default " + f.DefValue + ")"
		}
	}
	if flags.IsSecret(f) { // others can see the command line
		usage += " (also: " + flags.VariableOf(f) + ")"
	}
	names = "--" + f.Name
	if f.Shorthand != "" {
		names = "-" + f.Shorthand + ", " + names
	}
	return names, value, usage
}

// flagHelp describes a flag. The description of a long one begins in a line of its own.
func flagHelp(f *pflag.Flag, width int) string {
	names, value, usage := Parts(f)
	name := "      " + names
	if f.Shorthand != "" {
		name = "  " + names
	}
	if value != "" {
		name += " " + value
	}
	if uniseg.StringWidth(name) > nameWidth {
		return name + "\n" + render.Hanging(strings.Repeat(" ", nameWidth+2), usage, nameWidth+2, width)
	}
	return render.Hanging(render.Pad(name, nameWidth+2), usage, nameWidth+2, width)
}

// reflow breaks paragraphs into lines of at most width columns. Paragraphs that begin with white space stay as they
// are.
func reflow(text string, width int) string {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") {
			paragraphs[i] = render.Wrap(p, width)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
