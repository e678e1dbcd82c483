package llamacpp

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"runner/testenv"
)

// libraryFolder makes a folder with these files. A text that starts with "-> " makes a symbolic link. It belongs to
// this user and nobody else can write to it.
func libraryFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	chmod(t, dir, 0o755)
	dir = filepath.Join(dir, "engine")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			err = os.Symlink(target, filepath.Join(dir, name))
		} else {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// refused checks that a folder is refused with a text and an advice.
func refused(t *testing.T, path, want string) {
	t.Helper()
	var e *FolderError
	err := CheckFolder(path)
	if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", path, err, want)
	}
}

func TestFolderChecks(t *testing.T) {
	good := map[string]string{"libllama.so": "-> libllama.so.0", "libllama.so.0": "-> libllama.so.0.5.0",
		"libllama.so.0.5.0": "x", "libllama-common.so": "x", "README": "x"}
	dir := libraryFolder(t, good)
	if err := CheckFolder(dir); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := CheckFolder(link); err != nil {
		t.Errorf("through a link: %v", err)
	}
	refused(t, "engine", "not an absolute path")
	refused(t, "./engine", "not an absolute path")
	refused(t, filepath.Join(dir, "none"), "no such file")
	refused(t, filepath.Join(dir, "README"), "not a directory")
	refused(t, libraryFolder(t, map[string]string{"libggml.so": "x"}), "no libllama")
	refused(t, libraryFolder(t, map[string]string{"libllama.so": "x", "libllama.v0.5.0.so": "x"}),
		"2 versions of libllama")
	refused(t, libraryFolder(t, map[string]string{"libllama.so": "-> nowhere.so"}), "no such file")
	outside := filepath.Join(dir, "libllama.so.0.5.0")
	refused(t, libraryFolder(t, map[string]string{"libllama.so": "-> " + outside}), "leads out of the folder")
	refused(t, libraryFolder(t, map[string]string{"libllama.so": "x", "libggml.so": "-> ../x.so"}), "no such file")
	for _, name := range []string{"libllama.cuda.v0.5.0.so", "libllama.vulkan.v0.5.0.so", "libllama.metal.v0.4.0.dylib",
		"libllama.0.dylib"} {
		if err := CheckFolder(libraryFolder(t, map[string]string{name: "x"})); err != nil {
			t.Error(err)
		}
	}
	refused(t, libraryFolder(t, map[string]string{"libllama-common.so": "x"}), "no libllama")
	empty := libraryFolder(t, nil)
	chmod(t, empty, 0o777)
	refused(t, empty, "no libllama") // before the rights
	for _, mode := range []os.FileMode{0o775, 0o757, 0o777} {
		chmod(t, dir, mode)
		refused(t, dir, "can be written by other users")
		refused(t, link, "can be written by other users")
		chmod(t, dir, 0o755)
		chmod(t, filepath.Dir(dir), mode)
		refused(t, dir, "can be written by other users")
		chmod(t, filepath.Dir(dir), mode|os.ModeSticky)
		if err := CheckFolder(dir); err != nil {
			t.Errorf("in a folder in which only owners may rename: %v", err)
		}
		chmod(t, filepath.Dir(dir), 0o755)
		chmod(t, filepath.Join(dir, "libllama-common.so"), mode)
		refused(t, dir, "can be written by other users")
		chmod(t, filepath.Join(dir, "libllama-common.so"), 0o644)
	}
	if os.Geteuid() != 0 {
		return
	}
	for _, name := range []string{"", "libllama.so.0.5.0"} {
		path := filepath.Join(dir, name)
		if err := os.Chown(path, 12345, -1); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, "belongs to another user")
		if err := os.Chown(path, 0, -1); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReleaseWithSubfolders: the libraries of a release may be in its lib, bin or build/bin, where the same checks are
// made.
func TestReleaseWithSubfolders(t *testing.T) {
	for _, in := range inRelease[1:] {
		dir := libraryFolder(t, nil)
		libraries := filepath.Join(dir, in)
		if err := os.MkdirAll(libraries, 0o755); err != nil {
			t.Fatal(err)
		}
		chmod(t, filepath.Dir(libraries), 0o755)
		chmod(t, libraries, 0o755)
		refused(t, dir, "no libllama")
		if err := os.WriteFile(filepath.Join(libraries, "libllama.so"), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := readFolder(dir)
		if err != nil || f.path != libraries {
			t.Errorf("%s: %+v, %v", in, f, err)
		}
		for _, open := range []string{libraries, dir} {
			chmod(t, open, 0o777)
			refused(t, dir, "can be written by other users")
			chmod(t, open, 0o755)
		}
	}
}

// TestRightsOfTheSystem: nobody is told to change the rights of a folder of the system, or of another user.
func TestRightsOfTheSystem(t *testing.T) {
	const me = 501
	for path, o := range map[string]ownership{
		"/home/me/engine":    {fs.ModeDir | 0o775, 0, 0},
		"/tmp":               {fs.ModeDir | fs.ModeSticky | 0o777, 0, 0},
		"/data/shared":       {fs.ModeDir | fs.ModeSticky | 0o777, me, 0},
		"/home":              {fs.ModeDir | 0o777, me, 0},
		"/usr/lib":           {fs.ModeDir | 0o775, me, 0},
		"/usr/local/lib":     {fs.ModeDir | 0o775, me, 0},
		"/private/something": {fs.ModeDir | 0o777, me, 0},
	} {
		var e *FolderError
		if err := o.check(path, me, "linux"); !errors.As(err, &e) || e.Advice == "" || strings.Contains(e.Advice, "chmod") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := (ownership{fs.ModeDir | 0o775, me, 0}).check("/home/me/engine", me, "linux"); err == nil ||
		!strings.Contains(err.Error(), "chmod go-w /home/me/engine") {
		t.Errorf("a folder of this user: %v", err)
	}
}

// TestOwnership: the group may write only where it is that of macOS's administrators.
func TestOwnership(t *testing.T) {
	const me = 501
	folder, file := fs.ModeDir|0o775, fs.FileMode(0o664)
	for _, c := range []struct {
		o      ownership
		system string
		want   string
	}{
		{ownership{folder, me, admin}, "darwin", ""},
		{ownership{file, me, admin}, "darwin", ""},
		{ownership{folder, 0, admin}, "darwin", ""},
		{ownership{folder, 502, admin}, "darwin", "belongs to another user"},
		{ownership{folder | 0o002, me, admin}, "darwin", "can be written by other users"},
		{ownership{folder, me, 20}, "darwin", "can be written by other users"}, // staff, which is everybody
		{ownership{folder, me, 0}, "darwin", "can be written by other users"},
		{ownership{folder, me, admin}, "linux", "can be written by other users"},
		{ownership{fs.ModeDir | 0o755, me, 20}, "darwin", ""},
		{ownership{fs.ModeNamedPipe | 0o600, me, 20}, "darwin", "is not a file"},
	} {
		err := c.o.check("/opt/homebrew", me, c.system)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v on %s: %v, want %q", c.o, c.system, err, c.want)
		}
	}
}

// TestHomebrewFolders: libllama requires libggml by its whole path, and ggml's devices are in libexec.
func TestHomebrewFolders(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the libraries of this test are Linux's")
	}
	cc := testenv.Compiler(t, "CC")
	dir := libraryFolder(t, map[string]string{"libllama-common.so": "x"})
	cellar := filepath.Dir(dir)
	lib, libexec := filepath.Join(cellar, "ggml", "lib"), filepath.Join(cellar, "ggml", "libexec")
	for _, d := range []string{lib, libexec} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build(t, cc, filepath.Join(lib, "libggml.so.0"), "int y;", "-Wl,-soname="+filepath.Join(lib, "libggml.so.0"))
	devices := []string{"libggml-metal.so", "libggml-cpu-apple_m1.so"}
	for _, name := range append(devices, "libother.so") {
		build(t, cc, filepath.Join(libexec, name), "int z;")
	}
	llama := `const char * llama_version(void) { return "0.9.1"; }`
	build(t, cc, filepath.Join(dir, "libllama.so"), llama, "-Wl,--no-as-needed", filepath.Join(lib, "libggml.so.0"))
	f, err := readFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range devices {
		if f.files[name] != filepath.Join(libexec, name) {
			t.Errorf("%s is %q", name, f.files[name])
		}
	}
	if name, err := f.find(filepath.Join(lib, "libggml.so.0")); name != "libggml.so.0" || err != nil {
		t.Errorf("libggml is %q, %v", name, err)
	}
	if len(f.files) != 5 {
		t.Errorf("the engine has the files %v", f.files)
	}
	for _, path := range []string{lib, libexec, filepath.Join(libexec, devices[0])} {
		chmod(t, path, 0o775)
		refused(t, dir, path+": can be written by other users")
		chmod(t, path, 0o755)
	}
	// A whole path elsewhere is no way around the checks, either.
	other := filepath.Join(libexec, "libother.so")
	build(t, cc, other, "int z;", "-Wl,-soname="+other)
	chmod(t, other, 0o777)
	if _, err := f.find(other); err == nil || !strings.Contains(err.Error(), "can be written by other users") {
		t.Errorf("a library that others can write: %v", err)
	}
	// A link out of the folder is refused with the folder to name.
	link := libraryFolder(t, map[string]string{"libllama.so": "-> " + filepath.Join(dir, "libllama.so"),
		"libaom.so": "-> " + other})
	refused(t, link, "leads out of the folder, to "+filepath.Join(dir, "libllama.so")+"; name "+dir)
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestSupportedVersions(t *testing.T) {
	for version, want := range map[string]bool{"0.5.0": true, "0.5.0-dev": true, "0.5.17": true, "0.6.0-dev": true,
		"0.6.1": true, "0.4.9": false, "0.7.0": false, "0.50.0": false, "1.5.0": false, "": false, "b7310": false, "0": false,
		"0.x": false, "0.-5": false} {
		if supported(version) != want {
			t.Errorf("version %q: %t", version, !want)
		}
	}
}

// TestOddLibraries opens folders with libraries that are not a usable llama.cpp, each in a process of its own.
func TestOddLibraries(t *testing.T) {
	if path := os.Getenv("RUNNER_ODD_LIBRARIES"); path != "" {
		_, err := OpenFolder(path)
		var e *FolderError
		if !errors.As(err, &e) {
			t.Fatalf("no FolderError: %v", err)
		}
		if _, again := OpenFolder(path); !errors.Is(again, err) {
			t.Errorf("the second time: %v", again)
		}
		if _, other := OpenFolder(libraryFolder(t, map[string]string{"libllama.so": "x"})); other == nil ||
			!strings.Contains(other.Error(), "this process has the engine of") {
			t.Errorf("another folder: %v", other)
		}
		os.Stdout.WriteString("says " + err.Error() + "\n")
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("the libraries of this test are Linux's")
	}
	cc := testenv.Compiler(t, "CC")
	dir := libraryFolder(t, map[string]string{"libllama.so": "x"})
	run := func(want string) {
		t.Helper()
		c := exec.Command(os.Args[0], "-test.run=^TestOddLibraries$")
		c.Dir = t.TempDir()
		// A library with the name of a required one, in the working directory.
		build(t, cc, filepath.Join(c.Dir, "libggml.so"), `#include <stdio.h>
			__attribute__((constructor)) static void f(void) { puts("PLANTED"); }`)
		c.Env = append(os.Environ(), "RUNNER_ODD_LIBRARIES="+dir)
		out, err := c.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "PLANTED") {
			t.Errorf("want %q: %v\n%s", want, err, out)
		}
	}
	llama := filepath.Join(dir, "libllama.so")
	run("is not a shared library")
	build(t, cc, llama, "int x;")
	run("is older than llama.cpp 0.5")
	build(t, cc, llama, `const char * llama_version(void) { return "0.9.1"; }`)
	run("is llama.cpp 0.9.1, which this program does not know; name the folder")
	build(t, cc, llama, `const char * llama_version(void) { return "0.5.0"; }`)
	run("says it is llama.cpp 0.5.0, but it has no function")
	build(t, cc, filepath.Join(dir, "libggml.so"), "int y;")
	build(t, cc, llama, `const char * llama_version(void) { return "0.9.1"; }`, "-Wl,--no-as-needed,-rpath,:$ORIGIN",
		"-L", dir, "-lggml")
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

// build compiles a shared library.
func build(t *testing.T, cc []string, path, source string, flags ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.c")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	args := append(append(append([]string{}, cc[1:]...), "-shared", "-fPIC", "-o", path,
		"-Wl,-soname,"+filepath.Base(path), file), flags...)
	if out, err := exec.Command(cc[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
