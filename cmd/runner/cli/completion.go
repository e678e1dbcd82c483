package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/flags"
)

func (a *App) completionCommand() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion " + strings.Join(shells, "|"),
		Short: "Print a script that completes commands, flags and models in a shell",
		Long: `Print a script that completes commands, flags and models in a shell. The one for bash needs the
package bash-completion, version 2.`,
		Example: `  source <(runner completion bash)
  runner completion zsh > "${fpath[1]}/_runner"
  runner completion fish > ~/.config/fish/completions/runner.fish`,
		ValidArgs: shells,
		Args:      Exactly(1, "name one shell", "use "+flags.Alternatives(shells)),
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.out, true)
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.out)
			}
			return Usage("there is no completion for %q", args[0]).Hint("use %s", flags.Alternatives(shells))
		},
	}
}

// plainUsage removes the marks around the names of values, which only the help understands, from the descriptions that
// a shell shows.
func plainUsage(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = strings.ReplaceAll(f.Usage, "`", "") })
	for _, sub := range cmd.Commands() {
		plainUsage(sub)
	}
}
