//go:build linux || darwin

package cache

import (
	"math"

	"golang.org/x/sys/unix"
)

func free(dir string) (int64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	blocks, size := s.Bavail, uint64(s.Bsize)
	if size == 0 || blocks > math.MaxInt64/size {
		return math.MaxInt64, true
	}
	return int64(blocks * size), true
}
