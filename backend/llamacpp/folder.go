package llamacpp

// #include <stdlib.h>
// #include "libraries.h"
import "C"

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"runner/backend/llamacpp/enginefolder"
	"runner/backend/llamacpp/plan"
)

// OpenFolder opens the llama.cpp in a folder of shared libraries, such as an official release: libllama, libggml and
// the libraries of devices. They may also be in lib, bin or build/bin in it. A process can open one folder. It stays
// open until the process ends.
//
// Every library comes from the folder, except those of the system and those that a library requires by their whole
// path, as Homebrew's do. If libggml is such a one, the libraries of devices come from libexec next to its folder,
// where Homebrew has them. Only root and the user of this process, and administrators on macOS, may be able to write to
// the folders and libraries. Code of the libraries runs when they are opened, so open only what can be trusted. The
// error is an *enginefolder.Error.
func OpenFolder(path string) (*Engine, error) {
	f, err := enginefolder.Read(path)
	if err != nil {
		return nil, err
	}
	opened.mu.Lock()
	defer opened.mu.Unlock()
	switch {
	case opened.path == "":
		opened.path = f.Path // even if it fails: what was opened stays
		opened.engine, opened.err = (&opening{f, map[string]bool{}}).engine()
	case opened.path != f.Path:
		return nil, &enginefolder.Error{Path: path, Detail: "this process has the engine of " + opened.path,
			Advice: "use another process for another folder"}
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

// opening opens the libraries of a folder.
type opening struct {
	*enginefolder.Folder
	// open are the names of libraries that were opened, or that are being opened.
	open map[string]bool
}

// engine opens the libraries, in an order in which no search path matters: before a library is opened, all that it
// requires is open.
func (f *opening) engine() (*Engine, error) {
	llama, err := f.load(f.Llama)
	if err != nil {
		return nil, err
	}
	bad := func(detail string) error {
		return &enginefolder.Error{Path: f.Files[f.Llama], Detail: detail, Advice: enginefolder.Advice}
	}
	text := C.engine_version(llama)
	if text == nil {
		return nil, bad("is older than llama.cpp 0.5")
	}
	version := C.GoString(text)
	if !enginefolder.Supported(version) {
		return nil, bad(fmt.Sprintf("is llama.cpp %s, which this program does not know", version))
	}
	e := &Engine{}
	var failure C.struct_shim_error
	if e.c = C.engine_open(llama, &failure); e.c == nil {
		return nil, bad("says it is llama.cpp " + version + ", but " + C.GoString(&failure.text[0]))
	}
	if !C.shim_known(e.c) {
		return nil, bad("says it is llama.cpp " + version + ", but its parameters are not that version's")
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
		return nil, &enginefolder.Error{Path: f.Path, Detail: detail, Advice: enginefolder.Advice}
	}
	e.facts = plan.InFolder(f.Path, version, listArchitectures(llama))
	if len(e.facts.Generative) == 0 {
		e.facts.Unlisted()
	}
	return e, nil
}

// load opens a library of the folder after all that it requires.
func (f *opening) load(name string) (unsafe.Pointer, error) {
	path := f.Files[name]
	f.open[filepath.Base(path)] = true
	required, err := enginefolder.Requirements(path)
	if err != nil {
		return nil, &enginefolder.Error{Path: path, Detail: err.Error()}
	}
	for _, r := range required {
		own, err := f.Find(r)
		if err != nil {
			return nil, err
		}
		if own != "" {
			if !f.open[filepath.Base(f.Files[own])] {
				if _, err := f.load(own); err != nil {
					return nil, err
				}
			}
			continue
		}
		// The system's libraries are opened by name here. A library's own search path could include the working
		// directory.
		if _, err := open(r); err != nil {
			return nil, &enginefolder.Error{Path: path,
				Detail: "requires " + r + ", which is neither in the folder nor among the system's libraries",
				Advice: "install it or copy it into the folder"}
		}
	}
	handle, err := open(path)
	if err != nil {
		return nil, &enginefolder.Error{Path: path, Detail: err.Error()}
	}
	return handle, nil
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

// loadDevices loads the libraries of devices: of those for the CPU the best, and all others. It returns the name of the
// one for the CPU.
func (f *opening) loadDevices(e *C.struct_shim_engine) (list []Library, cpu string) {
	best, most := "", C.int(0)
	for _, name := range slices.Sorted(maps.Keys(f.Files)) {
		device := enginefolder.Device(name)
		switch {
		case device == "", f.open[filepath.Base(f.Files[name])]:
		case device == "rpc": // computes on other machines, without any protection
		case device == "cpu" || strings.HasPrefix(device, "cpu-"):
			score, err := f.score(name)
			if err != nil {
				list = append(list, Library{f.Files[name], err})
			}
			if score > most {
				best, most = name, score
			}
		default:
			list = append(list, Library{f.Files[name], f.loadDevice(e, name)})
		}
	}
	if best != "" {
		list = append(list, Library{f.Files[best], f.loadDevice(e, best)})
	}
	return list, best
}

// score returns how well the processor can use a library of the CPU.
func (f *opening) score(name string) (C.int, error) {
	path := C.CString(f.Files[name])
	defer C.free(unsafe.Pointer(path))
	var failure C.struct_shim_error
	score := C.library_score(path, &failure)
	if score < 0 {
		return 0, errors.New(C.GoString(&failure.text[0]))
	}
	return score, nil
}

func (f *opening) loadDevice(e *C.struct_shim_engine, name string) error {
	if _, err := f.load(name); err != nil {
		return err
	}
	path := C.CString(f.Files[name])
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

// listArchitectures asks a libllama for its architectures. Not every one lists them.
func listArchitectures(llama unsafe.Pointer) (list []string) {
	for i := C.int(0); ; i++ {
		name := C.engine_architecture(llama, i)
		if name == nil {
			return list
		}
		list = append(list, C.GoString(name))
	}
}
