package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"runner/cmd/runner/settings"
)

// The help of a command fits the terminal, or 80 columns where there is none. A command with many flags shows those
// that people use most; --help-all shows all of them by topic.

const (
	// plainWidth is the width, in columns, of help that does not go to a terminal.
	plainWidth = 80
	// proseWidth is the width, in columns, beyond which text is hard to read.
	proseWidth = 100
	// nameWidth is the widest flag, in columns, whose description stands in the same line.
	nameWidth = 30
)

// allFlag is the flag that shows all flags.
const allFlag = "help-all"

// onlyGroups is the annotation of a command that does nothing but hold others.
const onlyGroups = "group"

// Annotations of flags.
const (
	// topicOf has the topic of a flag in the help.
	topicOf = "topic"
	// isCommon marks a flag that --help shows.
	isCommon = "common"
)

// topic gives the flags that add adds to cmd a topic in the help.
func topic(cmd *cobra.Command, name string, add func()) {
	known := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	add()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !known[f.Name] {
			must(cmd.Flags().SetAnnotation(f.Name, topicOf, []string{name}))
		}
	})
}

// common adds --help-all to cmd, and has --help show only the flags with these names.
func common(cmd *cobra.Command, names ...string) {
	for _, name := range names {
		must(cmd.Flags().SetAnnotation(name, isCommon, []string{"true"}))
	}
	cmd.Flags().Bool(allFlag, false, "show all flags, by topic")
	must(cmd.Flags().SetAnnotation(allFlag, isCommon, []string{"true"}))
	settings.Never(cmd, allFlag)
	check := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if wantsAll(cmd) {
			return pflag.ErrHelp
		}
		if check == nil {
			return nil
		}
		return check(cmd, args)
	}
}

func wantsAll(cmd *cobra.Command) bool {
	all, err := cmd.Flags().GetBool(allFlag)
	return err == nil && all
}

// helpWidth returns the width for help, in columns.
func (a *app) helpWidth() int {
	if a.outTerminal {
		if width, _, err := term.GetSize(int(a.out.Fd())); err == nil && width > 0 {
			return max(width, 40)
		}
	}
	return plainWidth
}

// help writes the help of a command to standard output.
func (a *app) help(cmd *cobra.Command, _ []string) {
	writeHelp(a.stdout(), cmd, a.helpWidth())
}

func writeHelp(to io.Writer, cmd *cobra.Command, width int) {
	fmt.Fprintln(to, reflow(descriptionOf(cmd), min(width, proseWidth)))
	writeUsage(to, cmd, width)
}

// descriptionOf returns the long description of a command, or the short one.
func descriptionOf(cmd *cobra.Command) string {
	if cmd.Long == "" {
		return cmd.Short + "."
	}
	return cmd.Long
}

// usages returns the lines that show how cmd is called.
func usages(cmd *cobra.Command) (list []string) {
	if cmd.Annotations[onlyGroups] == "" {
		list = append(list, cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		list = append(list, cmd.CommandPath()+" COMMAND")
	}
	return list
}

// writeUsage writes all of the help but the description.
func writeUsage(to io.Writer, cmd *cobra.Command, width int) {
	fmt.Fprintln(to, "\nUsage:\n  "+strings.Join(usages(cmd), "\n  "))
	if cmd.HasExample() {
		fmt.Fprintln(to, "\nExamples:\n"+strings.TrimRight(cmd.Example, "\n"))
	}
	for _, g := range commandGroups(cmd) {
		fmt.Fprintf(to, "\n%s:\n", g.title)
		for _, sub := range g.commands {
			fmt.Fprintln(to, hanging("  "+pad(sub.Name(), 12), sub.Short, 14, width))
		}
	}
	all := wantsAll(cmd) || cmd.Flags().Lookup(allFlag) == nil
	for _, g := range flagGroups(cmd, all) {
		fmt.Fprintf(to, "\n%s:\n", cmp.Or(g.title, "Flags"))
		for _, f := range g.flags {
			fmt.Fprintln(to, flagHelp(f, width))
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(to, "\n\"%s COMMAND --help\" says more about a command.\n", cmd.CommandPath())
	}
}

// commandGroup is a group of commands in the help.
type commandGroup struct {
	title    string
	commands []*cobra.Command
}

// commandGroups returns the commands of cmd by their groups.
func commandGroups(cmd *cobra.Command) (list []commandGroup) {
	groups := append(slices.Clone(cmd.Groups()), &cobra.Group{Title: "Commands"})
	for _, g := range groups {
		shown := commandGroup{title: g.Title}
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() && sub.GroupID == g.ID {
				shown.commands = append(shown.commands, sub)
			}
		}
		if len(shown.commands) > 0 {
			list = append(list, shown)
		}
	}
	return list
}

// flagGroup is a group of flags in the help. One without a title has no topic.
type flagGroup struct {
	title string
	flags []*pflag.Flag
}

// flagGroups returns all flags of cmd by topic, or those that people use most.
func flagGroups(cmd *cobra.Command, all bool) (list []flagGroup) {
	add := func(f *pflag.Flag) {
		title := ""
		switch {
		case f.Hidden || !all && len(f.Annotations[isCommon]) == 0 && f.Name != "help":
			return
		case all && len(f.Annotations[topicOf]) > 0:
			title = f.Annotations[topicOf][0]
		}
		i := slices.IndexFunc(list, func(g flagGroup) bool { return g.title == title })
		if i < 0 {
			i, list = len(list), append(list, flagGroup{title: title})
		}
		list[i].flags = append(list[i].flags, f)
	}
	cmd.LocalFlags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	return list
}

// partsOf returns a flag's short and long name, what its value is called, and its description with the default.
func partsOf(f *pflag.Flag) (short, name, value, usage string) {
	value, usage = pflag.UnquoteUsage(f)
	if d := defaultOf(f); d != "" && !strings.Contains(usage, "(default") {
		usage += " (default " + d + ")"
	}
	return f.Shorthand, f.Name, value, usage
}

// flagHelp describes a flag. The description of a long one begins in a line of its own.
func flagHelp(f *pflag.Flag, width int) string {
	short, long, value, usage := partsOf(f)
	name := "      --" + long
	if short != "" {
		name = "  -" + short + ", --" + long
	}
	if value != "" {
		name += " " + value
	}
	if uniseg.StringWidth(name) > nameWidth {
		return name + "\n" + hanging(strings.Repeat(" ", nameWidth+2), usage, nameWidth+2, width)
	}
	return hanging(pad(name, nameWidth+2), usage, nameWidth+2, width)
}

// defaultOf returns a flag's default, or "" for one that is a zero value and goes without saying.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
		return ""
	}
	if f.Value.Type() == "duration" {
		return shortDuration(f.DefValue)
	}
	return strings.Trim(f.DefValue, "[]")
}

// shortDuration leaves out what Go adds to a duration: 24h0m0s is 24h.
func shortDuration(text string) string {
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// pad adds spaces to text until it is n columns wide.
func pad(text string, n int) string {
	return text + strings.Repeat(" ", max(n-uniseg.StringWidth(text), 1))
}

// hanging returns text after a first column. Its lines are at most width columns wide. All but the first begin at
// column indent.
func hanging(first, text string, indent, width int) string {
	lines := strings.Split(wrap(text, max(width-indent, 20)), "\n")
	return first + strings.Join(lines, "\n"+strings.Repeat(" ", indent))
}

// reflow breaks paragraphs into lines of at most width columns. Paragraphs that begin with white space stay as they
// are.
func reflow(text string, width int) string {
	paragraphs := strings.Split(strings.TrimSpace(text), "\n\n")
	for i, p := range paragraphs {
		if !strings.HasPrefix(p, " ") {
			paragraphs[i] = wrap(p, width)
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// wrap breaks text between words into lines of at most width columns. A longer word gets a line of its own.
func wrap(text string, width int) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		n := uniseg.StringWidth(word)
		switch {
		case column == 0:
		case column+1+n > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}
