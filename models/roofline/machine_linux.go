package roofline

import (
	"bytes"
	"os"
)

// Processor returns the name of the processor, or "" if the system does not say.
func Processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch string(bytes.TrimSpace(name)) {
		case "model name", "CPU part": // the second is what Linux says of a processor of ARM
			return string(bytes.TrimSpace(value))
		}
	}
	return ""
}
