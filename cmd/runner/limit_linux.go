package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// limitMemory limits the private memory of this process. Mapped files do not count, so the weights do not unless
// they are read into memory.
func limitMemory(bytes int64) error {
	if bytes <= 0 {
		return nil
	}
	l := unix.Rlimit{Cur: uint64(bytes), Max: uint64(bytes)}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &l); err != nil {
		return fmt.Errorf("limiting the engine's memory: %w", err)
	}
	return nil
}
