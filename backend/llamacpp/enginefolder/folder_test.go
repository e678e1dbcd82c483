package enginefolder

import (
	"errors"
	"os"
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
	var e *Error
	err := Check(path)
	if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", path, err, want)
	}
}

func TestFolderChecks(t *testing.T) {
	good := map[string]string{"libllama.so": "-> libllama.so.0", "libllama.so.0": "-> libllama.so.0.5.0",
		"libllama.so.0.5.0": "x", "libllama-common.so": "x", "README": "x"}
	dir := libraryFolder(t, good)
	if err := Check(dir); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := Check(link); err != nil {
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
		if err := Check(libraryFolder(t, map[string]string{name: "x"})); err != nil {
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
		if err := Check(dir); err != nil {
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
		f, err := Read(dir)
		if err != nil || f.Path != libraries {
			t.Errorf("%s: %+v, %v", in, f, err)
		}
		for _, open := range []string{libraries, dir} {
			chmod(t, open, 0o777)
			refused(t, dir, "can be written by other users")
			chmod(t, open, 0o755)
		}
	}
}

// TestHomebrewFolders: libllama requires libggml by its whole path, and ggml's devices are in libexec.
func TestHomebrewFolders(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the libraries of this test are Linux's")
	}
	dir := libraryFolder(t, map[string]string{"libllama-common.so": "x"})
	cellar := filepath.Dir(dir)
	lib, libexec := filepath.Join(cellar, "ggml", "lib"), filepath.Join(cellar, "ggml", "libexec")
	for _, d := range []string{lib, libexec} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ggml := filepath.Join(lib, "libggml.so.0")
	testenv.SharedLibrary(t, ggml, "int y;", "-Wl,-soname="+ggml)
	devices := []string{"libggml-metal.so", "libggml-cpu-apple_m1.so"}
	for _, name := range append(devices, "libother.so") {
		testenv.SharedLibrary(t, filepath.Join(libexec, name), "int z;")
	}
	llama := `const char * llama_version(void) { return "0.9.1"; }`
	testenv.SharedLibrary(t, filepath.Join(dir, "libllama.so"), llama, "-Wl,--no-as-needed", ggml)
	f, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range devices {
		if f.Files[name] != filepath.Join(libexec, name) {
			t.Errorf("%s is %q", name, f.Files[name])
		}
	}
	if name, err := f.Find(ggml); name != "libggml.so.0" || err != nil {
		t.Errorf("libggml is %q, %v", name, err)
	}
	if len(f.Files) != 5 {
		t.Errorf("the engine has the files %v", f.Files)
	}
	for _, path := range []string{lib, libexec, filepath.Join(libexec, devices[0])} {
		chmod(t, path, 0o775)
		refused(t, dir, path+": can be written by other users")
		chmod(t, path, 0o755)
	}
	// A whole path elsewhere is no way around the checks, either.
	other := filepath.Join(libexec, "libother.so")
	testenv.SharedLibrary(t, other, "int z;", "-Wl,-soname="+other)
	chmod(t, other, 0o777)
	if _, err := f.Find(other); err == nil || !strings.Contains(err.Error(), "can be written by other users") {
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
		if Supported(version) != want {
			t.Errorf("version %q: %t", version, !want)
		}
	}
}
