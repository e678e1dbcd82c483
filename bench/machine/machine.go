// Package machine reads what a benchmark should say of the machine that it ran on: its processor, and the state that
// changes speed while it runs, such as clock frequency, temperature and other work.
//
// A value that the system does not tell is 0. Only the mean clock of macOS needs the rights of an administrator, and is
// left out without them.
package machine

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"runner/models/roofline"
)

// Facts describe a machine.
type Facts struct {
	// Processor is its name; on Apple silicon that is the name of the chip.
	Processor string `json:"cpu"`
	// Cores is how many logical processors the program may use.
	Cores int `json:"cores"`
	// GPUCores is the number of cores of an Apple GPU.
	GPUCores int    `json:"gpu_cores,omitempty"`
	System   string `json:"system"`
}

// Read describes this machine.
func Read() Facts {
	f := Facts{Processor: roofline.Processor(), Cores: runtime.GOMAXPROCS(0), System: runtime.GOOS + "/" + runtime.GOARCH}
	f.GPUCores = gpuCores()
	return f
}

// State is the part of a machine's state that changes its speed.
type State struct {
	// Clock is the clock frequency of the processors, in hertz, as it was measured.
	Clock float64 `json:"clock_hz,omitempty"`
	// Frequency is the mean clock frequency of all processors, in hertz, as the system tells it. Idle ones lower it.
	Frequency float64 `json:"frequency_hz,omitempty"`
	// Temperature is the highest temperature that a sensor shows, in degrees Celsius.
	Temperature float64 `json:"temperature_c,omitempty"`
	// Throttled counts how often processors were slowed down because they were hot.
	Throttled int64 `json:"throttled,omitempty"`
	// Limit is the share of its speed, in percent, that the system allows the processor now. Only macOS tells it.
	Limit int `json:"speed_limit,omitempty"`
	// Load is the number of threads that ran or waited for a processor, over the last minute.
	Load float64 `json:"load,omitempty"`
	// Waiting is how long, in seconds since the machine started, threads have waited for a processor.
	Waiting float64 `json:"waiting_s,omitempty"`
	// Stolen is how long, in seconds since the machine started, the host of a virtual machine ran others while this one
	// had work to do: the mean of the processors.
	Stolen float64 `json:"stolen_s,omitempty"`
	// Power names what supplies the machine, as in "battery". It is empty if it is not known.
	Power string `json:"power,omitempty"`
	// Changed says what changed since an earlier state and makes a measurement between them doubtful.
	Changed []string `json:"changed,omitempty"`
}

// Now reads the state of this machine. It takes at least 30 ms, in which a processor that was idle raises its clock.
func Now() State {
	var s State
	s.read(true)
	s.Clock = measureClock(runtime.GOMAXPROCS(0), fromIdle)
	return s
}

// BeforeWork reads the state of this machine without its clock.
func BeforeWork() State {
	var s State
	s.read(false)
	return s
}

// AfterWork reads the state of this machine, with the clock of processors that just worked. Measuring that takes about
// 1 ms. It comes last where the system counts how long threads wait, because its own threads may wait.
func AfterWork() State {
	var s State
	if countsWaiting {
		s.read(false)
	}
	clock := measureClock(runtime.GOMAXPROCS(0), atWork)
	if !countsWaiting {
		s.read(false)
	}
	s.Clock = clock
	return s
}

// Changes says in words what changed between two states in a way that makes a measurement doubtful. seconds is the
// time between them.
func Changes(before, after State, seconds float64) []string {
	var list []string
	if b, a := before.Clock, after.Clock; differ(b, a) {
		list = append(list, fmt.Sprintf("the clock went from %.2f to %.2f GHz", b/1e9, a/1e9))
	}
	return append(list, disturbances(before, after, seconds)...)
}

// ChangesOfRun is Changes for one of several runs of the same work. The clock is compared with the highest at the end
// of one, because a processor that waited for its work has another.
func ChangesOfRun(before, after State, seconds, highest float64) []string {
	var list []string
	if differ(highest, after.Clock) {
		list = append(list, fmt.Sprintf("the clock was %.2f GHz instead of %.2f", after.Clock/1e9, highest/1e9))
	}
	return append(list, disturbances(before, after, seconds)...)
}

// differ reports whether two clock frequencies differ by more than a tenth.
func differ(usual, now float64) bool {
	return usual > 0 && now > 0 && (now < 0.9*usual || now > 1.1*usual)
}

// leastLost is how much time, in seconds, other work must take to be named. A system lets threads run for some
// milliseconds at a time, so a short run may meet one of them on a machine that is idle otherwise.
const leastLost = 0.02

// disturbances says what but the clock changed.
func disturbances(before, after State, seconds float64) []string {
	var list []string
	if n := after.Throttled - before.Throttled; n > 0 {
		list = append(list, fmt.Sprintf("the processor was slowed down %d times because it was hot", n))
	}
	if b, a := before.Limit, after.Limit; a > 0 && b > 0 && min(a, b) < 100 {
		list = append(list, fmt.Sprintf("the system allowed %d%% of the speed before, and %d%% after", b, a))
	}
	if w := after.Waiting - before.Waiting; seconds > 0 && w > max(0.1*seconds, leastLost) {
		list = append(list, fmt.Sprintf("threads waited for a processor %.0f%% of the time", 100*min(w/seconds, 1)))
	}
	if w := after.Stolen - before.Stolen; seconds > 0 && w > max(0.1*seconds, leastLost) {
		list = append(list, fmt.Sprintf("the host ran other machines %.0f%% of the time", 100*min(w/seconds, 1)))
	}
	if before.Power != after.Power && before.Power != "" && after.Power != "" {
		list = append(list, fmt.Sprintf("the power came from %s before, and from %s after", before.Power, after.Power))
	}
	return list
}

// A process is idle if it uses less than a tenth of a processor over this time. On a busy machine a thread that looks
// for work may not run at all for some milliseconds.
const look = 50 * time.Millisecond

// Settle waits until processes are idle, at most for limit. It reports whether they are. 0 is this process. A process
// whose time the system does not tell counts as idle.
func Settle(ctx context.Context, processes []int, limit time.Duration) bool {
	return settle(ctx, processes, limit, Used)
}

// settle is Settle with a function that returns how long a process has used processors.
func settle(ctx context.Context, processes []int, limit time.Duration, used func(process int) time.Duration) bool {
	all := func() (sum time.Duration) {
		for _, p := range processes {
			sum += used(p)
		}
		return sum
	}
	end, last, sum := time.Now().Add(limit), time.Now(), all()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(look):
		}
		now, more := time.Now(), all()
		if more-sum < now.Sub(last)/10 {
			return true
		}
		if !now.Before(end) {
			return false
		}
		last, sum = now, more
	}
}

// field returns what follows a name and a separator at the start of a line of text, or "".
func field(text, name, separator string) string {
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, separator); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
