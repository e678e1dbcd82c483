package mlx

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
