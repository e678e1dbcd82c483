package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// recorder is a test that notes how it ended.
type recorder struct {
	testing.TB
	skipped, failed string
}

func (r *recorder) Helper() {}

func (r *recorder) Skip(args ...any) { r.Skipf("%s", fmt.Sprint(args...)) }

func (r *recorder) Skipf(format string, args ...any) {
	r.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatal(args ...any) {
	r.failed = fmt.Sprint(args...)
	runtime.Goexit()
}

// ended runs f to its end, or until it skips or fails the test that it gets.
func ended(t *testing.T, f func(testing.TB)) *recorder {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

// module makes a module with these files, and works in a folder of it.
func module(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	files["go.mod"], files["a/b/c"] = "module x", ""
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(root, "a", "b"))
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// TestWhatIsMissingIsSkipped checks that a test is skipped with the way to get what it lacks, and only then.
func TestWhatIsMissingIsSkipped(t *testing.T) {
	t.Setenv("RUNNER_TEST_ENGINE", "")
	const wanted, have = "backend/mlx/requirements.txt", ".cache/mlx/requirements.txt"
	for name, c := range map[string]struct {
		files   map[string]string
		find    func(testing.TB) string
		skipped string // "" if it is found
	}{
		"no MLX":      {map[string]string{wanted: "1"}, MLX, "scripts/mlx_environment.sh"},
		"an old MLX":  {map[string]string{wanted: "2", have: "1"}, MLX, "scripts/mlx_environment.sh renews it"},
		"MLX":         {map[string]string{wanted: "2", have: "2"}, MLX, ""},
		"no hub":      {map[string]string{}, HuggingFaceHub, "scripts/hub_environment.sh"},
		"half a hub":  {map[string]string{".cache/hub/bin/python": ""}, HuggingFaceHub, "scripts/hub_environment.sh"},
		"a hub":       {map[string]string{".cache/hub/wanted": "x"}, HuggingFaceHub, ""},
		"no engine":   {map[string]string{}, EngineFolder, "make engines"},
		"an engine":   {map[string]string{".cache/engines/llama.cpp-0.5.0/x": ""}, EngineFolder, ""},
		"short tests": {map[string]string{}, func(t testing.TB) string { NeedLong(t, "slow"); return "" }, "RUNNER_LONG=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("RUNNER_LONG", "")
			root, found := module(t, c.files), ""
			r := ended(t, func(t testing.TB) { found = c.find(t) })
			if r.failed != "" || (r.skipped == "") != (c.skipped == "") || !strings.Contains(r.skipped, c.skipped) {
				t.Errorf("skipped with %q, failed with %q, want %q", r.skipped, r.failed, c.skipped)
			}
			if c.skipped == "" && !strings.HasPrefix(found, root) {
				t.Errorf("found %q, want a place in %s", found, root)
			}
		})
	}
}

func TestChosenEngine(t *testing.T) {
	t.Setenv("RUNNER_TEST_ENGINE", "/somewhere")
	if got := EngineFolder(t); got != "/somewhere" {
		t.Errorf("the engine is in %q", got)
	}
}

func TestOutsideOfTheModule(t *testing.T) {
	t.Chdir(t.TempDir())
	if r := ended(t, func(t testing.TB) { Root(t) }); r.failed == "" || r.skipped != "" {
		t.Errorf("without a module: skipped with %q, failed with %q", r.skipped, r.failed)
	}
}

func TestLongTestsRun(t *testing.T) {
	t.Setenv("RUNNER_LONG", "1")
	if r := ended(t, func(t testing.TB) { NeedLong(t, "slow") }); r.skipped != "" {
		t.Errorf("skipped with %q", r.skipped)
	}
}
