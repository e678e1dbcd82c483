package mlx

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"runner/hint"
)

// plainPython returns a Python that need not have MLX.
func plainPython(t *testing.T) string {
	t.Helper()
	c := Config{}
	p, err := c.base(context.Background())
	if errors.Is(err, ErrNoPython) || errors.Is(err, ErrOldPython) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p.Path
}

// sources returns the paths of the worker's files and of its tests.
func sources(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("worker/*.py")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return append(files, "boot.py", "worker_test.py", "frames_test.py", "golden_test.py")
}

func TestWorkerInPython(t *testing.T) {
	python := plainPython(t)
	for _, args := range [][]string{
		append([]string{"-I", "-c", "import sys; [compile(open(p).read(), p, 'exec') for p in sys.argv[1:]]"}, sources(t)...),
		{"-I", "-B", "worker_test.py"},
	} {
		if out, err := exec.Command(python, args...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}

func TestWorkerLines(t *testing.T) {
	for _, name := range sources(t) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(b), "\n") {
			if len(line) > 120 || strings.TrimRight(line, " \t") != line {
				t.Errorf("%s:%d is too long or ends in a space", name, i+1)
			}
		}
	}
}

// TestProgram: the program has all modules of the worker, and nothing of it is read from a file.
func TestProgram(t *testing.T) {
	text, err := program()
	if err != nil {
		t.Fatal(err)
	}
	check := bytes.Replace(text, []byte(runWorker), []byte(`
for name in ("worker", "worker.protocol", "worker.steps", "worker.main"):
    print(name, getattr(sys.modules[name], "__file__", None), sys.modules[name].__package__)
`), 1)
	cmd := exec.Command(plainPython(t), "-I", "-")
	cmd.Stdin, cmd.Dir = bytes.NewReader(check), t.TempDir()
	out, err := cmd.CombinedOutput()
	want := "worker None worker\nworker.protocol None worker\nworker.steps None worker\nworker.main None worker\n"
	if err != nil || string(out) != want {
		t.Errorf("%v\n%s", err, out)
	}
	if left, err := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// TestDocNamesTests: the tests that doc.go names are where it says.
func TestDocNamesTests(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\((\w+)(?: in ([\w.]+))?\)`).FindAllStringSubmatch(
		strings.ReplaceAll(string(doc), "\n// ", ""), -1)
	if len(named) < 5 {
		t.Errorf("doc.go names %d tests", len(named))
	}
	for _, n := range named {
		file := cmp.Or(n[2], "worker_test.py")
		text, err := os.ReadFile(file)
		if err != nil || !regexp.MustCompile(`(?m)^\s*(func|def|class) `+n[1]+`\(`).Match(text) {
			t.Errorf("%s has no test %s, %v", file, n[1], err)
		}
	}
}

// frame returns the bytes of a frame.
func frame(kind, head, raw uint32, rest string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint32(b, head)
	return append(binary.LittleEndian.AppendUint32(b, raw), rest...)
}

// TestHostileFrames sends frames that break the protocol. The worker must say so and end.
func TestHostileFrames(t *testing.T) {
	python := plainPython(t)
	hello := string(frame(1, 14, 0, `{"protocol":1}`))
	for _, c := range []struct {
		name, want string
		bytes      []byte
		code       int
	}{
		{"unknown kind", "unknown kind 99", frame(99, 0, 0, ""), 4},
		{"a kind without a meaning", "unknown kind 12", frame(12, 0, 0, ""), 4},
		{"engine's kind", "unknown kind 65", frame(65, 0, 0, ""), 4},
		{"head too long", "a head of 16777217", frame(1, 16<<20+1, 0, ""), 4},
		{"raw part too long", "a raw part of 536870913", frame(8, 0, 512<<20+1, ""), 4},
		{"no JSON", "the head of kind 1", frame(1, 3, 0, "{]}"), 4},
		{"no object", "not an object", frame(1, 2, 0, "[]"), 4},
		{"another version", "version 9", frame(1, 14, 0, `{"protocol":9}`), 4},
		{"step before load", "too early", frame(8, 4, 0, "\x00\x00\x00\x00"), 4},
		{"new before load", "before a model", frame(4, 14, 0, `{"sequence":1}`), 4},
		{"mask", "out of place", frame(9, 4, 0, "abcd"), 4},
		{"text", "out of place", frame(11, 8, 0, `{"id":1} `), 4},
		{"a number of another type", "has sequence -1", frame(4, 15, 0, `{"sequence":-1}`), 4},
		{"deep JSON", "recursion", frame(4, 100000, 0, strings.Repeat("[", 100000)), 4},
		{"end in a frame", "", []byte(hello[:20]), 0},
		{"end", "", nil, 0},
		{"shutdown", "", frame(13, 0, 0, ""), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, code := converse(t, python, c.bytes, c.code == 0)
			if code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("exit status %d, want %d, and %q, want %q", code, c.code, out, c.want)
			}
			if c.code != 0 && !strings.Contains(out, `"code":"broken"`) {
				t.Errorf("no error frame in %q", out)
			}
		})
	}
	if out, _ := converse(t, python, []byte(hello), true); !strings.Contains(out, `"engine":"MLX"`) {
		t.Errorf("hello is answered by %q", out)
	}
}

// TestDamagedFrames damages thousands of conversations in a process that computes nothing, and sends some tens of them
// to real ones. None may end in another way than the protocol has.
func TestDamagedFrames(t *testing.T) {
	p := python(t) // for numpy
	out, err := exec.Command(p.Path, "-I", "-B", "frames_test.py").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	dir := t.TempDir()
	if out, err := exec.Command(p.Path, "-I", "-B", "frames_test.py", dir, "30").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 30 {
		t.Fatal(files, err)
	}
	plain, bad := plainPython(t), 0
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out, code := converse(t, plain, b, true)
		if code != 0 && (code != 4 || !strings.Contains(out, `"code":"broken"`)) {
			t.Errorf("%s: exit status %d and %q", filepath.Base(name), code, out)
		}
		if code != 0 {
			bad++
		}
	}
	if bad < 10 {
		t.Errorf("%d of %d conversations were refused", bad, len(files))
	}
}

// TestGoldenFrames feeds the frames that the runner's codec is compared with to the worker's.
func TestGoldenFrames(t *testing.T) {
	p := python(t) // for numpy
	const file = "../child/protocol/testdata/frames.golden"
	out, err := exec.Command(p.Path, "-I", "-B", "golden_test.py", file).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// converse starts a worker, sends bytes and returns what the worker wrote with its exit status. It closes the pipe
// if end is set. Otherwise the worker must end without that.
func converse(t *testing.T, python string, send []byte, end bool) (string, int) {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	shared, err := os.CreateTemp(t.TempDir(), "rows")
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	text, err := program()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, python, "-I", "-")
	cmd.Stdin = bytes.NewReader(text)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut, shared}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	_, _ = in.Write(send) // the worker may have ended
	defer in.Close()
	var first [1]byte
	if end && strings.HasSuffix(string(send), "}") { // there is an answer, which must come before the end
		_, _ = io.ReadFull(out, first[:])
	}
	if end {
		in.Close()
	}
	b, _ := io.ReadAll(out) // it ends with the worker
	out.Close()
	_ = cmd.Wait() // the status says all
	return string(b), cmd.ProcessState.ExitCode()
}

func TestPythonErrors(t *testing.T) {
	t.Setenv("RUNNER_PYTHON", "")
	dir, ctx := t.TempDir(), context.Background()
	says := func(name string, minor int, mlx, lm string) string {
		return script(t, filepath.Join(dir, name), "echo '"+versions(minor, mlx, lm)+"'")
	}
	for _, c := range []struct {
		name   string
		c      Config
		kind   error
		detail string
	}{
		{"no environment", Config{Data: dir}, ErrNoPython, "no Python environment"},
		{"no program", Config{Python: filepath.Join(dir, "gone")}, ErrNoPython, "no such program"},
		{"no Python", Config{Python: script(t, filepath.Join(dir, "other"), "exit 3")}, ErrNoPython, "not a Python"},
		{"old Python", Config{Python: says("old", 9, "", "")}, ErrOldPython, "3.11 or newer"},
		{"no mlx", Config{Python: says("bare", 12, "", "")}, ErrMissing, "package mlx is missing"},
		{"no mlx-lm", Config{Python: says("half", 12, versionMLX, "")}, ErrMissing, "package mlx-lm is missing"},
		{"other mlx", Config{Python: says("new", 12, "9.9", versionMLXLM)}, ErrVersions, "mlx has version 9.9"},
		{"right", Config{Python: says("right", 12, versionMLX, versionMLXLM)}, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := Find(ctx, c.c)
			if c.kind == nil {
				if err != nil || p.MLX != versionMLX {
					t.Errorf("%+v, %v", p, err)
				}
				return
			}
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.detail) || hint.Of(err) == "" {
				t.Errorf("error %v, want %v with %q", err, c.kind, c.detail)
			}
		})
	}
	t.Setenv("RUNNER_PYTHON", says("chosen", 12, versionMLX, versionMLXLM))
	if _, err := Find(ctx, Config{Data: dir}); err != nil {
		t.Errorf("RUNNER_PYTHON: %v", err)
	}
	if text, err := Plan(ctx, Config{Data: dir}); err != nil || !strings.Contains(text, versionMLX) {
		t.Errorf("plan %q, %v", text, err)
	}
}

// TestDevice asks MLX what it computes on. A Python without MLX says so.
func TestDevice(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho no mlx >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Python{Path: broken}).Device(t.Context()); !errors.Is(err, ErrMissing) {
		t.Errorf("without MLX: %v", err)
	}
	p := python(t)
	got, err := p.Device(t.Context())
	if err != nil || got == "" || runtime.GOOS == "linux" && got != "CPU" {
		t.Errorf("MLX computes on %q, %v", got, err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Device(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// importAll imports MLX as a worker does, and then every architecture of mlx-lm.
const importAll = `
import importlib, pkgutil, sys
sys.path.insert(0, ".")
from worker.libraries import Libraries
class Pipes:
    def send(self, kind, head):
        pass
Libraries({}, Pipes())
late = {"transformers", "mlx_lm.generate", "mlx_lm.convert"} & set(sys.modules)
assert not late, late
models = importlib.import_module("mlx_lm.models").__path__
names = [m.name for m in pkgutil.iter_modules(models)]
assert len(names) > 50, names
for name in names:
    if name == "olmo":
        continue  # it needs a package that mlx-lm does not install
    importlib.import_module("mlx_lm.models." + name)
`

// TestWorkersImportNoTokenizers checks that a worker starts without the package that takes most time to import, and
// that no architecture needs what is left out.
func TestWorkersImportNoTokenizers(t *testing.T) {
	p := python(t)
	if out, err := exec.Command(p.Path, "-I", "-B", "-c", importAll).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
