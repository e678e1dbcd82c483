package llamacpp

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// cores counts the performance cores where there are two kinds: the slow ones would hold back every step.
func cores() int {
	for _, name := range []string{"hw.perflevel0.physicalcpu", "hw.physicalcpu"} {
		if n, err := unix.SysctlUint32(name); err == nil && n > 0 {
			return int(n)
		}
	}
	return runtime.NumCPU()
}

// memory returns the machine's memory. macOS compresses and purges before it swaps and has no cheap figure for what is
// left, so four fifths of all count as available.
func memory() (total, available int64) {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, 0
	}
	return int64(n), int64(n / 5 * 4)
}

// anonymousMemory is nothing here: what is available does not depend on what is in use.
func anonymousMemory() int64 { return 0 }

// addresses returns the limit of the process's address space and what is left of it; 0 is no limit.
func addresses() (limit, left int64) { return 0, 0 }
