package machine

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// readStolen returns the seconds that the host took, the eighth number of the line "cpu" of /proc/stat. They are counted
// in hundredths.
func readStolen(text string) float64 {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 8 && f[0] == "cpu" {
			n, _ := strconv.ParseFloat(f[8], 64)
			return n / 100
		}
	}
	return 0
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

// linuxState reads the state from the files of a Linux system under root.
func linuxState(root string) State {
	var s State
	if list := numbers(root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_cur_freq"); len(list) > 0 {
		sum := 0.0
		for _, khz := range list {
			sum += 1000 * khz
		}
		s.Frequency = sum / float64(len(list))
	}
	for _, milli := range numbers(root, "sys/class/thermal/thermal_zone*/temp") {
		s.Temperature = max(s.Temperature, milli/1000)
	}
	for _, n := range numbers(root, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count") {
		s.Throttled += int64(n)
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
