//go:build unix

package server

import (
	"math"
	"os"
	"syscall"
)

// descriptors returns how many files the process may have open, 0 for no limit, and about how many it has open now.
func descriptors() (limit, open int) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || r.Cur > math.MaxInt32 {
		return 0, 0
	}
	open = 16 // if it cannot be found out
	if list, err := os.ReadDir("/dev/fd"); err == nil {
		open = len(list)
	}
	return int(r.Cur), open
}
