package cli

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/cmd/runner/settings"
	"runner/hint"
)

// withoutSettings are commands whose flags are not settings, besides those that only programs start. All but config
// work with any config file.
var withoutSettings = []string{"completion", "config", "help", "version"}

// applySettings gives the flags of cmd that were not given their values from the environment and the config file.
func (a *App) applySettings(cmd *cobra.Command) error {
	if slices.Contains(withoutSettings, cmd.Name()) || cmd.Hidden || cmd == cmd.Root() {
		return nil
	}
	s, err := a.settings(cmd.Root())
	if err == nil {
		a.warnMisspelled(s, cmd.Root())
		a.origins, err = s.Apply(cmd)
	}
	if err != nil {
		return err
	}
	return flags.Check(cmd)
}

// warnMisspelled warns of variables that are almost those of settings. They have no effect.
func (a *App) warnMisspelled(s *settings.Settings, root *cobra.Command) {
	misspelled := s.Misspelled(root, hint.Distance)
	for _, name := range slices.Sorted(maps.Keys(misspelled)) {
		a.Complain(fmt.Sprintf("warning: %s is not a setting; did you mean %s?", name, misspelled[name]))
	}
}

// settings reads the environment and the config file, and checks the file.
func (a *App) settings(root *cobra.Command) (*settings.Settings, error) {
	path, err := configFile()
	if err != nil {
		return nil, err
	}
	s, err := settings.Read(path, os.Environ())
	if err != nil {
		return nil, err
	}
	return s, s.Check(root, Nearest)
}

var flagInText = regexp.MustCompile(`--[a-z][a-z0-9-]*`)

// origin says, of the flags in an error, where those come from that the user did not give now.
func (a *App) origin(line string) string {
	var told []string
	for _, flag := range flagInText.FindAllString(line, -1) {
		where := a.origins[strings.TrimPrefix(flag, "--")]
		given := where == "" || where == settings.CommandLine
		if text := flag + " is set by " + where; !given && !slices.Contains(told, text) {
			told = append(told, text)
		}
	}
	if len(told) == 0 {
		return ""
	}
	return " (" + strings.Join(told, ", ") + ")"
}

func (a *App) configCommand() *cobra.Command {
	var asJSON, all bool
	return Command(&cobra.Command{
		Use:   "config [COMMAND]",
		Short: "Show the settings that are in effect, and where they come from",
		Long: `Show the settings that differ from the defaults, and where they come from. With COMMAND, such as serve or
"trace list", show only its own; with --all, show the defaults too.

A setting has the name of a flag. The command line comes first, then the environment variable (RUNNER_CTX_SIZE for
--ctx-size), then the command's table in the config file, then the rest of the file:

  ctx-size = 8192

  [serve]
  port = 9000

The file is ` + "$XDG_CONFIG_HOME/runner/config.toml, or ~/.config/runner/config.toml. " + configVariable +
			" names another one.",
		Example: `  runner config
  runner config serve --all`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			in, _, err := cmd.Root().Find(args)
			if err != nil {
				in = cmd.Root()
			}
			return shownCommands(in), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.config(cmd.Root(), strings.Fields(strings.Join(args, " ")), all, asJSON)
		},
	}, flags.Switch("all", &all, "show the defaults too"), JSONFlag(&asJSON, "write one JSON array"))
}

// noSuchCommand is the error of a path that leads to cmd and no further. rest is what cmd does not have.
func noSuchCommand(cmd *cobra.Command, path, rest []string) error {
	u := Usage("there is no command %q", strings.Join(path, " ")).Hint("%s", See(cmd))
	if near := nearCommand(cmd, append(rest, path...)[0]); near != "" {
		u.Advice = didYouMean(near)
	}
	return u
}

func (a *App) config(root *cobra.Command, path []string, all, asJSON bool) error {
	s, err := a.settings(root)
	if err != nil {
		return err
	}
	from := root
	if len(path) > 0 {
		found, rest, err := root.Find(path)
		if err != nil || len(rest) > 0 || found == root {
			return noSuchCommand(found, path, rest)
		}
		from = found
	}
	a.warnMisspelled(s, root)
	list := []settings.Value{}
	var look func(cmd *cobra.Command) error
	look = func(cmd *cobra.Command) error {
		if cmd.Hidden || slices.Contains(withoutSettings, cmd.Name()) {
			return nil
		}
		values, err := s.InEffect(cmd)
		for _, v := range values {
			if all || v.From != "default" {
				list = append(list, v)
			}
		}
		for _, sub := range cmd.Commands() {
			err = errors.Join(err, look(sub))
		}
		return err
	}
	if err := look(from); err != nil {
		return err
	}
	if asJSON {
		return render.Indented(a.Stdout()).Encode(list)
	}
	state := ""
	if _, err := os.Stat(s.File()); err != nil {
		state = " (not there)"
	}
	fmt.Fprintf(a.Stdout(), "config file: %s%s\n", s.File(), state)
	if len(list) == 0 {
		fmt.Fprintln(a.Stdout(), "All settings have their defaults.")
		return nil
	}
	fmt.Fprintln(a.Stdout())
	w := Table(a.Stdout())
	fmt.Fprintln(w, "COMMAND\tSETTING\tVALUE\tFROM")
	for _, v := range list {
		row(w, v.Command, v.Name, strings.Join(strings.Fields(v.Value), " "), v.From)
	}
	return w.Flush()
}
