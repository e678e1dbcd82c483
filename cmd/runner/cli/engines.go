package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
)

func (a *app) enginesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "engines",
		Short: "List the engines that can run models",
		Long: `List the engines that can run models: the llama.cpp in this program, the one in RUNNER_ENGINE, and MLX, which
runs folders with safetensors.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.engines(cmd.Context()) },
	}
	cmd.AddCommand(group("setup", "Install an engine", "Install an engine.", a.setUpMLXCommand()))
	return cmd
}

func (a *app) engines(ctx context.Context) error {
	w := table(a.stdout())
	fmt.Fprintln(w, "ENGINE\tVERSION\tDEVICES\tMODELS\tWHERE")
	var problems []string
	for _, e := range a.engine.Engines(ctx, os.Getenv(engineVariable)) {
		if e.Problem != "" {
			problems = append(problems, e.Name+": "+e.Problem)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", e.Name, e.Version, e.Devices, e.Models, e.Where)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, p := range problems {
		a.note("not usable: " + p)
	}
	return nil
}

func (a *app) setUpMLXCommand() *cobra.Command {
	var python string
	cmd := &cobra.Command{
		Use:   "mlx",
		Short: "Install MLX, which runs folders with safetensors",
		Long: `Make a Python environment with MLX in this program's data folder. Packages come from the Python package index.
On Apple silicon MLX computes on the GPU. On Linux it computes on the CPU, slowly.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilStopped(cmd.Context())
			defer stop()
			if err := a.engine.SetUpMLX(ctx, python, a.note, a.stderr()); err != nil {
				return err
			}
			a.note("MLX is ready: runner run FOLDER")
			return nil
		},
	}
	cmd.Flags().StringVar(&python, "python", "",
		"make it with the `interpreter`, Python 3.11 or newer (default: one on the PATH)")
	return cmd
}
