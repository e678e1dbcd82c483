package hub

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

// What people read of a failed connection has no address of a name server, no port and no word of the system's own.
func TestPlainCauses(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for want, err := range map[string]error{
		"no such host": dial(&net.DNSError{Err: "no such host", Name: "hub.invalid", Server: "192.0.2.1:53",
			IsNotFound: true}),
		"the name server does not answer": dial(&net.DNSError{Err: "i/o timeout", Server: "192.0.2.1:53", IsTimeout: true}),
		"the connection is refused":       dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"no way to the network":           dial(os.NewSyscallError("connect", syscall.ENETUNREACH)),
		"the connection was cut":          fmt.Errorf("read: %w", io.ErrUnexpectedEOF),
		"no answer in time":               dial(os.ErrDeadlineExceeded),
		"something else":                  errors.New("something else"),
	} {
		if got := plainCause(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}
