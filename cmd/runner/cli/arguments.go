package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// noArguments refuses arguments. If cmd has subcommands, it reports the argument as an unknown command.
func noArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasSubCommands():
		return &usageError{what: fmt.Sprintf("%s takes no argument %q", cmd.CommandPath(), args[0]), hint: see(cmd)}
	}
	hint := see(cmd)
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	_, name, _ := strings.Cut(cmd.CommandPath()+" "+args[0], " ")
	return &usageError{what: fmt.Sprintf("there is no command %q", name), hint: hint}
}

func see(cmd *cobra.Command) string { return "see " + cmd.CommandPath() + " --help" }

// fileAndID checks that there are two arguments, a file and an id.
func fileAndID(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return &usageError{what: "a file and an id are needed", hint: see(cmd)}
	}
	return nil
}
