package cli

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"runner/models/installed"
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

// exactly requires n arguments. what is the error of another number. Without a hint, the error points to the command's
// help.
func exactly(n int, what, hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return &usageError{what: what, hint: cmp.Or(hint, see(cmd))}
		}
		return nil
	}
}

// atMost allows up to n arguments, which are called things in the error.
func atMost(n int, things, hint string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return &usageError{what: fmt.Sprintf("%d %s are too many", len(args), things), hint: hint}
		}
		return nil
	}
}

// fileAndID requires two arguments, a file and an id.
var fileAndID = exactly(2, "a file and an id are needed", "")

// completeModels completes the name of a model: one on this machine, the demo or a file.
func completeModels(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return modelNames(), cobra.ShellCompDirectiveDefault
}

// modelNames returns the names of the demo and of the models on this machine.
func modelNames() []string {
	names := []string{demoName}
	found, _ := installed.List()
	for _, m := range found {
		if m.Problem == "" {
			names = append(names, m.Name)
		}
	}
	return names
}
