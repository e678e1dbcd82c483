package llamacpp

// #include <stdlib.h>
// #include "libraries.h"
import "C"

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"unsafe"
)

// Library is a GPU library that was built for this version of the engine.
type Library struct {
	Path string
	// Err says why it was not loaded. A loaded library may still find no device.
	Err error
}

// baseLibrary is the library that the others in its folder depend on.
const baseLibrary = "libggml-base.so.0"

// loadLibraries loads the libraries of the first folder that exists.
func loadLibraries(folders []string) []Library {
	for _, dir := range folders {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		var list []Library
		for _, e := range entries {
			if name := e.Name(); strings.HasPrefix(name, "libggml-") && strings.HasSuffix(name, ".so") &&
				!strings.HasPrefix(baseLibrary, name) {
				path := filepath.Join(dir, name)
				list = append(list, Library{path, loadLibrary(filepath.Join(dir, baseLibrary), path)})
			}
		}
		return list
	}
	return nil
}

func loadLibrary(base, path string) error {
	b, p := C.CString(base), C.CString(path)
	defer C.free(unsafe.Pointer(b))
	defer C.free(unsafe.Pointer(p))
	var why [512]C.char
	if C.runner_load_library(b, p, &why[0], C.size_t(len(why))) == nil {
		return errors.New(C.GoString(&why[0]))
	}
	return nil
}
