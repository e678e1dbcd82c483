package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"runner/backend"
	"runner/backend/llamacpp"
	"runner/backend/mlx"
	"runner/cmd/runner/cli"
)

// open loads a model with the engine that its files are for.
func open(ctx context.Context, path string, cfg backend.Config) (backend.Model, error) {
	if mlx.IsFolder(path) {
		return openMLX(ctx, path, cfg, 0, nil)
	}
	return llamacpp.Open(ctx, path, cfg)
}

// check returns an error if the engine for a model's files cannot run it.
func check(path string) error {
	if mlx.IsFolder(path) {
		_, err := mlx.ReadFolder(path)
		return err
	}
	return llamacpp.Check(path)
}

// openMLX loads a folder. limit is the most memory for MLX in bytes, or 0.
func openMLX(ctx context.Context, path string, cfg backend.Config, limit int64, log *slog.Logger) (backend.Model,
	error) {
	c, err := mlxConfig("")
	if err != nil {
		return nil, err
	}
	python, err := mlx.Find(ctx, c)
	if err != nil {
		return nil, err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	e := mlx.Engine{Python: python, Options: mlx.Options{Cache: filepath.Join(cache, "runner", "mlx"), Memory: limit},
		Version: version, Log: log}
	m, err := e.Open(ctx, path, cfg)
	if err != nil {
		return nil, err
	}
	return m, nil
}

func mlxConfig(python string) (mlx.Config, error) {
	data, err := cli.DataFolder()
	return mlx.Config{Data: data, Python: python}, err
}

// engines lists the engine in this program, the one in a folder, and MLX.
func engines(ctx context.Context, folder string) []cli.EngineFact {
	list := []cli.EngineFact{builtIn()}
	if folder != "" {
		f := cli.EngineFact{Name: "llama.cpp", Version: "of the folder", Devices: "those of its libraries",
			Models: "GGUF files", Where: folder}
		if err := llamacpp.CheckFolder(folder); err != nil {
			f.Problem = err.Error()
		}
		list = append(list, f)
	}
	m := cli.EngineFact{Name: "MLX", Devices: "CPU", Models: "folders with safetensors"}
	c, err := mlxConfig("")
	if err == nil {
		var p *mlx.Python
		if p, err = mlx.Find(ctx, c); err == nil {
			m.Version, m.Where = p.MLX+", mlx-lm "+p.MLXLM, p.Path
		}
	}
	if err != nil {
		m.Problem = err.Error()
		var h interface{ Hint() string }
		if errors.As(err, &h) {
			m.Problem += "; " + h.Hint()
		}
	}
	return append(list, m)
}

func builtIn() cli.EngineFact {
	f := cli.EngineFact{Name: "llama.cpp", Models: "GGUF files", Where: "in this program"}
	e, err := llamacpp.BuiltIn()
	var s llamacpp.System
	if err == nil {
		f.Version = e.Version()
		s, err = llamacpp.SystemInfo()
	}
	if err != nil {
		f.Problem = err.Error()
		return f
	}
	devices := []string{"CPU"}
	for _, d := range s.Devices {
		devices = append(devices, d.Description)
	}
	f.Devices = strings.Join(devices, ", ")
	return f
}

// setUpMLX installs MLX.
func setUpMLX(ctx context.Context, python string, told func(string), log io.Writer) error {
	c, err := mlxConfig(python)
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
	return nil
}
