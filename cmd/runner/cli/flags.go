package cli

import (
	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
)

// Command gives a command its flags.
func Command(cmd *cobra.Command, rows ...flags.Table) *cobra.Command {
	flags.Add(cmd, rows...)
	return cmd
}

// JSONFlag is the flag that makes a command write JSON for programs. It is no setting: the setting json means the form
// of a model's answer.
func JSONFlag(on *bool, usage string) flags.Table {
	return flags.Switch("json", on, usage, flags.CommandLine)
}
