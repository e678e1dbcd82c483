package machine

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// readStolen returns the seconds that the host took, the mean of all processors. It is the eighth number of the line
// "cpu" of /proc/stat, in hundredths. The lines after it are those of the processors.
func readStolen(text string) float64 {
	sum, processors := 0.0, 0
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) < 9 || !strings.HasPrefix(f[0], "cpu"):
		case f[0] == "cpu":
			sum, _ = strconv.ParseFloat(f[8], 64)
		default:
			processors++
		}
	}
	return sum / 100 / float64(max(processors, 1))
}

// readPressure returns the seconds of the line "some" of /proc/pressure/cpu.
func readPressure(text string) float64 {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, "some ")
		if !ok {
			continue
		}
		for _, f := range strings.Fields(rest) {
			if value, ok := strings.CutPrefix(f, "total="); ok {
				us, _ := strconv.ParseFloat(value, 64)
				return us / 1e6
			}
		}
	}
	return 0
}

// linuxState reads the state from the files of a Linux system under root. The frequency is left out unless all is
// wanted, because some kernels take 10 ms for each processor.
func linuxState(root string, all bool) State {
	var s State
	var list []float64
	if all {
		list = numbers(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq")
	}
	if len(list) > 0 {
		sum := 0.0
		for _, khz := range list {
			sum += 1000 * khz
		}
		s.Frequency = sum / float64(len(list))
	}
	for _, milli := range numbers(root, "sys/class/thermal/thermal_zone*/temp") {
		s.Temperature = max(s.Temperature, milli/1000)
	}
	for _, path := range glob(root, "sys/class/hwmon/hwmon*") {
		switch strings.TrimSpace(text(path, "name")) {
		case "coretemp", "k10temp", "zenpower": // the processors' own sensors
			for _, milli := range numbers(path, "temp*_input") {
				s.Temperature = max(s.Temperature, milli/1000)
			}
		}
	}
	for _, n := range numbers(root, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count") {
		s.Throttled += int64(n)
	}
	// Each processor has the count of its package.
	if list := numbers(root, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/package_throttle_count"); len(list) > 0 {
		s.Throttled += int64(slices.Max(list))
	}
	if f := strings.Fields(text(root, "proc/loadavg")); len(f) > 0 {
		s.Load, _ = strconv.ParseFloat(f[0], 64)
	}
	s.Waiting = readPressure(text(root, "proc/pressure/cpu"))
	s.Stolen = readStolen(text(root, "proc/stat"))
	for _, path := range glob(root, "sys/class/power_supply/*/status") {
		if b, err := os.ReadFile(path); err == nil {
			s.Power = "mains"
			if strings.TrimSpace(string(b)) == "Discharging" {
				s.Power = "battery"
				break
			}
		}
	}
	return s
}

// text returns the content of a file, or "".
func text(root, path string) string {
	b, _ := os.ReadFile(filepath.Join(root, path))
	return string(b)
}

func glob(root, pattern string) []string {
	list, _ := filepath.Glob(filepath.Join(root, pattern)) // the pattern is well formed
	return list
}

// numbers returns the numbers in the files that match a pattern. Files without one are left out.
func numbers(root, pattern string) []float64 {
	var list []float64
	for _, path := range glob(root, pattern) {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if x, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64); err == nil {
			list = append(list, x)
		}
	}
	return list
}

// peak returns the largest memory, in bytes, that a process of a Linux system has had in use, or 0.
func peak(root string, process string) int64 {
	most := field(text(root, "proc/"+process+"/status"), "VmHWM", ":")
	kb, _ := strconv.ParseInt(strings.TrimSuffix(most, " kB"), 10, 64)
	return kb << 10
}
