package download

import "os"

// host names this machine and the run of its kernel, "" if they are not known. Containers share a kernel and its locks,
// and have no machine-id of their own: a container's name proves nothing.
func host() (machine, boot string) {
	id, _ := os.ReadFile("/etc/machine-id")
	kernel, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if name, err := os.Hostname(); err == nil && len(id) > 0 {
		machine = name + string(id)
	}
	return machine, string(kernel)
}
