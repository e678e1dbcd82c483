package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/help"
)

// writeManTree writes the pages of cmd and of the commands in it into a folder. It returns how many they are.
func writeManTree(dir string, cmd *cobra.Command, version string) (n int, err error) {
	f, err := os.Create(filepath.Join(dir, manName(cmd)+".1"))
	if err != nil {
		return 0, err
	}
	if err := errors.Join(writeMan(f, cmd, version), f.Close()); err != nil {
		return 0, err
	}
	n = 1
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			more, err := writeManTree(dir, sub, version)
			if n += more; err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// writeMan writes a manual page in the macros of man(7). It has no date, so that a version has one text.
func writeMan(to io.Writer, cmd *cobra.Command, version string) error {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"runner %s\" \"User Commands\"\n", strings.ToUpper(manName(cmd)), roff(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	b.WriteString(".SH SYNOPSIS\n")
	for i, use := range help.Usages(cmd) {
		if i > 0 {
			b.WriteString(".br\n")
		}
		fmt.Fprintf(&b, ".B %s\n", roff(use))
	}
	b.WriteString(".SH DESCRIPTION\n")
	for i, p := range strings.Split(strings.TrimSpace(help.Description(cmd)), "\n\n") {
		switch {
		case strings.HasPrefix(p, " "):
			fmt.Fprintf(&b, ".PP\n.EX\n%s\n.EE\n", roff(p))
			continue
		case i > 0:
			b.WriteString(".PP\n")
		}
		fmt.Fprintln(&b, roff(p))
	}
	for _, g := range help.Commands(cmd) {
		fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(g.Title))
		for _, sub := range g.Commands {
			fmt.Fprintf(&b, ".TP\n.BR %s (1)\n%s\n", roff(manName(sub)), roff(sub.Short))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	for _, g := range help.Flags(cmd, true) {
		if g.Title != "" {
			fmt.Fprintf(&b, ".SS %s\n", roff(g.Title))
		}
		for _, f := range g.Flags {
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
	names, value, usage := help.Parts(f)
	b.WriteString(".TP\n\\fB" + strings.ReplaceAll(roff(names), ", ", "\\fR, \\fB") + "\\fR")
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
