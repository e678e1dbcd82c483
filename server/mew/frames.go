package mew

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Limits of the frames of a connection. A message may have many frames, and pings are frames too; neither counts
// against the rate of messages. A client that sends more frames is read no faster than this, and its connection ends if
// it goes on for mostSlow.
const (
	frameRate  = 1000 // a second
	frameBurst = 10_000
	mostSlow   = 10 * time.Second
)

// errFrames ends the connection of a client that goes on sending too many frames.
var errFrames = errors.New("too many frames")

// hijacker lets the library read through frames.
type hijacker struct{ http.ResponseWriter }

// Hijack implements [http.Hijacker].
func (h hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	begun, _ := rw.Peek(rw.Reader.Buffered()) // what is buffered can be had
	f := &frames{Conn: conn, from: io.MultiReader(bytes.NewReader(bytes.Clone(begun)), conn), level: frameBurst,
		at: time.Now(), sleep: time.Sleep, now: time.Now}
	rw.Reader.Reset(f)
	return f, rw, nil
}

// frames is a connection whose frames are counted as they are read.
type frames struct {
	net.Conn
	from io.Reader
	now  func() time.Time
	// sleep is time.Sleep, except in tests.
	sleep func(time.Duration)

	// head is the beginning of a frame's header, and skip how much is left of the payload of the last frame.
	head []byte
	skip uint64
	// level is how many frames may come at time at. slow is when the client first had to wait without a break.
	level float64
	at    time.Time
	slow  time.Time
}

// Read implements [net.Conn].
func (f *frames) Read(p []byte) (int, error) {
	n, err := f.from.Read(p)
	f.level -= float64(f.count(p[:n]))
	now := f.now()
	f.level = min(frameBurst, f.level+frameRate*now.Sub(f.at).Seconds())
	f.at = now
	switch {
	case f.level >= 0:
		f.slow = time.Time{}
	case f.slow.IsZero():
		f.slow = now
	case now.Sub(f.slow) > mostSlow:
		return 0, errFrames
	}
	if f.level < 0 {
		f.sleep(time.Duration(-f.level / frameRate * float64(time.Second)))
	}
	return n, err
}

// count returns how many headers of frames end in p.
func (f *frames) count(p []byte) (n int) {
	for len(p) > 0 {
		if f.skip > 0 {
			part := min(f.skip, uint64(len(p)))
			f.skip -= part
			p = p[part:]
			continue
		}
		f.head = append(f.head, p[0])
		p = p[1:]
		if length, whole := header(f.head); whole {
			n++
			f.skip, f.head = length, f.head[:0]
		}
	}
	return n
}

// header returns the length of a frame's payload once its header is whole (RFC 6455, 5.2).
func header(h []byte) (length uint64, whole bool) {
	if len(h) < 2 {
		return 0, false
	}
	size := 2
	switch length = uint64(h[1] & 0x7f); length {
	case 126:
		size += 2
	case 127:
		size += 8
	}
	mask := 0
	if h[1]&0x80 != 0 {
		mask = 4
	}
	if len(h) < size+mask {
		return 0, false
	}
	switch size {
	case 4:
		length = uint64(binary.BigEndian.Uint16(h[2:]))
	case 10:
		length = binary.BigEndian.Uint64(h[2:])
	}
	return length, true
}
