package roofline

import "golang.org/x/sys/unix"

// Processor returns the name of the processor, or "" if the system does not say.
func Processor() string {
	name, _ := unix.Sysctl("machdep.cpu.brand_string")
	return name
}
