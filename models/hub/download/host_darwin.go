package download

import (
	"net"

	"golang.org/x/sys/unix"
)

// host names this machine and the run of its kernel, "" if they are not known.
func host() (machine, boot string) {
	if builtin, err := net.InterfaceByName("en0"); err == nil {
		machine = builtin.HardwareAddr.String()
	}
	boot, _ = unix.Sysctl("kern.bootsessionuuid")
	return machine, boot
}
