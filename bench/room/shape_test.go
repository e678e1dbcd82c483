package room

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"runner/backend"
	"runner/backend/fake"
	"runner/cmd/runner/cli"
	"runner/hint"
	"runner/models/random"
)

// tinyShape returns a known shape with few and small matrices. It has the layers, the kinds of layers and the formats.
func tinyShape(name string) (random.Config, bool) {
	c, ok := random.Shape(name)
	c.Width, c.FeedForward, c.Heads, c.KVHeads, c.HeadSize, c.Vocabulary = 256, 256, 4, 2, 64, 512
	c.Experts, c.Used = min(c.Experts, 2), min(c.Used, 2)
	return c, ok
}

// shapeTest makes shapes in a cache of its own.
type shapeTest struct {
	*testing.T
	folder string
	errors *os.File
	bench  *bencher
}

func newShapeTest(t *testing.T) *shapeTest {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir()) // the cache's place on macOS
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "errors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &shapeTest{T: t, folder: filepath.Join(dir, "runner", "shapes"), errors: file,
		bench: &bencher{note: func(line string) { fmt.Fprintln(file, line) }, free: func() int64 { return 0 },
			shapeOf: tinyShape}}
}

// file returns the path of a shape's file, and whether it was made for that.
func (t *shapeTest) file(name string, layers int) (path string, made bool) {
	t.Helper()
	path, has, err := t.bench.shapeFile(t.Context(), &options{shape: name, layers: layers},
		func(said string) { made = made || strings.HasPrefix(said, "making ") })
	if err != nil {
		t.Fatal(err)
	}
	if has != layers {
		t.Errorf("%s has %d layers, want %d", name, has, layers)
	}
	return path, made
}

// noted returns what was written to standard error.
func (t *shapeTest) noted() string {
	t.Helper()
	b, err := os.ReadFile(t.errors.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// files lists the files in the folder.
func (t *shapeTest) files() (names []string) {
	t.Helper()
	entries, err := os.ReadDir(t.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// weights returns the file that a tiny shape should have.
func (t *shapeTest) weights(name string, layers int) []byte {
	t.Helper()
	c, _ := tinyShape(name)
	c.Layers = layers
	var b bytes.Buffer
	if err := random.Write(&b, c); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestShapeIsMadeOnce: the file of a shape is made the first time, and it is that of the shape with the layers. The
// second time the same file is there, and nothing is written.
func TestShapeIsMadeOnce(t *testing.T) {
	test := newShapeTest(t)
	var want []string
	for _, name := range random.Shapes() {
		for _, layers := range []int{2, 3} {
			path, made := test.file(name, layers)
			first, err := os.Stat(path)
			if err != nil || !made {
				t.Fatalf("%s: made %v, %v", path, made, err)
			}
			want = append(want, filepath.Base(path))
			again, made := test.file(name, layers)
			second, err := os.Stat(again)
			if err != nil || made || again != path || !os.SameFile(first, second) ||
				!second.ModTime().Equal(first.ModTime()) {
				t.Errorf("the second time: %s instead of %s, made %v, %v", again, path, made, err)
			}
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, test.weights(name, layers)) {
				t.Errorf("%s with %d layers: the file is another one, %v", name, layers, err)
			}
		}
	}
	slices.Sort(want)
	if got := test.files(); !slices.Equal(got, slices.Compact(want)) || len(got) != 2*len(random.Shapes()) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
	if noted := test.noted(); noted != "" {
		t.Errorf("it says %q", noted)
	}
}

// TestDamagedShapeIsMadeAgain: a file that is cut off, or another one, is not used. It is named, and made again.
func TestDamagedShapeIsMadeAgain(t *testing.T) {
	const name, layers = "qwen3-30b-a3b", 2
	test := newShapeTest(t)
	whole := test.weights(name, layers)
	for what, b := range map[string][]byte{
		"empty": {}, "half-written": whole[:len(whole)/2], "of zeros": make([]byte, len(whole)),
		"of another shape": test.weights("llama-3.1-8b", layers), "with other layers": test.weights(name, layers+1),
	} {
		path, _ := test.file(name, layers)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, made := test.file(name, layers); !made {
			t.Errorf("a file that is %s is used", what)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, whole) {
			t.Errorf("after a file that is %s: %d bytes, %v", what, len(got), err)
		}
		if _, made := test.file(name, layers); made {
			t.Errorf("after a file that is %s: it is made a third time", what)
		}
		noted := test.noted()
		if strings.Count(noted, "warning: "+path+" cannot be used, and is made again: ") != 1 {
			t.Errorf("a file that is %s: it says %q", what, noted)
		}
		if err := test.errors.Truncate(0); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShapeThatIsStopped: Ctrl-C while a file is made leaves nothing. What an ended program left is removed, and what
// another one may be writing stays.
func TestShapeThatIsStopped(t *testing.T) {
	const name, layers = "gpt-oss-20b", 2
	test := newShapeTest(t)
	ctx, stop := context.WithCancel(t.Context())
	o := &options{shape: name, layers: layers}
	_, _, err := test.bench.shapeFile(ctx, o, func(string) { stop() })
	if !errors.Is(err, cli.ErrInterrupted) || len(test.files()) != 0 {
		t.Errorf("%v, and the folder has %q", err, test.files())
	}
	left, young := filepath.Join(test.folder, ".new-1"), filepath.Join(test.folder, ".new-2")
	for _, path := range []string{left, young} {
		if err := os.WriteFile(path, test.weights(name, layers), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	old := time.Now().Add(-2 * leftTime)
	if err := os.Chtimes(left, old, old); err != nil {
		t.Fatal(err)
	}
	path, made := test.file(name, layers)
	if _, err := os.Stat(left); !made || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made %v, and what an ended program left: %v", made, err)
	}
	if got, want := test.files(), []string{filepath.Base(young), filepath.Base(path)}; !slices.Equal(got, want) {
		t.Errorf("the folder has %q, want %q", got, want)
	}
}

// hugeShape returns a shape that fits no machine.
func hugeShape(name string) (random.Config, bool) {
	c, ok := random.Shape(name)
	c.FeedForward <<= 20
	return c, ok
}

// TestShapeWithoutRoom: a shape that does not fit the disk, and a folder that cannot be made, are errors with a hint.
func TestShapeWithoutRoom(t *testing.T) {
	test := newShapeTest(t)
	o := &options{shape: "llama-3.1-8b"}
	test.bench.shapeOf = hugeShape
	ctx, stop := context.WithCancel(t.Context())
	_, _, err := test.bench.shapeFile(ctx, o, func(string) { stop() }) // it would fill the disk
	if err == nil || !strings.Contains(err.Error(), " free in "+test.folder) ||
		hint.Of(err) != "free some space, or use fewer --layers" || len(test.files()) != 0 {
		t.Errorf("%v, and the folder has %q", err, test.files())
	}
	if err := os.Remove(test.folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(test.folder, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	test.bench.shapeOf = tinyShape
	_, _, err = test.bench.shapeFile(t.Context(), o, func(string) {})
	if !strings.Contains(hint.Of(err), "XDG_CACHE_HOME") {
		t.Errorf("got %v", err)
	}
}

// inMemory makes a shape in memory.
func (t *shapeTest) inMemory(ctx context.Context, o *options, say func(string)) (f *os.File, path string,
	err error) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has files in memory that other processes can open")
	}
	f, path, has, err := t.bench.shapeInMemory(ctx, o, say)
	if err == nil && has != o.layers {
		t.Errorf("it has %d layers, want %d", has, o.layers)
	}
	return f, path, err
}

// TestShapeInMemory: a shape in memory has the same bytes as its file, other processes can read it while it is kept,
// and nothing is written in the cache.
func TestShapeInMemory(t *testing.T) {
	test := newShapeTest(t)
	o := &options{shape: "gpt-oss-20b", layers: 2}
	f, path, err := test.inMemory(t.Context(), o, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := exec.Command("cat", path).Output(); err != nil || !bytes.Equal(got, test.weights(o.shape, o.layers)) {
		t.Errorf("another process reads %d bytes, %v", len(got), err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after it was closed: %v", err)
	}
	if _, err := os.Stat(test.folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cache's folder: %v", err)
	}
}

// TestShapeInMemoryThatIsNotMade: too little memory and Ctrl-C are errors.
func TestShapeInMemoryThatIsNotMade(t *testing.T) {
	test := newShapeTest(t)
	ctx, stop := context.WithCancel(t.Context())
	stopping := func(string) { stop() } // else it would fill the memory
	test.bench.free, test.bench.shapeOf = func() int64 { return 16 << 30 }, hugeShape
	_, _, err := test.inMemory(ctx, &options{shape: "llama-3.1-8b", layers: 2}, stopping)
	if err == nil || !strings.Contains(err.Error(), " of memory are free") {
		t.Errorf("got %v", err)
	}
	test.bench.shapeOf = tinyShape
	o := &options{shape: "llama-3.1-8b", layers: 2}
	if _, _, err := test.inMemory(ctx, o, stopping); !errors.Is(err, cli.ErrInterrupted) {
		t.Errorf("got %v", err)
	}
}

// fakeEngine computes no weights.
var fakeEngine = cli.Engine{
	Choose:      func(context.Context, string, string, func(string)) (string, error) { return "", nil },
	CheckFolder: func(string) error { return nil },
	Open: func(_ context.Context, _ string, cfg backend.Config) (backend.Model, error) {
		return fake.New(fake.Config{ContextSize: cfg.ContextSize, BatchSize: cfg.BatchSize}), nil
	},
}

// tinyCommand is bench with tiny shapes, which waits for no engine.
const tinyCommand = "tiny-bench"

func init() {
	cli.Register(cli.Room{Name: tinyCommand, Commands: func(a *cli.App) []*cobra.Command {
		b := newBencher(a)
		b.shapeOf, b.settle = tinyShape, func(context.Context, []int, time.Duration) bool { return true }
		cmd := b.command()
		cmd.Use = tinyCommand
		return []*cobra.Command{cmd}
	}})
}

// TestBenchOfAShape: the table says that the weights are random, and how many layers there are.
func TestBenchOfAShape(t *testing.T) {
	test := newShapeTest(t)
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	bench := func(args ...string) int {
		stdout, stderr := os.Stdout, os.Stderr
		defer func() { os.Stdout, os.Stderr = stdout, stderr }()
		os.Stdout, os.Stderr = out, test.errors
		return cli.Main(fakeEngine, cli.Build{}, append([]string{tinyCommand, "-p", "4", "-n", "0", "-r", "2", "-b", "8",
			"--layers", "2"}, args...))
	}
	if code := bench("--shape", "llama-3.1-8b"); code != 0 {
		t.Fatalf("exit code %d: %s", code, test.noted())
	}
	table, err := os.ReadFile(out.Name())
	if err != nil || !strings.Contains(string(table), ", random, 2 layers |") {
		t.Errorf("%v, the table is\n%s", err, table)
	}
	if want := []string{"llama-3.1-8b-2-layers-random.gguf"}; !slices.Equal(test.files(), want) {
		t.Errorf("the folder has %q", test.files())
	}
	if runtime.GOOS != "linux" {
		return
	}
	if err := out.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if code := bench("--in-memory", "--shape", "qwen3-30b-a3b", "-o", "json"); code != 0 || len(test.files()) != 1 {
		t.Errorf("in memory: exit code %d, and the folder has %q", code, test.files())
	}
	rows, err := os.ReadFile(out.Name())
	want := `"model_filename": "qwen3-30b-a3b-2-layers-random.gguf"`
	if err != nil || !strings.Contains(string(rows), want) {
		t.Errorf("%v, and the rows lack %s: %s", err, want, rows)
	}
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(open) == 0 {
		t.Fatal(open, err)
	}
	for _, fd := range open {
		if path, _ := os.Readlink(fd); strings.Contains(path, "runner-shape") { // it may be closed by now
			t.Errorf("the file in memory is still open: %s", path)
		}
	}
}
