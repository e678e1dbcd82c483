//go:build unix

package web

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// rawReader reads from a connection without waiting.
type rawReader struct {
	conn syscall.RawConn
	// read is readOnce, made once, because a new function value for each read would take memory.
	read func(fd uintptr) bool
	buf  []byte
	n    int
	err  error
	// gathers says that the connection wakes nobody before much has come.
	gathers bool
}

// newRawReader returns nil if a connection has no file descriptor.
func newRawReader(c net.Conn) *rawReader {
	with, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return nil
	}
	r := &rawReader{conn: raw}
	r.read = r.readOnce
	return r
}

func (r *rawReader) readOnce(fd uintptr) bool {
	for {
		r.n, r.err = syscall.Read(int(fd), r.buf)
		if !errors.Is(r.err, syscall.EINTR) {
			return true
		}
	}
}

// try reads what is there. done is false if nothing is.
func (r *rawReader) try(b []byte) (n int, done bool, err error) {
	r.buf = b
	err = r.conn.Read(r.read)
	r.buf = nil
	switch {
	case err != nil:
		return 0, true, err
	case errors.Is(r.err, syscall.EAGAIN):
		return 0, false, nil
	case r.err != nil:
		return 0, true, &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", r.err)}
	case r.n == 0:
		return 0, true, io.EOF
	}
	return r.n, true, nil
}
