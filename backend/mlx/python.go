package mlx

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"runner/hint"
)

// requirements has the packages with the hashes of their wheels. scripts/mlx_lock.py renews the hashes.
//
//go:embed requirements.txt
var requirements []byte

// The versions that are used. Other pairs are not tried, and some are known to fail.
const (
	versionMLX   = "0.32.4"
	versionMLXLM = "0.32.2"
)

// The oldest Python that mlx-lm runs on.
const leastMinor = 11

// Python is an interpreter and what it has installed. A version is empty if the package is missing.
type Python struct {
	Path, Version string
	MLX, MLXLM    string

	advice hint.Advice // what to do if it does not work
}

// Variable is the environment variable that names an interpreter.
const Variable = "RUNNER_PYTHON"

// Config says where to look for Python.
type Config struct {
	// Data is the folder in which Setup makes the environment.
	Data string
	// Python is the user's choice of interpreter. Without it, the environment variable [Variable] counts.
	Python string
}

// Reasons why no Python can be used. The errors of Find and Setup wrap one of these and have a hint.
var (
	ErrNoPython  = errors.New("there is no Python")
	ErrOldPython = errors.New("this Python is too old")
	ErrMissing   = errors.New("a Python package is missing")
	ErrVersions  = errors.New("a Python package has another version")
	ErrSetup     = errors.New("the Python environment cannot be made")
)

// failure returns an error of a kind about an interpreter, whose path may be empty.
func failure(kind error, path string, advice hint.Advice, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if path != "" {
		text = path + ": " + text
	}
	return &hint.Error{Text: text, Advice: advice, Err: kind}
}

// advised returns an error with another advice, if it is one of this file.
func advised(err error, advice hint.Advice) error {
	var e *hint.Error
	if !errors.As(err, &e) {
		return err
	}
	return &hint.Error{Text: e.Text, Advice: advice, Err: e.Err}
}

// setUp is the advice where Setup helps. It does not where the user chose an interpreter, which Setup does not change.
const setUp = "run 'runner engines setup mlx'"

// environment returns the folder of the Python environment.
func (c *Config) environment() string { return filepath.Join(c.Data, "mlx", "venv") }

func (c *Config) interpreter() string { return interpreterIn(c.environment()) }

// interpreterIn returns the interpreter of an environment.
func interpreterIn(environment string) string { return filepath.Join(environment, "bin", "python") }

// chosen returns the user's interpreter, or nothing.
func (c *Config) chosen() string {
	if c.Python != "" {
		return c.Python
	}
	return os.Getenv(Variable)
}

// advice returns what to do where Find refuses an interpreter. Commands that run models have no flag for it.
func (c *Config) advice() hint.Advice {
	switch chosen := c.chosen(); {
	case chosen == "" || chosen == c.interpreter():
		return setUp
	case c.Python != "":
		return "choose another Python"
	}
	if _, err := os.Stat(c.interpreter()); err == nil {
		return hint.Advice("unset RUNNER_PYTHON, because MLX has a Python in " + c.environment())
	}
	return "choose another with RUNNER_PYTHON, or unset that and " + setUp
}

// Find returns the Python that runs MLX. It starts the interpreter to ask for the versions. With an error, it returns
// the Python as far as it is known.
func Find(ctx context.Context, c Config) (*Python, error) {
	p, err := c.find(ctx)
	if err != nil {
		return p, advised(err, c.advice())
	}
	p.advice = c.advice()
	return p, nil
}

// find is Find without advice.
func (c *Config) find(ctx context.Context) (*Python, error) {
	path := c.chosen()
	if path == "" {
		path = c.interpreter()
		if _, err := os.Stat(path); err != nil {
			return nil, failure(ErrNoPython, "", "", "there is no Python environment for MLX")
		}
	}
	p, err := ask(ctx, path)
	if err != nil {
		return p, err
	}
	for _, m := range []struct{ name, have, want string }{
		{"mlx", p.MLX, versionMLX}, {"mlx-lm", p.MLXLM, versionMLXLM}} {
		switch m.have {
		case m.want:
		case "":
			return p, failure(ErrMissing, path, "", "the package %s is missing", m.name)
		default:
			return p, failure(ErrVersions, path, "", "%s has version %s, and version %s is required", m.name, m.have,
				m.want)
		}
	}
	return p, nil
}

// question prints the versions as JSON. It imports nothing but the standard library.
const question = `
import json, platform, sys
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
print(json.dumps({"Version": platform.python_version(), "MLX": version("mlx"), "MLXLM": version("mlx-lm"),
                  "minor": sys.version_info[1] if sys.version_info[0] == 3 else 0}))`

// ask starts an interpreter and returns its versions. Its errors have no advice.
func ask(ctx context.Context, path string) (*Python, error) {
	found, err := exec.LookPath(path)
	if err != nil {
		return nil, failure(ErrNoPython, path, "", "there is no such program")
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, found, "-I", "-c", question)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var answer struct {
		Python
		Minor int `json:"minor"`
	}
	if err != nil || json.Unmarshal(out, &answer) != nil {
		return nil, failure(ErrNoPython, found, "", "the program is not a Python that works")
	}
	p := answer.Python
	p.Path = found
	if answer.Minor < leastMinor {
		return &p, failure(ErrOldPython, found, "", "Python has version %s, and 3.%d or newer is required", p.Version,
			leastMinor)
	}
	return &p, nil
}

// device prints what MLX computes on.
const device = `
import mlx.core as mx
gpu = mx.default_device() == mx.gpu
print(mx.device_info().get("device_name", "GPU") if gpu else "CPU")`

// Device asks MLX what it computes on: "CPU", or the name of a GPU. This imports MLX in a process of its own.
func (p *Python) Device(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, p.Path, "-I", "-c", device)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	name := strings.TrimSpace(string(out))
	if err != nil || name == "" || strings.Contains(name, "\n") {
		return "", failure(ErrMissing, p.Path, p.advice, "MLX does not start")
	}
	return name, nil
}

// base returns the Python to make the environment from.
func (c *Config) base(ctx context.Context) (*Python, error) {
	install := hint.Advice(fmt.Sprintf("install Python 3.%d or newer, or choose one with --python", leastMinor))
	if chosen := c.chosen(); chosen != "" {
		p, err := ask(ctx, chosen)
		if errors.Is(err, ErrOldPython) {
			return nil, advised(err, install)
		}
		return p, advised(err, "choose another with --python or RUNNER_PYTHON")
	}
	last := failure(ErrNoPython, "", install, "there is no python3 on the PATH")
	for _, name := range []string{"python3", "python3.14", "python3.13", "python3.12", "python3.11"} {
		p, err := ask(ctx, name)
		if err == nil {
			return p, nil
		}
		switch {
		case errors.Is(err, ErrOldPython):
			last = advised(err, install)
		case !errors.Is(err, ErrNoPython):
			return nil, err
		}
	}
	return nil, last
}

// Plan describes what Setup will do, for the user to read before it happens.
func Plan(ctx context.Context, c Config) (string, error) {
	p, err := c.base(ctx)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(
		"This makes a Python environment in %s with %s (Python %s), and installs mlx %s, mlx-lm %s and the "+
			"packages that they need from the Python package index: about 350 MB. Nothing else is changed.", c.environment(),
		p.Path, p.Version, versionMLX, versionMLXLM), nil
}

// Setup makes the Python environment, in place of one that is there. What pip prints goes to log. The caller shows Plan
// first. Only wheels whose hashes are in requirements.txt are installed, so a package index cannot give others.
func Setup(ctx context.Context, c Config, log io.Writer) (*Python, error) {
	p, err := c.base(ctx)
	if err != nil {
		return nil, err
	}
	dir := c.environment()
	failed := func(err error) error {
		return failure(ErrSetup, "", "choose another data folder with XDG_DATA_HOME, or mend this one", "%v", err)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, failed(err)
	}
	wanted := filepath.Join(filepath.Dir(dir), "requirements.txt")
	if err := os.WriteFile(wanted, requirements, 0o600); err != nil {
		return nil, failed(err)
	}
	// The new environment takes the place of an old one only when it is whole.
	fresh := dir + ".new"
	for _, step := range []struct {
		what   string
		advice hint.Advice
		args   []string
	}{
		{"makes no environment", "install its module venv, or choose another with --python",
			[]string{p.Path, "-I", "-m", "venv", "--clear", fresh}},
		{"cannot install the packages", "check the connection to the Python package index and the free space, and try again",
			[]string{interpreterIn(fresh), "-I", "-m", "pip", "install", "--disable-pip-version-check", "--no-deps",
				"--require-hashes", "--only-binary", ":all:", "-r", wanted}},
	} {
		var said strings.Builder
		cmd := exec.CommandContext(ctx, step.args[0], step.args[1:]...)
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = log, io.MultiWriter(log, &said), time.Second
		if err := cmd.Run(); err != nil {
			os.RemoveAll(fresh) // half an environment is of no use
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			lines := strings.Split(strings.TrimSpace(said.String()), "\n")
			return nil, failure(ErrSetup, p.Path, step.advice, "Python %s %s: %v: %.300s", p.Version, step.what, err,
				lines[len(lines)-1])
		}
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(fresh, dir)); err != nil {
		return nil, failed(err)
	}
	return Find(ctx, Config{Data: c.Data, Python: c.interpreter()})
}
