package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"runner/backend"
	"runner/cmd/runner/conversation"
	"runner/cmd/runner/render"
	"runner/models"
)

// opener opens a model and returns how long that took.
type opener func(ctx context.Context, m placed) (generator, time.Duration, error)

// chat is a conversation on a terminal.
type chat struct {
	app     *App
	options *runOptions
	editor  lineEditor
	spinner *render.Spinner

	// gen is the open model. It is nil after a model was closed for another one and neither could be opened.
	open   opener
	gen    generator
	model  models.Model
	info   backend.Info
	loaded time.Duration

	// talk is the conversation so far. /clear keeps its system messages.
	talk conversation.Conversation
	// kept is the conversation that the chat goes on with, or nil. keeper keeps the conversation on disk; it may be nil.
	// changed is set if there is something to keep.
	kept    *conversation.Kept
	keeper  *keeper
	changed bool
	// attached is put before the next message.
	attached []attachment
	// again counts how often the last message was answered again.
	again uint64
	stats stats
	// interrupted is set when the user's last action was Ctrl-C. A second Ctrl-C then leaves the chat.
	interrupted bool
	// signals receives the terminal's interrupts while the editor is not reading.
	signals chan os.Signal
}

// chat runs a conversation until the user leaves or ctx, which catch made, ends. It closes the model.
func (a *App) chat(ctx context.Context, c *chat, p prompt) error {
	defer func() { _ = c.close() }() // the user leaves, and nothing is lost
	c.app, c.talk.System = a, c.options.request.Messages
	if c.kept != nil {
		c.talk = c.kept.Conversation
		if c.options.system != "" {
			c.talk.System = c.options.request.Messages
		}
	}
	if p.attached != "" {
		c.attached = []attachment{{name: "--file", text: p.attached}}
	}
	c.info = c.gen.Info()
	editor := newTerminalEditor(a.in, a.out, openHistory(c.options.keep.typed()), c.candidates)
	editor.unkept = func(err error) { c.say("The message is not in the history: %v", err) }
	if a.color(c.options) {
		editor.placeholder = "Send a message (/? for help)"
	}
	c.editor = editor
	return c.loop(ctx)
}

// catch takes the signals over from the loading of the model. Ctrl-C then goes to c.signals, and the returned context
// ends as that of untilEnded does. interrupted is set if a signal has ended the loading although the model is open.
// Both catch signals for a moment, so each signal reaches at least one of them. stop ends the loading's part.
func (c *chat) catch(ctx, loading context.Context, stop func()) (ended context.Context, interrupted bool, done func()) {
	c.signals = make(chan os.Signal, 2)
	signal.Notify(c.signals, os.Interrupt)
	ended, over := untilEnded(ctx)
	stop()
	interrupted = errors.Is(context.Cause(loading), ErrInterrupted)
	return ended, interrupted, func() {
		over()
		signal.Stop(c.signals)
	}
}

// close closes the model, if one is open.
func (c *chat) close() error {
	if c.gen == nil {
		return nil
	}
	err := c.gen.Close()
	c.gen = nil
	return err
}

// untilEnded returns a context that ends, as interrupted, when the system ends the program or the terminal is gone. So
// the line editor can restore the terminal. A second signal ends the process at once.
func untilEnded(ctx context.Context) (context.Context, context.CancelFunc) {
	signals := []os.Signal{syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	ended, stop := signal.NotifyContext(ctx, signals...)
	ctx, cancel := context.WithCancelCause(ctx)
	context.AfterFunc(ended, func() {
		cancel(ErrInterrupted)
		stop()
	})
	return ctx, stop
}

func (c *chat) loop(ctx context.Context) error {
	c.say("%s, context of %d tokens, reasoning shown: %s", c.info.Name, c.info.ContextSize, c.options.request.Visibility)
	c.say("/help lists the commands; Ctrl-D leaves.")
	if c.kept != nil {
		c.goesOn(c.kept)
	}
	for {
		text, err := c.read(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, ErrInterrupted):
			// Ctrl-C on a line with text only clears the line.
			twice := c.interrupted && text == ""
			if c.interrupted = text == ""; twice {
				return ErrInterrupted
			}
			if c.interrupted {
				c.say("Ctrl-C again leaves; so does Ctrl-D.")
			}
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		c.interrupted = false
		if err := c.obey(ctx, text); errors.Is(err, errLeave) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// obey follows a command or sends a message. It returns only errors that end the chat.
func (c *chat) obey(ctx context.Context, text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	defer c.keep()
	name, arguments, ok := parseCommand(text)
	if !ok {
		return c.turn(ctx, text)
	}
	err := c.command(ctx, name, arguments)
	if errors.Is(err, errLeave) || errors.Is(err, ErrInterrupted) || isBrokenPipe(err) {
		return err
	}
	if err != nil {
		c.app.Complain(errorLine(err))
	}
	return nil
}

// read returns what the user types next. A Ctrl-C while the editor was not reading counts as one on an empty line.
func (c *chat) read(ctx context.Context) (string, error) {
	select {
	case <-c.signals:
		return "", ErrInterrupted
	default:
		return c.editor.read(ctx)
	}
}

// interruptibly calls f with a context that Ctrl-C ends. It returns how often Ctrl-C was pressed.
func (c *chat) interruptibly(ctx context.Context, f func(ctx context.Context)) (presses int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watched, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-c.signals:
				presses++
				cancel()
			case <-over:
				return
			}
		}
	}()
	f(ctx)
	close(over)
	<-watched
	return presses
}

// say prints a dimmed message about the chat itself.
func (c *chat) say(format string, args ...any) {
	line := render.CleanLine(fmt.Sprintf(format, args...))
	if c.app.color(c.options) {
		line = "\x1b[2m" + line + "\x1b[0m"
	}
	fmt.Fprintln(c.app.out, line)
}
