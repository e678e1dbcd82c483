//go:build !unix

package lineeditor

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// tty is the terminal. A goroutine reads from it until the program ends, because such systems cannot wait for a
// terminal with a limit.
type tty struct {
	in, out *os.File
	arrived chan arrival
}

// arrival is the result of one read.
type arrival struct {
	typed []byte
	err   error
}

func newTTY(in, out *os.File) *tty { return &tty{in: in, out: out} }

// begin makes the terminal pass on every key. restore undoes that.
func (t *tty) begin(context.Context) (restore func() error, err error) {
	state, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("the terminal cannot be set: %w", err)
	}
	if t.arrived == nil {
		t.arrived = make(chan arrival)
		go t.receive()
	}
	return func() error { return term.Restore(int(t.in.Fd()), state) }, nil
}

func (t *tty) receive() {
	defer close(t.arrived)
	for {
		b := make([]byte, 4096)
		n, err := t.in.Read(b)
		t.arrived <- arrival{b[:n], err}
		if err != nil {
			return
		}
	}
}

// size returns the size of the terminal, or a usual one if the terminal does not know it.
func (t *tty) size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(t.out.Fd()))
	if err != nil || columns == 0 || rows == 0 {
		return 80, 24
	}
	return columns, rows
}

// wait returns what was typed. expired is set if nothing was typed in the patience, which zero makes endless. When ctx
// ends, the error is the cause.
func (t *tty) wait(ctx context.Context, patience time.Duration) (typed []byte, expired bool, err error) {
	var late <-chan time.Time
	if patience > 0 {
		late = time.After(patience)
	}
	select {
	case a, ok := <-t.arrived:
		if !ok {
			return nil, false, os.ErrClosed
		}
		return a.typed, false, a.err
	case <-ctx.Done():
		return nil, false, context.Cause(ctx)
	case <-late:
		return nil, true, nil
	}
}
