package llamacpp

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"runner/backend/llamacpp/enginefolder"
	"runner/testenv"
)

// withLibllama makes a folder with a file in place of libllama. Nobody else can write to it.
func withLibllama(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "engine")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "libllama.so"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestOddLibraries opens folders with libraries that are not a usable llama.cpp, each in a process of its own.
func TestOddLibraries(t *testing.T) {
	if path := os.Getenv("RUNNER_ODD_LIBRARIES"); path != "" {
		_, err := OpenFolder(path)
		var e *enginefolder.Error
		if !errors.As(err, &e) {
			t.Fatalf("no error of a folder: %v", err)
		}
		if _, again := OpenFolder(path); !errors.Is(again, err) {
			t.Errorf("the second time: %v", again)
		}
		if _, other := OpenFolder(withLibllama(t)); other == nil ||
			!strings.Contains(other.Error(), "this process has the engine of") {
			t.Errorf("another folder: %v", other)
		}
		os.Stdout.WriteString("says " + err.Error() + "\n")
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("the libraries of this test are Linux's")
	}
	dir := withLibllama(t)
	run := func(want string) {
		t.Helper()
		c := exec.Command(os.Args[0], "-test.run=^TestOddLibraries$")
		c.Dir = t.TempDir()
		// A library with the name of a required one, in the working directory.
		testenv.SharedLibrary(t, filepath.Join(c.Dir, "libggml.so"), `#include <stdio.h>
			__attribute__((constructor)) static void f(void) { puts("PLANTED"); }`)
		c.Env = append(os.Environ(), "RUNNER_ODD_LIBRARIES="+dir)
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "PLANTED") {
			t.Errorf("want %q: %v\n%s", want, err, out)
		}
	}
	llama := filepath.Join(dir, "libllama.so")
	run("is not a shared library")
	testenv.SharedLibrary(t, llama, "int x;")
	run("is older than llama.cpp 0.5")
	testenv.SharedLibrary(t, llama, `const char * llama_version(void) { return "0.9.1"; }`)
	run("is llama.cpp 0.9.1, which this program does not know; name the folder")
	testenv.SharedLibrary(t, llama, `const char * llama_version(void) { return "0.5.0"; }`)
	run("says it is llama.cpp 0.5.0, but it has no function")
	testenv.SharedLibrary(t, filepath.Join(dir, "libggml.so"), "int y;")
	testenv.SharedLibrary(t, llama, `const char * llama_version(void) { return "0.9.1"; }`,
		"-Wl,--no-as-needed,-rpath,:$ORIGIN", "-L", dir, "-lggml")
	run("is llama.cpp 0.9.1")
	if err := os.Remove(filepath.Join(dir, "libggml.so")); err != nil {
		t.Fatal(err)
	}
	run("requires libggml.so, which is neither in the folder nor")
}

// TestNoSymbolsExported checks that the program exports none of the compiled-in engine's functions. Otherwise a
// folder's libraries would call those instead of their own.
func TestNoSymbolsExported(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has one name space for all libraries")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := f.Symbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		t.Fatal(err)
	}
	has := func(list []elf.Symbol) (n int) {
		for _, s := range list {
			if s.Section != elf.SHN_UNDEF && (strings.Contains(s.Name, "llama") || strings.Contains(s.Name, "ggml")) {
				n++
			}
		}
		return n
	}
	exported, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	if n := has(exported); n > 0 {
		t.Errorf("the program exports %d functions of llama.cpp or ggml", n)
	}
	if len(all) > 0 && has(all) < 1000 {
		t.Errorf("%d functions of llama.cpp and ggml found in all, so this test shows nothing", has(all))
	}
}
