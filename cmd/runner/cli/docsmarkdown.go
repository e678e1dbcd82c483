package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandReference begins the document that runner docs markdown writes.
const commandReference = `<!-- Made by "runner docs markdown". Change the help of commands and run make cli-docs. -->

# The command line

Every command with its flags, as ` + "`runner COMMAND --help-all`" + ` prints them. Every flag can also be set in the
[config file or the environment](settings.md). [What runner writes](output.md) has the formats of its output and its
exit codes.

| command | what it does |
|---|---|
`

// markdownCommand is for the project itself: it makes docs/cli.md.
func (a *app) markdownCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "markdown",
		Short:  "Write all commands and flags as one Markdown document",
		Args:   noArguments,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeMarkdown(a.stdout(), cmd.Root())
		},
	}
	return cmd
}

// writeMarkdown writes a list of the commands in root and then a section for each. Commands that only hold others are
// in the text of those.
func writeMarkdown(to io.Writer, root *cobra.Command) error {
	var b strings.Builder
	b.WriteString(commandReference)
	var list []*cobra.Command
	var look func(*cobra.Command)
	look = func(cmd *cobra.Command) {
		if cmd.HasParent() && cmd.Annotations[onlyGroups] == "" {
			list = append(list, cmd)
		}
		for _, g := range commandGroups(cmd) {
			for _, sub := range g.commands {
				look(sub)
			}
		}
	}
	look(root)
	for _, cmd := range list {
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s |\n", cmd.CommandPath(), strings.ReplaceAll(cmd.CommandPath(), " ", "-"),
			inTable(cmd.Short))
	}
	for _, cmd := range list {
		markdownSection(&b, cmd)
	}
	_, err := io.WriteString(to, b.String())
	return err
}

func markdownSection(b *strings.Builder, cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	fmt.Fprintf(b, "\n## %s\n\n```\n%s\n```\n", cmd.CommandPath(), strings.Join(usages(cmd), "\n"))
	for p := range strings.SplitSeq(strings.TrimSpace(descriptionOf(cmd)), "\n\n") {
		if strings.HasPrefix(p, " ") {
			fmt.Fprintf(b, "\n```\n%s\n```\n", p)
		} else {
			fmt.Fprintf(b, "\n%s\n", wrap(markdownText(p), 120))
		}
	}
	if cmd.HasExample() {
		fmt.Fprintf(b, "\nExamples:\n\n```\n%s\n```\n", outdent(cmd.Example))
	}
	for _, g := range flagGroups(cmd, true) {
		flags := slices.DeleteFunc(g.flags, func(f *pflag.Flag) bool { return f.Name == "help" || f.Name == allFlag })
		if len(flags) == 0 {
			continue
		}
		title := g.title
		if title == "" {
			title = "Flag"
		}
		fmt.Fprintf(b, "\n| %s | |\n|---|---|\n", title)
		for _, f := range flags {
			short, name, value, usage := partsOf(f)
			name = "--" + name
			if short != "" {
				name = "-" + short + ", " + name
			}
			if value != "" {
				name += " " + value
			}
			fmt.Fprintf(b, "| `%s` | %s |\n", strings.ReplaceAll(name, "|", `\|`), inTable(usage))
		}
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
