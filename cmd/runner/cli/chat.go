package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"runner/chattemplate"
	"runner/cmd/runner/render"
	"runner/generation"
	"runner/reasoning"
)

// chat is a conversation on a terminal.
type chat struct {
	app     *app
	gen     generator
	options *runOptions
	editor  lineEditor
	spinner *render.Spinner
	loaded  time.Duration

	// messages is the conversation so far. It begins with the system messages; /clear keeps these, and system counts
	// them.
	messages []chattemplate.Message
	system   int
	// attached is put before the next message.
	attached string
	// shown is the text that was visible, for /save.
	shown transcript
	// interrupted is set when the user's last action was Ctrl-C. A second Ctrl-C then leaves the chat.
	interrupted bool
	// signals receives the terminal's interrupts while the editor is not reading.
	signals chan os.Signal
}

// chat runs a conversation until the user leaves.
func (a *app) chat(ctx context.Context, gen generator, o *runOptions, p prompt, spinner *render.Spinner,
	loaded time.Duration) error {
	editor := newTerminalEditor(a.in, a.out, openHistory(historyPath()), commandNames())
	c := &chat{
		app: a, gen: gen, options: o, spinner: spinner, loaded: loaded, attached: p.attached, editor: editor,
		messages: slices.Clone(o.request.Messages), system: len(o.request.Messages),
	}
	editor.unkept = func(err error) { c.say("The message is not in the history: %v", err) }
	if a.color(o) {
		editor.placeholder = "Send a message (/? for help)"
	}
	c.signals = make(chan os.Signal, 2)
	signal.Notify(c.signals, os.Interrupt)
	defer signal.Stop(c.signals)
	ctx, stop := untilEnded(ctx)
	defer stop()
	return c.loop(ctx)
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
		cancel(errInterrupted)
		stop()
	})
	return ctx, stop
}

func (c *chat) loop(ctx context.Context) error {
	info := c.gen.Info()
	c.say("%s, context of %d tokens, reasoning shown: %s", info.Name, info.ContextSize, c.options.request.Visibility)
	c.say("/help lists the commands; Ctrl-D leaves.")
	for {
		text, err := c.read(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errInterrupted):
			// Ctrl-C on a line with text only clears the line.
			twice := c.interrupted && text == ""
			if c.interrupted = text == ""; twice {
				return errInterrupted
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
		if strings.TrimSpace(text) == "" {
			continue
		}
		if name, arguments, ok := parseCommand(text); ok {
			if leave := c.command(name, arguments); leave {
				return nil
			}
			continue
		}
		if err := c.turn(ctx, text); err != nil {
			return err
		}
	}
}

// turn sends a message and shows the answer. It asks the user for the results of tool calls until the model makes no
// more calls. It returns only errors that end the chat.
func (c *chat) turn(ctx context.Context, text string) error {
	before := len(c.messages)
	text = joined(c.attached, text)
	c.messages = append(c.messages, chattemplate.Message{Role: chattemplate.User, Content: text})
	c.shown.add("You", text)
	for {
		out, err := c.generate(ctx, len(c.messages) > before+1)
		c.shown.turn(out)
		if errors.Is(err, errInterrupted) {
			c.stopped(before, out)
			if c.interrupted {
				return errInterrupted
			}
			c.interrupted = true
			return nil
		}
		if isBrokenPipe(err) {
			return err
		}
		if err != nil {
			c.messages = c.messages[:before]
			c.app.complain(errorLine(err))
			return nil
		}
		message := chattemplate.Message{Role: chattemplate.Assistant, Content: out.Answer, Preamble: out.Preamble,
			Reasoning: out.Reasoning, ToolCalls: out.Calls}
		c.messages = append(c.messages, message)
		c.app.afterwords(out)
		if c.options.verbose {
			writeTimings(c.app.stderr(), c.loaded, c.gen.Info(), out.Info, out.Result)
		}
		fmt.Fprintln(c.app.out)
		if len(message.ToolCalls) == 0 {
			c.attached = ""
			return nil
		}
		if _, _, short := render.Shortfall(out); short {
			c.messages = c.messages[:before]
			c.say("The call is cut off and cannot be answered, so the turn is forgotten.")
			return nil
		}
		if err := c.askResults(ctx, message.ToolCalls); err != nil {
			c.messages = c.messages[:before]
			c.interrupted = errors.Is(err, errInterrupted)
			c.say("The call was not answered, so the turn is forgotten.")
			return nil
		}
	}
}

// stopped keeps the answer that was written before the user stopped a turn. Without an answer the turn is forgotten.
func (c *chat) stopped(before int, out generation.Reply) {
	fmt.Fprintln(c.app.out) // ends the line in which the terminal shows ^C
	if out.Answer == "" || len(out.Calls) > 0 {
		c.messages = c.messages[:before]
		c.say("Stopped; the turn is forgotten. Ctrl-C again leaves.")
		return
	}
	c.attached = ""
	c.messages = append(c.messages, chattemplate.Message{Role: chattemplate.Assistant, Content: out.Answer})
	c.say("Stopped. Ctrl-C again leaves.")
}

// generate runs one request. answered is set when the request follows the results of calls. The first Ctrl-C stops
// the request. A second one before it has stopped sets c.interrupted.
func (c *chat) generate(ctx context.Context, answered bool) (generation.Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	var presses int
	watched := make(chan struct{})
	turnOver := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			select {
			case <-c.signals:
				presses++
				cancel()
			case <-turnOver:
				return
			}
		}
	}()
	req := c.options.request
	req.Messages, req.Trace = slices.Clone(c.messages), c.options.records.tracer(newRunID())
	if answered && req.ToolChoice == generation.ToolChoiceRequired {
		req.ToolChoice = generation.ToolChoiceAuto // the required call was made; do not require another one
	}
	out, err := generate(ctx, c.gen, req, c.app.renderer(c.options, c.spinner, asked{}), c.spinner)
	close(turnOver)
	<-watched
	cancel()
	c.interrupted = presses > 1
	c.options.records.tell(out.Result, func(line string) { c.say("%s", line) })
	return out, err
}

// read returns what the user types next. A Ctrl-C while the editor was not reading counts as one on an empty line.
func (c *chat) read(ctx context.Context) (string, error) {
	select {
	case <-c.signals:
		return "", errInterrupted
	default:
		return c.editor.read(ctx)
	}
}

// askResults asks for the result of every call. It returns an error if the user declines.
func (c *chat) askResults(ctx context.Context, calls []chattemplate.ToolCall) error {
	for _, call := range calls {
		result, err := c.editor.ask(ctx, fmt.Sprintf("result of %s: ", render.CleanLine(call.Name)))
		if err != nil {
			return err
		}
		c.messages = append(c.messages, chattemplate.Message{
			Role: chattemplate.ToolRole, Content: result, ToolCallID: call.ID, ToolName: call.Name,
		})
		c.shown.add("Result of "+call.Name, result)
	}
	return nil
}

// say prints a dimmed message about the chat itself.
func (c *chat) say(format string, args ...any) {
	line := render.CleanLine(fmt.Sprintf(format, args...))
	if c.app.color(c.options) {
		line = "\x1b[2m" + line + "\x1b[0m"
	}
	fmt.Fprintln(c.app.out, line)
}

// transcript is the text that a chat has shown.
type transcript []struct{ heading, text string }

func (t *transcript) add(heading, text string) {
	if text != "" {
		*t = append(*t, struct{ heading, text string }{heading, text})
	}
}

func (t *transcript) turn(r generation.Reply) {
	t.add("Reasoning", r.Reasoning)
	summary := "Summary of the reasoning"
	if r.Result != nil && r.Result.SummarySource == string(reasoning.StrategyPosthoc) {
		summary = "Explanation, made after the answer"
	}
	t.add(summary, r.Summary)
	t.add("Before the call", r.Preamble)
	for _, call := range r.Calls {
		t.add("Call of "+call.Name, call.Arguments)
	}
	t.add("Answer", r.Answer)
}
