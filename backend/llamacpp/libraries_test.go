package llamacpp

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"runner/testenv"
)

// TestLibraries loads unusable libraries from a folder. Their log messages must reach the engine's log, although
// the libraries use a base library of their own.
func TestLibraries(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the libraries of this test are built for Linux")
	}
	cc := testenv.Compiler(t, "CC")
	if err := start(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	build := func(name, source string, args ...string) {
		t.Helper()
		c := exec.Command(cc[0], append(append(append([]string{}, cc[1:]...), "-shared", "-fPIC", "-x", "c", "-", "-o",
			filepath.Join(dir, name)), args...)...)
		c.Stdin = strings.NewReader(source)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	base := filepath.Join(dir, baseLibrary)
	build(baseLibrary, `
static void (*callback)(int, const char *, void *);
static void *data;
void ggml_log_set(void (*c)(int, const char *, void *), void *d) { callback = c; data = d; }
void ggml_test_log(const char *text) { callback(4, text, data); }`, "-Wl,-soname,"+baseLibrary)
	build("libggml-stub.so", `
void ggml_test_log(const char *text);
void *ggml_backend_init(void) { ggml_test_log("no device today"); return 0; }`, "-x", "none", base, "-Wl,-rpath,"+dir)
	if err := os.WriteFile(filepath.Join(dir, "libggml-text.so"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	SetLogger(slog.New(slog.NewTextHandler(&log, nil)))
	defer SetLogger(nil)
	list := loadLibraries([]string{filepath.Join(dir, "missing"), dir})
	if len(list) != 2 {
		t.Fatalf("found %v", list)
	}
	for i, want := range []string{"not for this version", "libggml-text.so"} {
		if list[i].Err == nil || !strings.Contains(list[i].Err.Error(), want) {
			t.Errorf("%s: error %v, want %q", list[i].Path, list[i].Err, want)
		}
	}
	if !strings.Contains(log.String(), "no device today") {
		t.Errorf("the log holds %q", log.String())
	}
}
