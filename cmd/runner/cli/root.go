package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/help"
	"runner/hint"
)

func (a *App) rootCommand() *cobra.Command {
	var version bool
	root := &cobra.Command{
		Use:   "runner",
		Short: "Run reasoning models on your own machine, with the reasoning kept apart from the answer",
		Long: `runner runs quantized reasoning models on your own machine. It keeps a model's reasoning apart from its
answer: hidden by default, summarised or shown in full on request.`,
		Example: `  runner run --reasoning full "What is 17 + 25?"
  runner pull gpt-oss-20b
  runner run gpt-oss-20b
  runner serve gpt-oss-20b`,
		SilenceErrors: true, SilenceUsage: true,
		Args: NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if version {
				return a.writeVersions()
			}
			return cmd.Help()
		},
	}
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.applySettings(cmd) }
	flags.Add(root, flags.Switch("version", &version, "print the versions of runner, its engine and Go", flags.Short("v"),
		flags.CommandLine))
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { help.Write(a.Stdout(), cmd, a.helpWidth()) })
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		help.WriteUsage(a.Stdout(), cmd, a.helpWidth())
		return nil
	})
	root.CompletionOptions.DisableDefaultCmd = true
	a.addCommands(root)
	return root
}

// addCommands adds the commands by the groups of the help, and those that only the program itself starts.
func (a *App) addCommands(root *cobra.Command) {
	for _, g := range []struct {
		id, title string
		commands  []*cobra.Command
	}{
		{"use", "Use", []*cobra.Command{a.runCommand()}},
		{"models", "Models", []*cobra.Command{a.pullCommand(), a.listCommand(), a.showCommand(), a.rmCommand(),
			a.verifyCommand()}},
		{"serve", "Serve", []*cobra.Command{a.serveCommand()}},
		{"traces", "Traces", nil},
		{"more", "More", []*cobra.Command{a.doctorCommand(), a.enginesCommand(), a.configCommand(),
			a.completionCommand(), a.versionCommand()}},
	} {
		root.AddGroup(&cobra.Group{ID: g.id, Title: g.title})
		for _, cmd := range g.commands {
			cmd.GroupID = g.id
			root.AddCommand(cmd)
		}
	}
	for _, r := range registered {
		if r.Commands != nil {
			root.AddCommand(r.Commands(a)...)
		}
	}
	a.addKeys(root)
	root.InitDefaultHelpCmd()
	root.SetHelpCommandGroupID("more")
	for _, cmd := range root.Commands() {
		if cmd.Name() == "help" {
			cmd.Use, cmd.Short, cmd.Long = "help [COMMAND]", "Show the help of a command", ""
			cmd.Run, cmd.RunE = nil, helpOf
		}
	}
	root.AddCommand(a.engineCommand())
}

// helpOf shows the help of the command that args name.
func helpOf(cmd *cobra.Command, args []string) error {
	of, rest, err := cmd.Root().Find(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 && (of == cmd.Root() || of.HasSubCommands()) {
		return missingCommand(of, rest[0])
	}
	of.InitDefaultHelpFlag()
	return of.Help()
}

// Group returns a command that only holds other commands. Called alone, it prints its help.
func Group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long, Args: NoArguments, Annotations: map[string]string{help.OnlyGroups: "true"},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(commands...)
	return cmd
}

// flagError turns an error of the flag parser into one line with a hint.
func flagError(cmd *cobra.Command, err error) error {
	u := Usage("%v", err).From(err).Hint("%s", See(cmd))
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		name := unknown.GetSpecifiedName()
		elsewhere := flagsElsewhere[cmd.Name()][name]
		switch near := nearFlag(cmd, name); {
		case elsewhere != "":
			u.Advice = elsewhere
		case strings.Contains(name+unknown.GetSpecifiedShortnames(), " "):
			u.Advice = "put -- before a prompt that begins with -"
		case near != "":
			u.Advice = didYouMean("--" + near)
		}
		return u
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return u
	}
	u.Text = fmt.Sprintf("--%s cannot be %q", invalid.GetFlag().Name, invalid.GetValue())
	u.Advice = hint.Advice(invalid.Unwrap().Error())
	return u
}

// nearFlag returns the name of the flag that is most like name, or "" if none is.
func nearFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return Nearest(name, names)
}
