package main

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"runner/backend/child"
)

// startingMemory is what a process takes, in addition to what it has, before it plans a model: threads, the engine's
// libraries and the header of a model's file.
const startingMemory = 64 << 20

// limitMemory limits the private memory of this process. Mapped files do not count, so the weights do not unless
// they are read into memory. If the limit leaves no room to start, it is not set and the error is that of
// child.TooMuchMemory: a process without memory could not report it.
func limitMemory(limit int64) error {
	if limit <= 0 {
		return nil
	}
	if has := privateMemory(); limit < has+startingMemory {
		return child.TooMuchMemory(limit,
			fmt.Sprintf("its process takes about %d MiB before it loads a model", (has+startingMemory)>>20))
	}
	l := unix.Rlimit{Cur: uint64(limit), Max: uint64(limit)}
	if err := unix.Setrlimit(unix.RLIMIT_DATA, &l); err != nil {
		return fmt.Errorf("limiting the engine's memory: %w", err)
	}
	return nil
}

// privateMemory returns how much of the memory that RLIMIT_DATA limits this process has, in bytes; 0 if unknown.
func privateMemory() int64 {
	text, _ := os.ReadFile("/proc/self/status") // 0 is a good answer
	var kib int64
	if _, after, ok := bytes.Cut(text, []byte("VmData:")); ok {
		_, _ = fmt.Sscan(string(after), &kib)
	}
	return kib << 10
}
