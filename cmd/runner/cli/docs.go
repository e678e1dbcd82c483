package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func (a *app) docsCommand() *cobra.Command {
	return group("docs", "Write documents about the commands", "", a.manCommand(), a.markdownCommand())
}

func (a *app) manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a manual page for each command",
		Long: `Write a manual page for each command into DIR, which is created if it is missing. man finds the pages in a
folder called man1 of its search path.`,
		Example: `  runner docs man ~/.local/share/man/man1
  man runner-run`,
		Args: exactly(1, "a folder is needed", ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			n := 0
			err := a.writeManTree(args[0], cmd.Root(), &n)
			if err == nil {
				a.note(fmt.Sprintf("wrote %d pages to %s", n, args[0]))
			}
			return err
		},
	}
}

// writeManTree writes the pages of cmd and of the commands in it, and counts them.
func (a *app) writeManTree(dir string, cmd *cobra.Command, n *int) error {
	f, err := os.Create(filepath.Join(dir, manName(cmd)+".1"))
	if err != nil {
		return err
	}
	if err := errors.Join(writeMan(f, cmd, a.build.Version), f.Close()); err != nil {
		return err
	}
	*n++
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			if err := a.writeManTree(dir, sub, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// writeMan writes a manual page in the macros of man(7). It has no date, so that a version has one text.
func writeMan(to io.Writer, cmd *cobra.Command, version string) error {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"runner %s\" \"User Commands\"\n", strings.ToUpper(manName(cmd)), roff(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	b.WriteString(".SH SYNOPSIS\n")
	for i, use := range usages(cmd) {
		if i > 0 {
			b.WriteString(".br\n")
		}
		fmt.Fprintf(&b, ".B %s\n", roff(use))
	}
	b.WriteString(".SH DESCRIPTION\n")
	for i, p := range strings.Split(strings.TrimSpace(descriptionOf(cmd)), "\n\n") {
		switch {
		case strings.HasPrefix(p, " "):
			fmt.Fprintf(&b, ".PP\n.EX\n%s\n.EE\n", roff(p))
			continue
		case i > 0:
			b.WriteString(".PP\n")
		}
		fmt.Fprintln(&b, roff(p))
	}
	for _, g := range commandGroups(cmd) {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(g.title))
		for _, sub := range g.commands {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(manName(sub)), roff(sub.Short))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	for _, g := range flagGroups(cmd, true) {
		if g.title != "" {
			fmt.Fprintf(&b, ".SS %s\n", roff(g.title))
		}
		for _, f := range g.flags {
			writeManFlag(&b, f)
		}
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.EX\n%s\n.EE\n", roff(strings.TrimRight(cmd.Example, "\n")))
	}
	if cmd.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n.BR %s (1)\n", roff(manName(cmd.Parent())))
	}
	_, err := io.WriteString(to, b.String())
	return err
}

func writeManFlag(b *strings.Builder, f *pflag.Flag) {
	short, name, value, usage := partsOf(f)
	b.WriteString(".TP\n")
	if short != "" {
		fmt.Fprintf(b, "\\fB\\-%s\\fR, ", short)
	}
	fmt.Fprintf(b, "\\fB\\-\\-%s\\fR", roff(name))
	if value != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(value))
	}
	fmt.Fprintf(b, "\n%s\n", roff(usage))
}

// roff escapes text for a manual page.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
