package machine

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// cores counts only the performance cores where there are two kinds: slow cores would delay every step.
func cores() int {
	for _, name := range []string{"hw.perflevel0.physicalcpu", "hw.physicalcpu"} {
		if n, err := unix.SysctlUint32(name); err == nil && n > 0 {
			return int(n)
		}
	}
	return runtime.NumCPU()
}

// memory returns the machine's memory. macOS compresses and purges before it swaps, and has no cheap measure of
// free memory, so four fifths of the total count as available.
func memory() (total, available int64) {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0, 0
	}
	return int64(n), int64(n / 5 * 4)
}

// addresses returns what is left of the process's address space; 0 means no limit. It is whole if mapped files count.
func addresses() (left int64, whole bool) { return 0, false }
