package server

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"time"
)

// withoutTLS answers a request that came without TLS to a port that wants it. first is what was read of it.
func (c *connection) withoutTLS(first []byte) {
	_ = c.SetDeadline(time.Now().Add(refusalTimeout))
	all := io.LimitReader(io.MultiReader(bytes.NewReader(first), c.Conn), maxHeader)
	r, err := http.ReadRequest(bufio.NewReader(all))
	if err != nil {
		return
	}
	r.RemoteAddr = c.RemoteAddr().String()
	w := &kept{header: http.Header{}, status: http.StatusOK}
	c.in.plain.ServeHTTP(w, r)
	answer := http.Response{StatusCode: w.status, ProtoMajor: 1, ProtoMinor: 1, Header: w.header, Close: true, Request: r,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len())}
	if answer.Write(c.Conn) == nil {
		finish(c.Conn)
	}
}

// finish closes the writing side and reads what the client still sends, until the deadline. Closing a connection with
// unread data would lose what was written.
func finish(c net.Conn) {
	if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}

// kept is an answer that is kept in memory. Errors are short.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *kept) Header() http.Header { return w.header }

func (w *kept) WriteHeader(status int) { w.status = status }

func (w *kept) Write(b []byte) (int, error) { return w.body.Write(b) }
