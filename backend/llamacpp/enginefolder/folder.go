// Package enginefolder finds, checks and describes the folders of engines: shared libraries of a llama.cpp, such as an
// official release has. It opens no library, so it needs no C; package llamacpp opens them.
//
// A folder may be used if only root and the user of this process, and administrators on macOS, can write to it, to its
// libraries and to what is above them: code of the libraries runs when they are opened.
package enginefolder

import (
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Error says why a folder's engine cannot be used.
type Error struct {
	// Path is the folder, or the file in it that is at fault.
	Path string
	// Detail says what is wrong, and Advice what to do.
	Detail, Advice string
}

func (e *Error) Error() string {
	s := e.Path + ": " + e.Detail
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

// SupportedVersions are the versions of llama.cpp whose declarations package llamacpp knows.
const SupportedVersions = "0.5 or 0.6"

// Supported reports whether a version is one of them. Any patch of a version is compatible with it, and so are
// versions in development.
func Supported(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 || parts[0] != "0" {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && minor >= 5 && minor <= 6
}

// Advice says which folder to name.
const Advice = "name the folder of a llama.cpp release with shared libraries, version " + SupportedVersions

// Folder is a folder with libraries. The files were checked.
type Folder struct {
	Path  string            // without symbolic links
	Files map[string]string // name to real path
	Llama string            // name of libllama
}

var (
	libraryName = regexp.MustCompile(`\.(so(\.[0-9.]+)?|dylib)$`)
	// llamaName matches libllama.so.0 and libllama.cuda.v0.5.0.so, and not libllama-common.so.
	llamaName  = regexp.MustCompile(`^libllama(\.[a-z]+)?(\.v?[0-9][0-9.]*)?\.(so(\.[0-9.]+)?|dylib)$`)
	ggmlName   = regexp.MustCompile(`^libggml\.`)
	deviceName = regexp.MustCompile(`^libggml-(.+)\.(so|dylib)$`)
)

// Check reports whether [Read] accepts a folder. The error is an *Error.
func Check(path string) error {
	_, err := Read(path)
	return err
}

// Read finds the libraries in a folder and checks them. They may also be in lib, bin or build/bin in it. The error is
// an *Error.
func Read(path string) (*Folder, error) {
	if !filepath.IsAbs(path) {
		return nil, &Error{path, "is not an absolute path", "name the folder from the root on"}
	}
	f := &Folder{Files: map[string]string{}}
	path, err := place(path)
	if err != nil {
		return nil, err
	}
	if f.Path, err = f.read(path, libraryName); err != nil {
		return nil, err
	}
	llamas := map[string]bool{}
	for name, target := range f.Files {
		if llamaName.MatchString(name) {
			llamas[target] = true
			f.Llama = filepath.Base(target)
		}
	}
	if len(llamas) == 1 {
		return f, f.readOther()
	}
	return nil, &Error{path, fmt.Sprintf("has %d versions of libllama", len(llamas)),
		"keep the libraries of one release in the folder"}
}

// inRelease are the folders in a release or a build of llama.cpp that may have its libraries.
var inRelease = []string{"", "lib", "bin", "build/bin"}

// place returns the folder with libllama: the one at path, or one in it.
func place(path string) (string, error) {
	for _, in := range inRelease {
		dir := filepath.Join(path, in)
		entries, err := os.ReadDir(dir)
		if err != nil && in == "" {
			return "", &Error{path, reasonOf(err), Advice}
		}
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return llamaName.MatchString(e.Name()) }) {
			return dir, nil
		}
	}
	return "", &Error{path, "has no libllama, and neither have lib, bin and build/bin in it", Advice}
}

// read adds the libraries of a folder whose names match. It returns the folder's path without symbolic links.
func (f *Folder) read(path string, names *regexp.Regexp) (string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", &Error{path, reasonOf(err), Advice}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", &Error{path, reasonOf(err), ""}
	}
	if err := checkOwners(real); err != nil {
		return "", err
	}
	for _, e := range entries {
		name := e.Name()
		if !names.MatchString(name) || !libraryName.MatchString(name) {
			continue
		}
		target, err := filepath.EvalSymlinks(filepath.Join(real, name))
		if err != nil {
			return "", &Error{filepath.Join(path, name), reasonOf(err), ""}
		}
		if filepath.Dir(target) != real {
			if !llamaName.MatchString(name) {
				continue // not a part of this folder, as if it were not there
			}
			return "", &Error{filepath.Join(path, name), "leads out of the folder, to " + target,
				"name " + filepath.Dir(target)}
		}
		if err := checkOwner(target, false); err != nil {
			return "", err
		}
		f.Files[name] = target
	}
	return real, nil
}

// readOther adds ggml's libraries if libllama requires libggml by its whole path: those in its folder, and those of
// devices in libexec next to that. This is how Homebrew installs them.
func (f *Folder) readOther() error {
	required, _ := Requirements(f.Files[f.Llama]) // opening it reports an error
	for _, r := range required {
		if !filepath.IsAbs(r) || !ggmlName.MatchString(filepath.Base(r)) {
			continue
		}
		target, err := filepath.EvalSymlinks(r)
		if err != nil || filepath.Dir(target) == f.Path {
			continue
		}
		dir, err := f.read(filepath.Dir(target), regexp.MustCompile(`^libggml`))
		if err != nil {
			return err
		}
		devices := filepath.Join(filepath.Dir(dir), "libexec")
		if _, err := os.Stat(devices); err != nil {
			continue
		}
		if _, err := f.read(devices, deviceName); err != nil {
			return err
		}
	}
	return nil
}

func reasonOf(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// Find returns the name of a required library in the folder, or "" for one that is elsewhere. One with a whole path may
// be anywhere, if nobody else can write to it.
func (f *Folder) Find(required string) (string, error) {
	if !filepath.IsAbs(required) {
		if _, ok := f.Files[required]; ok {
			return required, nil
		}
		return "", nil
	}
	target, _ := filepath.EvalSymlinks(required)
	if target == "" {
		return "", nil // macOS has libraries of the system that are no files
	}
	if name := filepath.Base(target); f.Files[name] == target {
		return name, nil
	}
	return "", checkOwners(target)
}

// Requirements returns the names of the libraries that a library names as required.
func Requirements(path string) ([]string, error) {
	if f, err := elf.Open(path); err == nil {
		defer f.Close()
		return f.ImportedLibraries()
	}
	f, err := macho.Open(path)
	if err != nil {
		return nil, errors.New("is not a shared library")
	}
	defer f.Close()
	list, err := f.ImportedLibraries()
	for i, name := range list {
		if strings.HasPrefix(name, "@") { // a search path of the library
			list[i] = filepath.Base(name)
		}
	}
	return list, err
}

// Device returns the device of which a library has the name: "cuda", or "cpu-haswell". It is "" for other libraries.
func Device(name string) string {
	if m := deviceName.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return ""
}
