package mew

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

// masked returns a frame as a client sends it.
func masked(opcode byte, payload int) []byte {
	b := []byte{opcode}
	switch {
	case payload < 126:
		b = append(b, 0x80|byte(payload))
	case payload < 1<<16:
		b = append(b, 0x80|126, byte(payload>>8), byte(payload))
	default:
		b = append(b, 0x80|127, 0, 0, 0, 0, byte(payload>>24), byte(payload>>16), byte(payload>>8), byte(payload))
	}
	return append(b, make([]byte, 4+payload)...)
}

// TestFramesAreCounted checks that frames of every length are counted, wherever reads cut them.
func TestFramesAreCounted(t *testing.T) {
	var all []byte
	lengths := []int{0, 1, 125, 126, 127, 65_535, 65_536, 70_000, 0, 0, 3}
	for _, n := range lengths {
		all = append(all, masked(0x81, n)...)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int{1, 2, 7, 4096, 1 << 20} {
		var f frames
		n := 0
		for rest := all; len(rest) > 0; {
			part := min(len(rest), 1+rng.IntN(most))
			n += f.count(rest[:part])
			rest = rest[part:]
		}
		if n != len(lengths) || f.skip != 0 || len(f.head) != 0 {
			t.Errorf("in parts of at most %d bytes %d frames are counted, want %d", most, n, len(lengths))
		}
	}
}

// endless is a connection that always has more of the same.
type endless struct {
	net.Conn
	frame []byte
}

func (e *endless) Read(p []byte) (n int, err error) {
	for n+len(e.frame) <= len(p) {
		n += copy(p[n:], e.frame)
	}
	return n, nil
}

// TestEndlessFramesAreSlowedAndEnd checks that a client which sends only pings, or a message in empty fragments, is
// read at the rate of frames and then no more. Few large frames are not slowed.
func TestEndlessFramesAreSlowedAndEnd(t *testing.T) {
	for name, frame := range map[string][]byte{"pings": masked(0x89, 0), "empty fragments": masked(0, 0),
		"fragments of a byte": masked(0, 1)} {
		now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
		began := now
		f := &frames{from: &endless{frame: frame}, level: frameBurst, at: now, now: func() time.Time { return now },
			sleep: func(d time.Duration) { now = now.Add(d) }}
		read := 0
		var err error
		for p := make([]byte, 4096); err == nil; {
			var n int
			n, err = f.Read(p)
			read += n / len(frame)
		}
		most := frameBurst + frameRate*(int(mostSlow.Seconds())+2)
		if !errors.Is(err, errFrames) || read > most || now.Sub(began) > mostSlow+2*time.Second {
			t.Errorf("%s: %d frames in %v, then %v", name, read, now.Sub(began), err)
		}
	}
	large := bytes.Repeat(masked(0x81, 1<<20), 20)
	f := &frames{from: bytes.NewReader(large), level: frameBurst, at: time.Now(), now: time.Now,
		sleep: func(time.Duration) { t.Error("large frames are slowed") }}
	if n, err := io.Copy(io.Discard, struct{ io.Reader }{f}); err != nil || n != int64(len(large)) {
		t.Errorf("%d bytes, %v", n, err)
	}
}
