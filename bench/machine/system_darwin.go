package machine

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

func gpuCores() int {
	return readGPUCores(output("ioreg", "-l", "-r", "-c", "AGXAccelerator", "-d", "1"))
}

// Waiting is not read.
const countsWaiting = false

// read reads the state. The frequency takes a fifth of a second, and is left out unless all is wanted.
func (s *State) read(all bool) {
	s.Limit = readSpeedLimit(output("pmset", "-g", "therm"))
	s.Power = readPower(output("pmset", "-g", "batt"))
	if all && os.Geteuid() == 0 {
		s.Frequency = readPowermetrics(output("powermetrics", "-n", "1", "-i", "200", "-s", "cpu_power"))
	}
	// struct loadavg has three fixed-point numbers and, after padding, their scale.
	if b, err := unix.SysctlRaw("vm.loadavg"); err == nil && len(b) >= 24 {
		if scale := binary.LittleEndian.Uint64(b[16:]); scale > 0 {
			s.Load = float64(binary.LittleEndian.Uint32(b)) / float64(scale)
		}
	}
}

// Peak returns the largest memory, in bytes, that this process has had in use, mapped files included. Of another
// process it returns what that has in use now. The result is 0 if the system does not tell.
func Peak(process int) int64 {
	if process != 0 {
		kb, _ := strconv.ParseInt(strings.TrimSpace(output("ps", "-o", "rss=", "-p", strconv.Itoa(process))), 10, 64)
		return kb << 10
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Maxrss
}

// Used returns how long all threads of a process have used processors. 0 is this process. The result is 0 if the system
// does not tell.
func Used(process int) time.Duration {
	if process != 0 {
		return readTime(output("ps", "-o", "time=", "-p", strconv.Itoa(process)))
	}
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// output returns what a program of the system prints, or "".
func output(name string, arguments ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	b, _ := exec.CommandContext(ctx, name, arguments...).Output()
	return string(b)
}
