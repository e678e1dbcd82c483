package grammar

import (
	"time"

	"golang.org/x/sys/unix"
)

// clockName names the clock of threadTime.
const clockName = "the thread's processor time"

// threadTime is the processor time of the calling thread. Other work on the machine does not change it. The caller must
// be locked to its thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
