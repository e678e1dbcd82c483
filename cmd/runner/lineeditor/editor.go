package lineeditor

import (
	"cmp"
	"context"
	"io"
	"os"
)

// Options says how an editor works. The zero value is an editor without history and completion.
type Options struct {
	// History has earlier texts. The editor does not add to it. It may be nil.
	History History
	// Continue returns the text to go on with when Enter is pressed, usually the text and a newline, or false if Enter
	// ends the text. typed is set if the last change of the text was typed, not pasted or recalled. A nil Continue means
	// that Enter always ends the text.
	Continue func(text string, typed bool) (next string, more bool)
	// Candidates returns what Tab can complete a text to. The editor ignores candidates that do not begin with the
	// text. It may be nil.
	Candidates func(text string) []string
	// More precedes every line but the first.
	More string
	// Limit is the maximum size of a text in bytes, [DefaultLimit] if zero. More text is refused with a message, which
	// LimitHint ends.
	Limit     int
	LimitHint string
	// Dumb is set for a terminal that knows no escape sequences. Such a terminal shows no placeholders, and lines that
	// are pasted into it are not kept together.
	Dumb bool
}

// DefaultLimit is the default of [Options.Limit].
const DefaultLimit = 1 << 20

// History has the texts that were entered before. It must not change during a [Editor.Read].
type History interface {
	// Len returns the number of texts.
	Len() int
	// Line returns text i, from 0 for the oldest to Len()-1.
	Line(i int) string
}

// Prompt says what one read shows.
type Prompt struct {
	// Text precedes the first line. Placeholder is dim text that is shown while nothing is typed.
	Text, Placeholder string
	// Alone is set for a read without history and completion, of which Enter always ends the text.
	Alone bool
}

// Editor reads texts from a terminal. Use it from one goroutine.
type Editor struct {
	options Options
	tty     *tty
	out     io.Writer
	keys    decoder
	killed  string
}

// New returns an editor for a terminal. in and out are the terminal. They stay open.
func New(in, out *os.File, o Options) *Editor {
	if o.Limit == 0 {
		o.Limit = DefaultLimit
	}
	return &Editor{options: o, tty: newTTY(in, out), out: out, keys: decoder{limit: o.Limit}}
}

// Read lets the user edit a text and returns it when Enter is pressed. Keys that were pressed before Read count. What
// was typed after Enter stays for the next Read.
//
// Ctrl-C returns the text so far and [ErrInterrupted]. Ctrl-D without a text and the end of the terminal's input return
// [io.EOF]. When ctx ends, Read returns the text so far and the cause. Other errors come from the terminal. The
// terminal is as it was before whenever Read returns.
func (e *Editor) Read(ctx context.Context, p Prompt) (text string, err error) {
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	restore, err := e.tty.begin(ctx)
	if err != nil {
		return "", err
	}
	defer func() { err = cmp.Or(err, restore()) }()
	d := e.display()
	s := newSession(&e.options, p, d, &e.killed)
	if !e.options.Dumb {
		if _, err := io.WriteString(e.out, pasteOn); err != nil {
			return "", err
		}
		defer io.WriteString(e.out, pasteOff) //nolint:errcheck // the terminal is gone
	}
	for {
		done, err := e.apply(s)
		if done {
			s.finish()
			return s.text, cmp.Or(err, d.err())
		}
		s.draw()
		if err := d.err(); err != nil {
			return s.text, err
		}
		if err := e.receive(ctx); err != nil {
			s.finish()
			return s.text, err
		}
	}
}

func (e *Editor) display() display {
	if e.options.Dumb {
		return &dumbScreen{output: output{w: e.out, size: e.tty.size}}
	}
	return &screen{output: output{w: e.out, size: e.tty.size}}
}

// apply applies the keys that have arrived.
func (e *Editor) apply(s *session) (done bool, err error) {
	for {
		k, ok := e.keys.next()
		if !ok {
			return false, nil
		}
		if done, err := s.press(k); done {
			return true, err
		}
	}
}

// receive waits for keys, for another size of the terminal or for the end of ctx.
func (e *Editor) receive(ctx context.Context) error {
	typed, expired, err := e.tty.wait(ctx, e.keys.patience())
	if expired {
		e.keys.giveUp()
	}
	e.keys.feed(typed)
	return err
}
