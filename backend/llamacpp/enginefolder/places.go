package enginefolder

import (
	"os"
	"path/filepath"
)

// linkedFolder is where libraries may be, too, wherever the program is. The linker sets it (-X) for tests, whose
// programs are in temporary folders.
var linkedFolder string

// Places lists where libraries for the compiled-in engine, and in "engines" folders of engines may be: in lib/runner
// next to the program's folder, as in an installation, or in lib/runner inside it. A process that this program started
// in its own image gets the same list.
func Places() (list []string) {
	if linkedFolder != "" {
		list = append(list, linkedFolder)
	}
	exe, err := os.Executable()
	if err != nil {
		return list
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	dir := filepath.Dir(exe)
	return append(list, filepath.Join(dir, "..", "lib", "runner"), filepath.Join(dir, "lib", "runner"))
}
