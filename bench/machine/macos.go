package machine

import (
	"strconv"
	"strings"
	"time"
)

// readSpeedLimit returns the speed limit, in percent, from the output of `pmset -g therm`. It is 100 where none was
// recorded, and 0 if the text says nothing.
func readSpeedLimit(text string) int {
	if value := field(text, "CPU_Speed_Limit", "="); value != "" {
		n, _ := strconv.Atoi(value)
		return n
	}
	if strings.Contains(text, "No CPU power status has been recorded") ||
		strings.Contains(text, "No performance warning level has been recorded") {
		return 100
	}
	return 0
}

// readPower returns what supplies the machine from the output of `pmset -g batt`.
func readPower(text string) string {
	_, rest, ok := strings.Cut(text, "drawing from '")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "'")
	switch name {
	case "AC Power":
		return "mains"
	case "Battery Power":
		return "battery"
	}
	return strings.ToLower(name)
}

// readGPUCores returns the number of cores of the GPU from the output of `ioreg -l -r -c AGXAccelerator -d 1`.
func readGPUCores(text string) int {
	n, _ := strconv.Atoi(field(text, `"gpu-core-count"`, "="))
	return n
}

// readPowermetrics returns the mean frequency of the processors' clusters from the output of
// `powermetrics -n 1 -s cpu_power`, which an administrator may run.
func readPowermetrics(text string) (hertz float64) {
	sum, n := 0.0, 0
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !strings.HasSuffix(strings.TrimSpace(name), "Cluster HW active frequency") {
			continue
		}
		mhz, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " MHz"), 64)
		if err == nil && mhz > 0 {
			sum, n = sum+1e6*mhz, n+1
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}

// readTime returns the time in the output of `ps -o time=`: days, hours, minutes and seconds, as in "1-02:03:04" or
// "0:00.25". It is 0 if the text says nothing.
func readTime(text string) time.Duration {
	days, rest, ok := strings.Cut(strings.TrimSpace(text), "-")
	if !ok {
		days, rest = "0", days
	}
	n, err := strconv.Atoi(days)
	if err != nil {
		return 0
	}
	seconds := float64(n * 24)
	parts := strings.Split(rest, ":")
	for len(parts) < 3 {
		parts = append([]string{"0"}, parts...)
	}
	for i, part := range parts {
		x, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0
		}
		if i > 0 {
			seconds *= 60
		}
		seconds += x
	}
	return time.Duration(seconds * float64(time.Second))
}
