package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
)

func (a *App) enginesCommand() *cobra.Command {
	var asJSON bool
	var folder string
	cmd := Command(&cobra.Command{
		Use:   "engines",
		Short: "List the engines that can run models",
		Long: `List the engines that can run models: the llama.cpp in this program, those in folders, and those for
folders with safetensors. Each one is started and asked for its version.

A folder has the shared libraries of a llama.cpp release. Folders are looked for in engines in the data folder and in
lib/runner/engines next to the program; --engine names another one. The newest folder runs the models that the llama.cpp
in this program does not know.`,
		Args: NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := UntilStopped(cmd.Context())
			defer stop()
			if folder != "" {
				path, err := filepath.Abs(folder)
				if err != nil {
					return err
				}
				folder = path
			}
			list, err := a.listEngines(ctx, folder)
			if err != nil {
				return err
			}
			if asJSON {
				err = render.Lines(a.Stdout(), list)
			} else {
				err = a.writeEngines(list)
			}
			if err != nil {
				return err
			}
			return unusable(list, folder)
		},
	}, flags.Text("engine", &folder, "list the engine in `DIR`, too"),
		JSONFlag(&asJSON, "one JSON object a line, with the architectures"))
	if a.folders != nil {
		cmd.AddCommand(Group("setup", "Install an engine", "Install an engine.", a.folders.SetUp))
	}
	return cmd
}

// unusable returns an error if the engine in the folder that the user named cannot be used.
func unusable(list []EngineFact, folder string) error {
	for _, e := range list {
		if folder != "" && e.Where == folder && e.Problem != "" {
			return errors.New("the engine in " + folder + " cannot be used: " + e.Problem)
		}
	}
	return nil
}

func (a *App) listEngines(ctx context.Context, folder string) ([]EngineFact, error) {
	last := make(chan EngineFact, 1)
	if a.folders != nil {
		go func() { last <- a.folders.Describe(ctx) }()
	}
	list := a.engine.Engines(ctx, folder)
	if a.folders != nil {
		list = append(list, <-last)
	}
	if ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	return list, nil
}

// writeEngines writes a table of the engines, and what is not usable to standard error.
func (a *App) writeEngines(list []EngineFact) error {
	w := Table(a.Stdout())
	fmt.Fprintln(w, "ENGINE\tVERSION\tDEVICES\tMODELS\tWHERE")
	var problems []string
	for _, e := range list {
		name := e.Name
		if e.Where != "" {
			name += " " + e.Where
		}
		if e.Problem != "" {
			problems = append(problems, name+": "+e.Problem)
			continue
		}
		for _, m := range e.Missing {
			problems = append(problems, name+": "+m)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Name, e.Version, strings.Join(e.Devices, ", "), e.Models, e.Where)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, p := range problems {
		a.Note("not usable: " + p)
	}
	return nil
}
