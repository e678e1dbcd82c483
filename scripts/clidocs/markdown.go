package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/help"
	"runner/cmd/runner/render"
)

// commandReference begins the document.
const commandReference = `<!-- Made by make cli-docs from the help of the commands, which is in cmd/runner/cli. -->

# The command line
Every command with its flags, as ` + "`runner COMMAND --help-all`" + ` prints them. Every flag can also be set in the
[config file or the environment](settings.md). [What runner writes](output.md) has the formats of its output and its
exit codes.

| command | what it does |
|---|---|
`

// sharedFlags is the heading of the flags that several commands have.
const sharedFlags = "Flags of several commands"

// writeMarkdown writes a list of the commands in root and then a section for each. Commands that only hold others are
// in the text of those. Flags that several commands with topics have are described in a section of their own.
func writeMarkdown(to io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString(commandReference)
	list := commandsIn(root)
	for _, cmd := range list {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), anchor(cmd.CommandPath()), inTable(cmd.Short))
	}
	shared := shared(list)
	for _, cmd := range list {
		section(&b, cmd, shared)
	}
	fmt.Fprintf(&b, "\n## %s\n| flag | |\n|---|---|\n", sharedFlags)
	for _, g := range shared.groups {
		fmt.Fprintf(&b, "| **%s** | |\n%s", g.title, strings.Join(g.rows, ""))
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// commandsIn returns the commands in cmd that do more than to hold others.
func commandsIn(cmd *cobra.Command) (list []*cobra.Command) {
	if cmd.HasParent() && cmd.Annotations[help.OnlyGroups] == "" {
		cmd.InitDefaultHelpFlag()
		list = append(list, cmd)
	}
	for _, g := range help.Commands(cmd) {
		for _, sub := range g.Commands {
			list = append(list, commandsIn(sub)...)
		}
	}
	return list
}

func anchor(heading string) string { return strings.ReplaceAll(strings.ToLower(heading), " ", "-") }

// sharedRows are the rows that several commands have in common.
type sharedRows struct {
	rows   map[string]bool
	groups []sharedGroup
}

type sharedGroup struct {
	title string
	rows  []string
}

// shared finds the flags that several commands with topics have in common.
func shared(list []*cobra.Command) (s sharedRows) {
	s.rows = map[string]bool{}
	seen := map[string]string{} // the topic of a row
	for _, cmd := range list {
		for _, g := range topics(cmd) {
			for _, f := range g.Flags {
				r := row(f)
				title, again := seen[r]
				if seen[r] = cmp.Or(title, g.Title); !again || s.rows[r] {
					continue
				}
				s.rows[r], title = true, seen[r]
				i := slices.IndexFunc(s.groups, func(in sharedGroup) bool { return in.title == title })
				if i < 0 {
					i, s.groups = len(s.groups), append(s.groups, sharedGroup{title: title})
				}
				s.groups[i].rows = append(s.groups[i].rows, r)
			}
		}
	}
	return s
}

// topics returns the flags of a command by topic, or nothing if it has no topics.
func topics(cmd *cobra.Command) []help.FlagGroup {
	groups := help.Flags(cmd, true)
	if !slices.ContainsFunc(groups, func(g help.FlagGroup) bool { return g.Title != "" }) {
		return nil
	}
	for i := range groups {
		groups[i].Flags = described(groups[i].Flags)
	}
	return groups
}

// described leaves out the flags for help.
func described(list []*pflag.Flag) []*pflag.Flag {
	return slices.DeleteFunc(list, func(f *pflag.Flag) bool { return f.Name == "help" || f.Name == flags.AllFlag })
}

// row describes a flag.
func row(f *pflag.Flag) string {
	names, value, usage := help.Parts(f)
	if value != "" {
		names += " " + value
	}
	return fmt.Sprintf("| `%s` | %s |\n", strings.ReplaceAll(names, "|", `\|`), inTable(usage))
}

func section(b *strings.Builder, cmd *cobra.Command, shared sharedRows) {
	fmt.Fprintf(b, "\n## %s\n", cmd.CommandPath())
	if cmd.HasExample() {
		fmt.Fprintf(b, "```\n%s\n\n%s\n```\n", strings.Join(help.Usages(cmd), "\n"), outdent(cmd.Example))
	} else {
		fmt.Fprintf(b, "`%s`\n", strings.Join(help.Usages(cmd), "`, `"))
	}
	for p := range strings.SplitSeq(strings.TrimSpace(help.Description(cmd)), "\n\n") {
		if strings.HasPrefix(p, " ") {
			fmt.Fprintf(b, "\n```\n%s\n```\n", p)
		} else {
			fmt.Fprintf(b, "\n%s\n", render.Wrap(markdownText(p), 120))
		}
	}
	groups := topics(cmd)
	if groups == nil {
		shared.rows = nil
		groups = help.Flags(cmd, true)
	}
	begun := false
	for _, g := range groups {
		var own, elsewhere []string
		for _, f := range described(g.Flags) {
			if r := row(f); shared.rows[r] {
				names, _, _ := help.Parts(f)
				elsewhere = append(elsewhere, "`"+names+"`")
			} else {
				own = append(own, r)
			}
		}
		if len(own)+len(elsewhere) == 0 {
			continue
		}
		if !begun {
			b.WriteString("\n| flag | |\n|---|---|\n")
		}
		begun = true
		if more := strings.Join(elsewhere, ", "); more != "" {
			fmt.Fprintf(b, "| **%s** | [shared](#%s): %s |\n", cmp.Or(g.Title, "Any"), anchor(sharedFlags), more)
		} else if g.Title != "" {
			fmt.Fprintf(b, "| **%s** | |\n", g.Title)
		}
		b.WriteString(strings.Join(own, ""))
	}
}

// outdent removes the two spaces that examples begin with.
func outdent(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, "  ")
	}
	return strings.Join(lines, "\n")
}

// markdownText escapes what Markdown would take as markup.
func markdownText(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "<", `\<`, "`", "\\`", "[", `\[`).Replace(text)
}

// inTable is markdownText for a cell of a table.
func inTable(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(markdownText(text), "|", `\|`), "\n", " ")
}
