package machine

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func gpuCores() int { return 0 }

const countsWaiting = true

func (s *State) read(all bool) { *s = linuxState("/", all) }

// Peak returns the largest memory, in bytes, that a process has had in use, mapped files included. 0 is this process.
// The result is 0 if the system does not tell.
func Peak(process int) int64 {
	if process == 0 {
		return peak("/", "self")
	}
	return peak("/", strconv.Itoa(process))
}

// Used returns how long all threads of a process have used processors. 0 is this process. The result is 0 if the system
// does not tell.
func Used(process int) time.Duration {
	clock := int32(unix.CLOCK_PROCESS_CPUTIME_ID)
	if process != 0 {
		clock = ^int32(process)<<3 | 2 // as clock_getcpuclockid does
	}
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
