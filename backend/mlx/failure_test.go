package mlx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/child"
	"runner/hint"
	"runner/models/random"
)

// hook is what changedWorker changes: the third step fails if the file mark is not there yet. It makes the file.
const hook = `
import time
mark = %q
calls = 0
def step(self, head, raw, old=steps.Steps.step):
    global calls
    calls += 1
    first = calls == 3 and not os.path.exists(mark)
    if first:
        open(mark, "w").close()
        %s
    return old(self, head, raw)
steps.Steps.step = step
`

// hookedBy opens a model whose worker fails in its third step, once.
func hookedBy(t *testing.T, e Engine, path, failure string) *child.Model {
	t.Helper()
	f, err := ReadFolder(path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	start, err := Start(e.Python, f, e.Memory)
	if err != nil {
		t.Fatal(err)
	}
	change(t, &start, fmt.Sprintf(hook, filepath.Join(dir, "mark"), failure))
	m, err := e.run(context.Background(), start, f, backend.Config{ContextSize: 256, Sequences: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// greedy returns n tokens after a prompt.
func greedy(t *testing.T, m backend.Model, n int) []backend.Token {
	t.Helper()
	s, err := m.NewSequence()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tokens, err := m.Tokenize(nil, "What is 17 + 25?")
	if err != nil {
		t.Fatal(err)
	}
	var got []backend.Token
	out := make([]backend.Output, 1)
	for range n {
		in := []backend.Input{{Sequence: s, Tokens: tokens, Sampling: &backend.Sampling{TopLogprobs: -1}}}
		if err := m.Step(context.Background(), in, out); err != nil {
			t.Fatal(err)
		}
		tokens = []backend.Token{out[0].Token}
		got = append(got, out[0].Token)
	}
	return got
}

// TestSmoke generates with a real worker, and checks that the parent's limits are untouched and that the worker
// ends with its model.
func TestSmoke(t *testing.T) {
	p := python(t)
	var before, after syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	m := mustOpen(t, p, demoFolder(t), backend.Config{})
	if i := m.Info(); i.Name != "demo" || i.Architecture != "gpt-oss" || i.Quantization != "MXFP4" ||
		i.Parameters < 4_150_000 ||
		i.ContextSize != 8192 || i.EmbeddingLength != 192 || i.Layers != 6 || !i.WindowOnly || i.ChatTemplate == "" ||
		i.Backend != "MLX" {
		t.Errorf("info %+v", i)
	}
	if runtime.GOOS == "linux" {
		limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", m.Process()))
		if want := fmt.Sprint(before.Max); err != nil || !strings.Contains(string(limits), want) {
			t.Errorf("the worker's limit of files is not %s: %s", want, limits)
		}
	}
	first := greedy(t, m, 30)
	if again := greedy(t, m, 30); !slices.Equal(first, again) {
		t.Errorf("the same prompt gives %v and %v", first, again)
	}
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &after); err != nil || before != after {
		t.Errorf("the limit of files was %v and is %v, %v", before, after, err)
	}
	pid := m.Process()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d is still there: %v", pid, err)
	}
}

// failures are what can go wrong in a step, with what the log says then. The first ones are exceptions in the thread
// that computes: it must end the process, although the thread that reads is well. If it dies and leaves the process
// alive, or hangs, only the lack of progress shows that.
var failures = []struct {
	name, failure, says string
	hang                bool
}{
	{"exception", `raise RuntimeError("[metal::malloc] Unable to allocate")`, "Unable to allocate", false},
	{"exception of no class that is expected", `raise SystemExit`, "SystemExit", false},
	{"exception that cannot be reported", `self.pipes.send = None; raise RuntimeError`, "exit status 3", false},
	{"the thread that computes dies", `import ctypes; ctypes.CDLL(None).pthread_exit(None)`, "no progress", true},
	{"the thread that computes hangs", `time.sleep(600)`, "no progress", true},
	{"abort", `os.abort()`, "aborted", false},
	{"exit", `os._exit(0)`, "exit status 0", false},
	{"memory over the limit", `self.memory.limit = 1; self.memory.check()`, "its limit is 0 MiB", false},
	{"frame that breaks the rules", `self.pipes.send(200, b"")`, "unknown kind 200", false},
	{"half a frame", `os.write(4, b"12345"); os._exit(1)`, "ends in its prologue", false},
}

// TestFailuresInSteps lets the worker fail in every known way. The answer goes on as if nothing had happened.
func TestFailuresInSteps(t *testing.T) {
	p := python(t)
	path := randomFolder(t, random.Config{Seed: 2, Precise: true, Layers: 2})
	want := greedy(t, mustOpen(t, p, path, backend.Config{ContextSize: 256, Sequences: 2}), 12)
	for i, c := range failures {
		t.Run(c.name, func(t *testing.T) {
			if i > 3 {
				long(t)
			}
			var log strings.Builder
			m := hookedBy(t, Engine{Python: p, Log: slog.New(slog.NewTextHandler(&log, nil))}, path, c.failure)
			began := time.Now()
			got := greedy(t, m, 12)
			if !slices.Equal(got, want) {
				t.Errorf("tokens %v, want %v", got, want)
			}
			if n := countsOf(m); n.Crashes != 1 || n.Hangs != 0 && !c.hang || n.Hangs != 1 && c.hang || n.Failed != 0 {
				t.Errorf("counts %+v", n)
			}
			if !strings.Contains(log.String(), c.says) {
				t.Errorf("the log does not say %q:\n%s", c.says, log.String())
			}
			t.Logf("%v, counts %+v", time.Since(began).Round(10*time.Millisecond), countsOf(m))
		})
	}
}

// TestMemoryLimit opens a model whose weights or context do not fit, and one whose context is cut to what fits.
func TestMemoryLimit(t *testing.T) {
	long(t)
	p := python(t)
	path := demoFolder(t)
	for _, c := range []struct {
		memory  int64
		context int
	}{{1 << 20, 0}, {64 << 20, 1 << 22}} {
		_, err := open(t, p, path, backend.Config{ContextSize: c.context}, c.memory)
		var e *backend.LoadError
		if !errors.As(err, &e) || e.Reason != backend.LoadTooBig || e.Advice == "" {
			t.Errorf("%d bytes for %d tokens: error %v", c.memory, c.context, err)
		}
	}
	m, err := open(t, p, path, backend.Config{}, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if i := m.Info(); i.ContextSize >= i.TrainedContext || !strings.Contains(i.ContextReason, "fit into memory") {
		t.Errorf("context of %d, %s", i.ContextSize, i.ContextReason)
	}
}

// TestLoadFailures starts workers that cannot load a model.
func TestLoadFailures(t *testing.T) {
	long(t)
	p := python(t)
	for _, c := range []struct {
		name, detail string
		reason       backend.LoadFailure
		arguments    map[string]string
		damage       func(path string)
	}{
		{"wrong version", "mlx has version 0.32.4, and version 0.1 is required", backend.LoadFailed,
			map[string]string{"--require": `{"mlx":"0.1"}`}, nil},
		{"missing module", "the Python module no-such-module is missing", backend.LoadFailed,
			map[string]string{"--require": `{"no-such-module":"1"}`}, nil},
		{"unknown model type", `does not know models of type 'warp9'`, backend.LoadUnknownArchitecture, nil,
			func(path string) { edit(t, path, "config.json", `"gpt_oss"`, `"warp9"`) }},
		{"another shape", "do not fit together", backend.LoadCorrupt, nil,
			func(path string) { edit(t, path, "config.json", `"hidden_size":192`, `"hidden_size":256`) }},
		{"missing layer", "do not fit together", backend.LoadCorrupt, nil,
			func(path string) { edit(t, path, "config.json", `"num_hidden_layers":6`, `"num_hidden_layers":8`) }},
		{"missing key", "", backend.LoadFailed, nil,
			func(path string) { edit(t, path, "config.json", `"rope_type":"yarn"`, `"rope_type":"spiral"`) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := demoFolder(t)
			if c.damage != nil {
				c.damage(path)
			}
			f, err := ReadFolder(path)
			if err != nil {
				t.Fatal(err)
			}
			start, err := Start(p, f, 0)
			if err != nil {
				t.Fatal(err)
			}
			for name, v := range c.arguments {
				start.Args[slices.Index(start.Args, name)+1] = v
			}
			_, err = Engine{}.run(context.Background(), start, f, backend.Config{})
			var e *backend.LoadError
			if !errors.As(err, &e) || e.Reason != c.reason || !strings.Contains(e.Detail, c.detail) || e.Advice == "" {
				t.Errorf("error %#v, want reason %d with %q", err, c.reason, c.detail)
			}
		})
	}
}

// TestKilled kills the worker while a model generates. The answer goes on.
func TestKilled(t *testing.T) {
	long(t)
	p := python(t)
	path := randomFolder(t, random.Config{Seed: 4, Precise: true, Layers: 2})
	m := mustOpen(t, p, path, backend.Config{ContextSize: 256, Sequences: 2})
	want := greedy(t, m, 100)
	const rounds = 10
	for i := range rounds {
		greedy(t, m, 1) // it notices a process that was killed after the last step
		pid := m.Process()
		killed := make(chan struct{})
		time.AfterFunc(time.Duration(5+20*i)*time.Millisecond, func() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it is this test's own
			close(killed)
		})
		got := greedy(t, m, 100)
		if !slices.Equal(got, want) {
			t.Errorf("round %d: tokens %v, want %v", i, got, want)
		}
		<-killed
	}
	if again := greedy(t, m, 100); !slices.Equal(again, want) {
		t.Error("after all rounds the tokens differ")
	}
	if n := countsOf(m); n.Crashes != rounds || n.Failed != 0 {
		t.Errorf("counts %+v, want %d crashes", n, rounds)
	}
}

// TestSetup installs MLX from the package index.
func TestSetup(t *testing.T) {
	long(t)
	c := Config{Data: t.TempDir()}
	var log strings.Builder
	p, err := Setup(context.Background(), c, &log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	if found, err := Find(context.Background(), c); err != nil || *found != *p {
		t.Errorf("%+v, %v, want %+v", found, err, p)
	}
	m := mustOpen(t, p, demoFolder(t), backend.Config{})
	if len(greedy(t, m, 5)) != 5 {
		t.Error("no tokens")
	}
}

// TestSetupThatFails: an environment that works is kept where a new one cannot be made.
func TestSetupThatFails(t *testing.T) {
	p := python(t)
	c := Config{Data: t.TempDir(), Python: p.Path}
	kept := filepath.Join(c.environment(), "kept")
	if err := os.MkdirAll(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
	t.Setenv("PIP_RETRIES", "0")
	t.Setenv("PIP_NO_CACHE_DIR", "1")
	t.Setenv("PIP_FIND_LINKS", "")
	t.Setenv("PIP_EXTRA_INDEX_URL", "")
	t.Setenv("PIP_CONFIG_FILE", os.DevNull)
	if _, err := Setup(t.Context(), c, io.Discard); !errors.Is(err, ErrSetup) ||
		!strings.Contains(hint.Of(err), "connection to the Python package index") {
		t.Errorf("without an index: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("the environment is gone: %v", err)
	}
	if _, err := os.Stat(c.environment() + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half an environment was left: %v", err)
	}
}
