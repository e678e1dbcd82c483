package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpWidth is the maximum width of the flags' help, in columns.
const helpWidth = 100

func (a *app) rootCommand() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "runner",
		Short: "Run reasoning models on your own machine, with the reasoning kept apart from the answer",
		Long: "runner runs quantized reasoning models on your own machine and keeps a model's reasoning apart from its " +
			"answer:\n" +
			"hidden by default, summarised or shown in full on request.",
		Example: `  runner run --reasoning full "What is 17 + 25?"
  runner run path/to/model.gguf
  runner doctor`,
		SilenceErrors: true, SilenceUsage: true,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return a.writeVersions()
			}
			return cmd.Help()
		},
	}
	root.Flags().BoolVarP(&version, "version", "v", false, "print the versions of runner, its engine and Go")
	root.SetFlagErrorFunc(flagError)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages",
		fmt.Sprintf(".FlagUsagesWrapped %d", helpWidth)))
	root.CompletionOptions.DisableDefaultCmd = true
	root.AddCommand(a.runCommand(), a.serveCommand(), a.mewCommand(), a.apikeyCommand(), a.sealKeysCommand(),
		a.keysCommand(), a.traceCommand(), a.schemaCommand(), a.debriefCommand(), a.doctorCommand(), a.versionCommand(),
		a.completionCommand(), a.enginesCommand(), a.engineCommand())
	return root
}

// group returns a command that only holds other commands. Called alone, it prints its help.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// flagError turns an error of the flag parser into one line with a hint.
func flagError(cmd *cobra.Command, err error) error {
	u := &usageError{what: err.Error(), hint: see(cmd), err: err}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && strings.Contains(unknown.GetSpecifiedName()+unknown.GetSpecifiedShortnames(), " ") {
		u.hint = "put -- before a prompt that begins with -"
		return u
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return u
	}
	u.what = fmt.Sprintf("--%s cannot be %q", invalid.GetFlag().Name, invalid.GetValue())
	var choice *choiceError
	var number *strconv.NumError
	switch {
	case errors.As(err, &choice):
		u.hint = choice.Error()
	case errors.As(err, &number) && errors.Is(number.Err, strconv.ErrRange):
		u.hint = "the number is out of range"
	case errors.As(err, &number), invalid.GetFlag().Value.Type() == "duration":
		u.hint = valueHint(invalid.GetFlag())
	default:
		u.hint = invalid.Unwrap().Error()
	}
	return u
}

// valueHint says what kind of value a flag takes.
func valueHint(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "bool":
		return "use true or false"
	case "int":
		return "use a whole number"
	case "uint64":
		return "use a whole number, 0 or more"
	case "duration":
		return "use a time, as in 30s or 5m"
	}
	return "use a number"
}
