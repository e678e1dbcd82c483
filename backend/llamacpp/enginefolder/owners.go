package enginefolder

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

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
		return &Error{path, reasonOf(err), ""}
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return &Error{path, "has no owner that could be checked", ""}
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
		return &Error{path, "belongs to another user, who could change the engine", copyIt}
	case o.mode&0o022 != 0:
		advice := copyIt
		if o.user == me && o.mode&fs.ModeSticky == 0 && !ofSystem(path) {
			advice = "take the right away: chmod go-w " + path
		}
		return &Error{path, "can be written by other users", advice}
	case !o.mode.IsDir() && !o.mode.IsRegular():
		return &Error{path, "is not a file", ""}
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
