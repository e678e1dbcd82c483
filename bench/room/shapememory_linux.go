package room

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns a new file that is in memory only, and a path by which other processes of the user can open it,
// too, while this one has it open.
func memoryFile() (f *os.File, path string, err error) {
	fd, err := unix.MemfdCreate("runner-shape", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, "", os.NewSyscallError("memfd_create", err)
	}
	path = fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd)
	return os.NewFile(uintptr(fd), path), path, nil
}
