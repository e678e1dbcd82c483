package web

import "syscall"

// gather makes a connection wake nobody before much has come, or lets it wake readers again. Reads that do not wait are
// not affected. The system limits the size to what the connection can hold.
func (r *rawReader) gather(on bool) {
	if r.gathers == on {
		return
	}
	r.gathers = on
	size := 1
	if on {
		size = 64 << 10
	}
	// Without it each token wakes a thread in vain, which is not wrong.
	_ = r.conn.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, size)
	})
}
