package cli

import (
	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
)

// command gives a command its flags.
func command(cmd *cobra.Command, rows ...flags.Table) *cobra.Command {
	flags.Add(cmd, rows...)
	return cmd
}

// jsonFlag is the flag that makes a command write JSON for programs. It is no setting: the setting json means the form
// of a model's answer.
func jsonFlag(on *bool, usage string) flags.Table {
	return flags.Switch("json", on, usage, flags.CommandLine)
}
