package llamacpp

// #include <stdlib.h>
// #include "libraries.h"
import "C"

import (
	"debug/elf"
	"debug/macho"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// FolderError says why a folder's engine cannot be used.
type FolderError struct {
	// Path is the folder, or the file in it that is at fault.
	Path string
	// Detail says what is wrong, and Advice what to do.
	Detail, Advice string
}

func (e *FolderError) Error() string {
	s := e.Path + ": " + e.Detail
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

// OpenFolder opens the llama.cpp in a folder of shared libraries, such as an official release: libllama, libggml and
// the libraries of devices. They may also be in lib, bin or build/bin in it. A process can open one folder. It stays
// open until the process ends.
//
// Every library comes from the folder, except those of the system and those that a library requires by their whole
// path, as Homebrew's do. If libggml is such a one, the libraries of devices come from libexec next to its folder,
// where Homebrew has them. Only root and the user of this process, and administrators on macOS, may be able to write to
// the folders and libraries. Code of the libraries runs when they are opened, so open only what can be trusted. The
// error is a *FolderError.
func OpenFolder(path string) (*Engine, error) {
	f, err := readFolder(path)
	if err != nil {
		return nil, err
	}
	opened.mu.Lock()
	defer opened.mu.Unlock()
	switch {
	case opened.path == "":
		opened.path = f.path // even if it fails: what was opened stays
		opened.engine, opened.err = f.engine()
	case opened.path != f.path:
		return nil, &FolderError{path, "this process has the engine of " + opened.path,
			"use another process for another folder"}
	}
	return opened.engine, opened.err
}

// opened is the one folder of this process. Libraries of two folders could not be told apart by their names.
var opened struct {
	mu     sync.Mutex
	path   string
	engine *Engine
	err    error
}

// CheckFolder makes the checks of OpenFolder that need no library opened: that the folder has the files and who may
// write to them. The error is a *FolderError.
func CheckFolder(path string) error {
	_, err := readFolder(path)
	return err
}

// folder is a folder with libraries. The files were checked.
type folder struct {
	path  string            // without symbolic links
	files map[string]string // name to real path
	llama string            // name of libllama
	// open are the names of libraries that were opened, or that are being opened.
	open map[string]bool
}

var (
	libraryName = regexp.MustCompile(`\.(so(\.[0-9.]+)?|dylib)$`)
	// llamaName matches libllama.so.0 and libllama.cuda.v0.5.0.so, and not libllama-common.so.
	llamaName  = regexp.MustCompile(`^libllama(\.[a-z]+)?(\.v?[0-9][0-9.]*)?\.(so(\.[0-9.]+)?|dylib)$`)
	ggmlName   = regexp.MustCompile(`^libggml\.`)
	deviceName = regexp.MustCompile(`^libggml-(.+)\.(so|dylib)$`)
)

const engineAdvice = "name the folder of a llama.cpp release with shared libraries, version " + SupportedVersions

func readFolder(path string) (*folder, error) {
	if !filepath.IsAbs(path) {
		return nil, &FolderError{path, "is not an absolute path", "name the folder from the root on"}
	}
	f := &folder{files: map[string]string{}, open: map[string]bool{}}
	path, err := place(path)
	if err != nil {
		return nil, err
	}
	if f.path, err = f.read(path, libraryName); err != nil {
		return nil, err
	}
	llamas := map[string]bool{}
	for name, target := range f.files {
		if llamaName.MatchString(name) {
			llamas[target] = true
			f.llama = filepath.Base(target)
		}
	}
	if len(llamas) == 1 {
		return f, f.readOther()
	}
	return nil, &FolderError{path, fmt.Sprintf("has %d versions of libllama", len(llamas)),
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
			return "", &FolderError{path, reasonOf(err), engineAdvice}
		}
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return llamaName.MatchString(e.Name()) }) {
			return dir, nil
		}
	}
	return "", &FolderError{path, "has no libllama, and neither have lib, bin and build/bin in it", engineAdvice}
}

// read adds the libraries of a folder whose names match. It returns the folder's path without symbolic links.
func (f *folder) read(path string, names *regexp.Regexp) (string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return "", &FolderError{path, reasonOf(err), engineAdvice}
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", &FolderError{path, reasonOf(err), ""}
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
			return "", &FolderError{filepath.Join(path, name), reasonOf(err), ""}
		}
		if filepath.Dir(target) != real {
			if !llamaName.MatchString(name) {
				continue // not a part of this folder, as if it were not there
			}
			return "", &FolderError{filepath.Join(path, name), "leads out of the folder, to " + target,
				"name " + filepath.Dir(target)}
		}
		if err := checkOwner(target, false); err != nil {
			return "", err
		}
		f.files[name] = target
	}
	return real, nil
}

// readOther adds ggml's libraries if libllama requires libggml by its whole path: those in its folder, and those of
// devices in libexec next to that. This is how Homebrew installs them.
func (f *folder) readOther() error {
	required, _ := requirements(f.files[f.llama]) // load reports an error
	for _, r := range required {
		if !filepath.IsAbs(r) || !ggmlName.MatchString(filepath.Base(r)) {
			continue
		}
		target, err := filepath.EvalSymlinks(r)
		if err != nil || filepath.Dir(target) == f.path {
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

// checkOwners checks a folder and all folders above it. Whoever can write to one of those could replace what is
// below it, except in a folder like /tmp, in which only owners may rename.
func checkOwners(path string) error {
	if err := checkOwner(path, false); err != nil {
		return err
	}
	for path != filepath.Dir(path) {
		path = filepath.Dir(path)
		if err := checkOwner(path, true); err != nil {
			return err
		}
	}
	return nil
}

// checkOwner checks that nobody else may write to a file. sticky accepts folders with the sticky bit.
func checkOwner(path string, sticky bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return &FolderError{path, reasonOf(err), ""}
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return &FolderError{path, "has no owner that could be checked", ""}
	}
	o := ownership{info.Mode(), int(stat.Uid), int(stat.Gid)}
	if sticky && o.mode&fs.ModeSticky != 0 {
		o.mode &^= 0o022
	}
	return o.check(path, os.Geteuid(), runtime.GOOS)
}

// ownership says who may write to a file.
type ownership struct {
	mode        fs.FileMode
	user, group int
}

// admin is the group of administrators on macOS. They may become root at any time.
const admin = 80

// check checks that only root and the user called me may write to the file at path, and on macOS administrators.
func (o ownership) check(path string, me int, system string) error {
	if system == "darwin" && o.group == admin {
		o.mode &^= 0o020 // Homebrew lets the group write to its folders
	}
	const copyIt = "copy the engine to a folder of your own"
	switch {
	case o.user != 0 && o.user != me:
		return &FolderError{path, "belongs to another user, who could change the engine", copyIt}
	case o.mode&0o022 != 0:
		advice := copyIt
		if o.user == me && o.mode&fs.ModeSticky == 0 && !ofSystem(path) {
			advice = "take the right away: chmod go-w " + path
		}
		return &FolderError{path, "can be written by other users", advice}
	case !o.mode.IsDir() && !o.mode.IsRegular():
		return &FolderError{path, "is not a file", ""}
	}
	return nil
}

// ofSystem reports whether a folder is one of the system's, whose rights are not a user's to change.
func ofSystem(path string) bool {
	for _, pattern := range []string{"/", "/*", "/usr/*", "/usr/local/*", "/var/*", "/private/*"} {
		if match, _ := filepath.Match(pattern, path); match { // the patterns are right
			return true
		}
	}
	return false
}

// SupportedVersions are the versions of llama.cpp whose declarations this package knows.
const SupportedVersions = "0.5 or 0.6"

// supported reports whether the version is one of them. Any patch of a version is compatible with it, and so are
// versions in development.
func supported(version string) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 || parts[0] != "0" {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && minor >= 5 && minor <= 6
}

// engine opens the libraries, in an order in which no search path matters: before a library is opened, all that it
// requires is open.
func (f *folder) engine() (*Engine, error) {
	llama, err := f.load(f.llama)
	if err != nil {
		return nil, err
	}
	bad := func(detail string) error { return &FolderError{f.files[f.llama], detail, engineAdvice} }
	text := C.engine_version(llama)
	if text == nil {
		return nil, bad("is older than llama.cpp 0.5")
	}
	e := &Engine{version: C.GoString(text), folder: f.path}
	if !supported(e.version) {
		return nil, bad(fmt.Sprintf("is llama.cpp %s, which this program does not know", e.version))
	}
	var failure C.struct_shim_error
	if e.c = C.engine_open(llama, &failure); e.c == nil {
		return nil, bad("says it is llama.cpp " + e.version + ", but " + C.GoString(&failure.text[0]))
	}
	if !C.shim_known(e.c) {
		return nil, bad("says it is llama.cpp " + e.version + ", but its parameters are not that version's")
	}
	if C.shim_registries(e.c) == 0 { // otherwise the devices are linked into libggml
		e.libraries, e.cpu = f.loadDevices(e.c)
	}
	if !C.engine_start(e.c, &failure) {
		detail := "has no library for this processor"
		for _, l := range e.libraries {
			if l.Err != nil {
				detail += fmt.Sprintf("; %s: %v", filepath.Base(l.Path), l.Err)
			}
		}
		return nil, &FolderError{f.path, detail, engineAdvice}
	}
	e.generative, e.others = listArchitectures(llama)
	return e, nil
}

// load opens a library of the folder after all that it requires.
func (f *folder) load(name string) (unsafe.Pointer, error) {
	path := f.files[name]
	f.open[filepath.Base(path)] = true
	required, err := requirements(path)
	if err != nil {
		return nil, &FolderError{path, err.Error(), ""}
	}
	for _, r := range required {
		own, err := f.find(r)
		if err != nil {
			return nil, err
		}
		if own != "" {
			if !f.open[filepath.Base(f.files[own])] {
				if _, err := f.load(own); err != nil {
					return nil, err
				}
			}
			continue
		}
		// The system's libraries are opened by name here. A library's own search path could include the working
		// directory.
		if _, err := open(r); err != nil {
			return nil, &FolderError{path, "requires " + r + ", which is neither in the folder nor among the system's libraries",
				"install it or copy it into the folder"}
		}
	}
	handle, err := open(path)
	if err != nil {
		return nil, &FolderError{path, err.Error(), ""}
	}
	return handle, nil
}

// find returns the name of a required library in the folder, or "" for one that is elsewhere. One with a whole path may
// be anywhere, if nobody else can write to it.
func (f *folder) find(required string) (string, error) {
	if !filepath.IsAbs(required) {
		if _, ok := f.files[required]; ok {
			return required, nil
		}
		return "", nil
	}
	target, _ := filepath.EvalSymlinks(required)
	if target == "" {
		return "", nil // macOS has libraries of the system that are no files
	}
	if name := filepath.Base(target); f.files[name] == target {
		return name, nil
	}
	return "", checkOwners(target)
}

func open(library string) (unsafe.Pointer, error) {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	var failure C.struct_shim_error
	handle := C.library_open(name, &failure)
	if handle == nil {
		return nil, errors.New(C.GoString(&failure.text[0]))
	}
	return handle, nil
}

// requirements returns the names of the libraries that a library names as required.
func requirements(path string) ([]string, error) {
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

// loadDevices loads the libraries of devices: of those for the CPU the best, and all others. It returns the name of the
// one for the CPU.
func (f *folder) loadDevices(e *C.struct_shim_engine) (list []Library, cpu string) {
	best, most := "", C.int(0)
	for _, name := range slices.Sorted(maps.Keys(f.files)) {
		m := deviceName.FindStringSubmatch(name)
		switch {
		case m == nil, f.open[filepath.Base(f.files[name])]:
		case m[1] == "rpc": // computes on other machines, without any protection
		case m[1] == "cpu" || strings.HasPrefix(m[1], "cpu-"):
			score, err := f.score(name)
			if err != nil {
				list = append(list, Library{f.files[name], err})
			}
			if score > most {
				best, most = name, score
			}
		default:
			list = append(list, Library{f.files[name], f.loadDevice(e, name)})
		}
	}
	if best != "" {
		list = append(list, Library{f.files[best], f.loadDevice(e, best)})
	}
	return list, best
}

// score returns how well the processor can use a library of the CPU.
func (f *folder) score(name string) (C.int, error) {
	path := C.CString(f.files[name])
	defer C.free(unsafe.Pointer(path))
	var failure C.struct_shim_error
	score := C.library_score(path, &failure)
	if score < 0 {
		return 0, errors.New(C.GoString(&failure.text[0]))
	}
	return score, nil
}

func (f *folder) loadDevice(e *C.struct_shim_engine, name string) error {
	if _, err := f.load(name); err != nil {
		return err
	}
	path := C.CString(f.files[name])
	defer C.free(unsafe.Pointer(path))
	var failure C.struct_shim_error
	if C.engine_load(e, path, &failure) == nil {
		if failure.text[0] == 0 {
			return errors.New("the engine refused it")
		}
		return errors.New(C.GoString(&failure.text[0]))
	}
	return nil
}

// listArchitectures asks a libllama for its architectures. One that does not list them has at least those of the
// compiled-in engine.
func listArchitectures(llama unsafe.Pointer) (generative, rest map[string]bool) {
	generative, rest = map[string]bool{}, set(notTokenByToken+notTokenByTokenNew)
	for i := C.int(0); ; i++ {
		name := C.engine_architecture(llama, i)
		if name == nil {
			break
		}
		if s := C.GoString(name); s != "unknown" && !rest[s] {
			generative[s] = true
		}
	}
	if len(generative) == 0 {
		maps.Copy(generative, architectures)
		delete(generative, "solar") // only Ollama's llama.cpp has it
	}
	return generative, rest
}
