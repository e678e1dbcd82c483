//go:build unix

package lineeditor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// tty is the terminal. It reads only what it was asked for, so that nothing that is typed later gets lost in it.
type tty struct {
	in, out *os.File
	// woken has a byte to read after the terminal got another size, and when the context of the read ends.
	woken *os.File
}

func newTTY(in, out *os.File) *tty { return &tty{in: in, out: out} }

// begin makes the terminal pass on every key and starts to watch its size and the context. restore undoes that.
func (t *tty) begin(ctx context.Context) (restore func() error, err error) {
	state, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the terminal cannot be set: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, term.Restore(int(t.in.Fd()), state))
	}
	t.woken = read
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		gone := ctx.Done()
		for {
			select {
			case <-signals:
			case <-gone:
				gone = nil
			case <-over:
				return
			}
			_, _ = write.Write([]byte{0}) // wait reads it
		}
	}()
	return func() error {
		signal.Stop(signals)
		close(over)
		read.Close() // a write that waits fails
		<-ended
		write.Close()
		return term.Restore(int(t.in.Fd()), state)
	}, nil
}

// size returns the size of the terminal, or a usual one if the terminal does not know it.
func (t *tty) size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(t.out.Fd()))
	if err != nil || columns == 0 || rows == 0 {
		return 80, 24
	}
	return columns, rows
}

// wait returns what was typed. It returns nothing after the terminal got another size. expired is set if neither
// happened in the patience, which zero makes endless. The error is [io.EOF] if the terminal is gone, and the cause of
// the context's end if that came first.
func (t *tty) wait(ctx context.Context, patience time.Duration) (typed []byte, expired bool, err error) {
	in, woken := int(t.in.Fd()), int(t.woken.Fd())
	if max(in, woken) >= unix.FD_SETSIZE {
		return nil, false, fmt.Errorf("file %d is too high to wait for", max(in, woken))
	}
	deadline := time.Now().Add(patience)
	for {
		var ready unix.FdSet
		ready.Set(in)
		ready.Set(woken)
		var left *unix.Timeval
		if patience > 0 {
			tv := unix.NsecToTimeval(max(time.Until(deadline), 0).Nanoseconds())
			left = &tv
		}
		n, err := unix.Select(max(in, woken)+1, &ready, nil, nil, left)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, false, fmt.Errorf("waiting for the terminal: %w", err)
		case n == 0:
			return nil, true, nil
		case ready.IsSet(woken):
			_, err := t.woken.Read(make([]byte, 64))
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return nil, false, err
		}
		return t.read()
	}
}

func (t *tty) read() (typed []byte, expired bool, err error) {
	b := make([]byte, 4096)
	n, err := unix.Read(int(t.in.Fd()), b)
	switch {
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return nil, false, nil
	case n == 0 && err == nil, errors.Is(err, unix.EIO):
		return nil, false, io.EOF
	case err != nil:
		return nil, false, fmt.Errorf("reading from the terminal: %w", err)
	}
	return b[:n], false, nil
}
