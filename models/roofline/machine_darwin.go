package roofline

import "golang.org/x/sys/unix"

// processor returns the name of the processor, or "" if the system does not say.
func processor() string {
	name, _ := unix.Sysctl("machdep.cpu.brand_string")
	return name
}
