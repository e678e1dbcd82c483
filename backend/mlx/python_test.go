package mlx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"runner/hint"
)

// requirement is a package in requirements.txt: its version, on which system it is installed, and its wheels.
var requirement = regexp.MustCompile(
	`^([\w.-]+)==([\w.]+)(?:; sys_platform == "(linux|darwin)")?((?: --hash=sha256:[0-9a-f]{64})+)$`)

// TestRequirements: every package has one version and the hashes of its wheels. A Mac gets Metal's library in place of
// the one for CPUs.
func TestRequirements(t *testing.T) {
	text := strings.ReplaceAll(string(requirements), " \\\n    ", " ")
	found := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		m := requirement.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("no version or no hash in %q", line)
			continue
		}
		if found[m[1]] != "" {
			t.Errorf("%s is there twice", m[1])
		}
		found[m[1]] = m[2] + m[3]
		// MLX has wheels of its own for 4 versions of Python on 2 Linux systems and 3 versions of macOS.
		if n := strings.Count(m[4], "--hash"); m[1] == "mlx" && n < 4*(2+3) {
			t.Errorf("mlx has %d wheels", n)
		}
	}
	for name, want := range map[string]string{"mlx": versionMLX, "mlx-lm": versionMLXLM, "mlx-cpu": versionMLX + "linux",
		"mlx-metal": versionMLX + "darwin"} {
		if found[name] != want {
			t.Errorf("%s has version %q, want %q", name, found[name], want)
		}
	}
}

// notPython is a program that answers as Python does, makes environments of itself, and writes down what pip is given.
const notPython = `#!/bin/sh
case "$*" in
*"-m venv"*)
	for to; do :; done
	mkdir -p "$to/bin" && cp "$0" "$to/bin/python" && cp "$0" "$to/bin/pip" ;;
*install*) echo "$@" >>%q ;;
*) echo '{"Version": "3.12.0", "minor": 12, "MLX": "` + versionMLX + `", "MLXLM": "` + versionMLXLM + `"}' ;;
esac
`

// TestHashesAreRequired: neither the setup nor the script for the tests installs what has another hash or no wheel.
func TestHashesAreRequired(t *testing.T) {
	dir := t.TempDir()
	said, fake := filepath.Join(dir, "said"), filepath.Join(dir, "python")
	if err := os.WriteFile(fake, fmt.Appendf(nil, notPython, said), 0o700); err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("../../scripts/mlx_environment.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, install := range map[string]func() error{
		"setup": func() error {
			_, err := Setup(t.Context(), Config{Data: t.TempDir(), Python: fake}, io.Discard)
			return err
		},
		"script": func() error {
			root := t.TempDir()
			for _, d := range []string{"scripts", "backend/mlx", ".cache"} {
				if err := os.MkdirAll(filepath.Join(root, d), 0o700); err != nil {
					return err
				}
			}
			write(t, root, "backend/mlx/requirements.txt", string(requirements))
			write(t, root, "scripts/mlx_environment.sh", string(script))
			cmd := exec.Command("bash", filepath.Join(root, "scripts/mlx_environment.sh"))
			cmd.Env = append(os.Environ(), "RUNNER_PYTHON="+fake)
			out, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		},
	} {
		if err := os.RemoveAll(said); err != nil {
			t.Fatal(err)
		}
		if err := install(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b, err := os.ReadFile(said)
		if given := string(b); err != nil || !strings.Contains(given, " --require-hashes --only-binary :all: -r ") {
			t.Errorf("%s gives pip %q, %v", name, given, err)
		}
	}
}

// script writes a program for a shell.
func script(t *testing.T, path, text string) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
		os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	return path
}

// versions is how a Python of a version answers to question.
func versions(minor int, mlx, lm string) string {
	return fmt.Sprintf(`{"Version": "3.%d.0", "minor": %[1]d, "MLX": %q, "MLXLM": %q}`, minor, mlx, lm)
}

// TestAdviceToRun: commands that run models advise what the user can do there. They have no flag for an interpreter,
// and setting up MLX does not help who named one.
func TestAdviceToRun(t *testing.T) {
	dir := t.TempDir()
	says := func(name string, minor int, mlx string) string {
		return script(t, filepath.Join(dir, name), "echo '"+versions(minor, mlx, versionMLXLM)+"'")
	}
	none, broken, ready := Config{Data: filepath.Join(dir, "none")}, Config{Data: filepath.Join(dir, "broken")},
		Config{Data: filepath.Join(dir, "ready")}
	script(t, broken.interpreter(), "exit 3")
	script(t, ready.interpreter(), "echo '"+versions(12, versionMLX, versionMLXLM)+"'")
	other := "choose another with RUNNER_PYTHON, or unset that and run 'runner engines setup mlx'"
	for _, c := range []struct {
		name, chosen string
		c            Config
		advice       string
	}{
		{"nothing", "", none, "run 'runner engines setup mlx'"},
		{"a broken environment", "", broken, "run 'runner engines setup mlx'"},
		{"another is gone", filepath.Join(dir, "gone"), none, other},
		{"another is old", says("old", 9, versionMLX), none, other},
		{"another lacks MLX", says("bare", 12, ""), none, other},
		{"another has an old MLX", says("dated", 12, "0.1"), none, other},
		{"another lacks MLX, and the environment is ready", says("bare", 12, ""), ready,
			"unset RUNNER_PYTHON, because MLX has a Python in " + ready.environment()},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("RUNNER_PYTHON", c.chosen)
			if _, err := Find(t.Context(), c.c); hint.Of(err) != c.advice {
				t.Errorf("error %#v, want the advice %q", err, c.advice)
			}
		})
	}
	t.Setenv("RUNNER_PYTHON", "")
	if _, err := Find(t.Context(), ready); err != nil {
		t.Errorf("the advice does not help: %v", err)
	}
}

// TestAdviceToSetUp: the setup tells no Python, an old one, one that makes no environments, and no index apart.
func TestAdviceToSetUp(t *testing.T) {
	dir := t.TempDir()
	const makes = `case "$*" in
*"-m venv"*) %s ;;
*install*) echo "ERROR: No matching distribution found" >&2; exit 1 ;;
*) echo '%s' ;;
esac`
	whole := versions(12, "", "")
	old := script(t, filepath.Join(dir, "old", "python3"), "echo '"+versions(9, "", "")+"'")
	install := "install Python 3.11 or newer, or choose one with --python"
	for _, c := range []struct {
		name, path     string // path is that of programs
		python, chosen string
		kind           error
		detail, advice string
	}{
		{"no Python", dir, "", "", ErrNoPython, "there is no python3 on the PATH", install},
		{"an old Python", filepath.Dir(old), "", "", ErrOldPython, "Python has version 3.9.0", install},
		{"an old Python by choice", "", old, "", ErrOldPython, "Python has version 3.9.0", install},
		{"a choice that is not there", "", filepath.Join(dir, "gone"), "", ErrNoPython, "there is no such program",
			"choose another with --python or RUNNER_PYTHON"},
		{"a variable that names none", "", "", filepath.Join(dir, "gone"), ErrNoPython, "there is no such program",
			"choose another with --python or RUNNER_PYTHON"},
		{"no module venv", "", script(t, filepath.Join(dir, "bare"), fmt.Sprintf(makes, "exit 1", whole)), "", ErrSetup,
			"Python 3.12.0 makes no environment", "install its module venv, or choose another with --python"},
		{"no index", "", script(t, filepath.Join(dir, "python"), fmt.Sprintf(makes,
			`for to; do :; done; mkdir -p "$to/bin" && cp "$0" "$to/bin/python"`, whole)), "", ErrSetup,
			"Python 3.12.0 cannot install the packages: exit status 1: ERROR: No matching distribution found",
			"check the connection to the Python package index and the free space, and try again"},
		{"no data folder", "", script(t, filepath.Join(dir, "right"), "echo '"+whole+"'"), "", ErrSetup, "not a directory",
			"choose another data folder with XDG_DATA_HOME, or mend this one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("RUNNER_PYTHON", c.chosen)
			if c.path != "" {
				t.Setenv("PATH", c.path)
			}
			data := t.TempDir()
			if c.name == "no data folder" {
				data = old
			}
			_, err := Setup(context.Background(), Config{Data: data, Python: c.python}, io.Discard)
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.detail) || hint.Of(err) != c.advice {
				t.Errorf("error %#v, want %v with %q and advice %q", err, c.kind, c.detail, c.advice)
			}
		})
	}
}
