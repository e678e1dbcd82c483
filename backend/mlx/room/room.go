// Package room adds MLX to the engines of the program, for models in folders with safetensors.
package room

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/backend/mlx"
	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/hint"
)

func init() {
	cli.Register(cli.Room{Name: "mlx", Folders: func(a *cli.App) *cli.Folders {
		return &cli.Folders{Name: name, Variable: mlx.Variable, Check: check, Describe: describe, SetUp: setUpCommand(a),
			Open: func(ctx context.Context, path string, cfg backend.Config, memory int64, log *slog.Logger) (backend.Model,
				error) {
				return open(ctx, path, cfg, mlx.Engine{Memory: memory, Version: a.Build().Version, Log: log})
			}}
	}})
}

const name = "MLX"

func check(path string) error {
	_, err := mlx.ReadFolder(path)
	return err
}

// open loads a folder with an engine that has no interpreter yet.
func open(ctx context.Context, path string, cfg backend.Config, e mlx.Engine) (backend.Model, error) {
	c, err := config("")
	if err != nil {
		return nil, err
	}
	if e.Python, err = mlx.Find(ctx, c); err != nil {
		return nil, err
	}
	m, err := e.Open(ctx, path, cfg)
	if err != nil {
		return nil, err // not a nil *child.Model in an interface
	}
	return m, nil
}

func config(python string) (mlx.Config, error) {
	data, err := cli.DataFolder()
	return mlx.Config{Data: data, Python: python}, err
}

// describeTime is how long MLX may take to say what it is.
const describeTime = time.Minute

func describe(ctx context.Context) cli.EngineFact {
	f := cli.EngineFact{Name: name, Models: "folders with safetensors"}
	ctx, cancel := context.WithTimeoutCause(ctx, describeTime, errors.New("MLX does not start in time"))
	defer cancel()
	c, err := config("")
	var p *mlx.Python
	if err == nil {
		p, err = mlx.Find(ctx, c)
	}
	var device string
	if err == nil {
		f.Version, f.Where = p.MLX+", mlx-lm "+p.MLXLM, p.Path
		device, err = p.Device(ctx)
	}
	if err != nil {
		f.Problem = hint.Line(err)
		return f
	}
	f.Devices = []string{device}
	return f
}

func setUpCommand(a *cli.App) *cobra.Command {
	var python string
	return cli.Command(&cobra.Command{
		Use:   "mlx",
		Short: "Install MLX, which runs folders with safetensors",
		Long: `Make a Python environment with MLX in this program's data folder. Packages come from the Python package index.
On Apple silicon MLX computes on the GPU. On Linux it computes on the CPU, slowly.`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := cli.UntilStopped(cmd.Context())
			defer stop()
			if err := setUp(ctx, python, a.Note, a.Stderr()); err != nil {
				return err
			}
			a.Note("MLX is ready: runner run FOLDER")
			return nil
		},
	}, flags.Text("python", &python, "Python `INTERPRETER` to use, version 3.11 or newer (default: one on the PATH)"))
}

// setUp installs MLX after it has told what it will do. log gets what the installer prints.
func setUp(ctx context.Context, python string, told func(string), log io.Writer) error {
	c, err := config(python)
	if err != nil {
		return err
	}
	plan, err := mlx.Plan(ctx, c)
	if err != nil {
		return err
	}
	told(plan)
	p, err := mlx.Setup(ctx, c, log)
	if err != nil {
		return err
	}
	told(fmt.Sprintf("Python %s with mlx %s and mlx-lm %s is in %s", p.Version, p.MLX, p.MLXLM, p.Path))
	if _, err := mlx.Find(ctx, mlx.Config{Data: c.Data}); err != nil { // RUNNER_PYTHON names another one
		told(hint.Line(err))
	}
	return nil
}
