package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"

	"runner/cmd/runner/render"
	"runner/runner"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

var (
	// errInterrupted ends a command that the user interrupted.
	errInterrupted = errors.New("interrupted")
	// errReported ends a command that has said on standard output what failed.
	errReported = errors.New("failed")
)

// usageError is a mistake in the command line.
type usageError struct {
	what string
	// hint is one line that says what to do.
	hint string
	err  error
}

func (e *usageError) Error() string { return e.what }
func (e *usageError) Unwrap() error { return e.err }
func (e *usageError) Hint() string  { return e.hint }

// inputError is something wrong with what a flag or argument names.
type inputError struct {
	what, hint string
	err        error
}

func (e *inputError) Error() string { return e.what }
func (e *inputError) Unwrap() error { return e.err }
func (e *inputError) Hint() string  { return e.hint }

// requestFlags are the flags behind the fields of a runner.Request.
var requestFlags = map[string]string{
	"Budget": "--reasoning-budget", "Effort": "--reasoning-effort", "Strategy": "--reasoning-strategy",
	"Visibility": "--reasoning", "MaxTokens": "--max-tokens", "Stop": "--stop", "Tools": "--tools",
	"Messages": "the prompt",
	"Form":     "the form of the answer", "Rationale": "--rationale", "ToolChoice": "--tool-choice",
}

// errorLine is the error as one line, "what was wrong; what to do"; empty when there is nothing to say: what the user
// interrupted needs no word.
func errorLine(err error) string {
	if err == nil || errors.Is(err, errReported) || isBrokenPipe(err) || exitCode(err) == exitInterrupted {
		return ""
	}
	line := err.Error()
	if re := (*runner.RequestError)(nil); errors.As(err, &re) {
		line = re.Err.Error()
		if flag := requestFlags[re.Field]; flag != "" {
			line = flag + ": " + line
		}
	}
	if h := hint(err); h != "" {
		line += "; " + h
	}
	return strings.Join(strings.Fields(line), " ")
}

// hint is what an error advises, with the flag that does it where the error cannot know its name.
func hint(err error) string {
	var hinted interface{ Hint() string }
	if !errors.As(err, &hinted) || hinted.Hint() == "" {
		if errors.Is(err, syscall.ENOSPC) {
			return "free some space, or write elsewhere"
		}
		return ""
	}
	if long := (*runner.PromptTooLongError)(nil); errors.As(err, &long) {
		return hinted.Hint() + " (--ctx-size)"
	}
	return hinted.Hint()
}

func exitCode(err error) int {
	var usage *usageError
	var request *runner.RequestError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &usage), errors.As(err, &request):
		return exitUsage
	}
	return exitFailed
}

// isBrokenPipe reports that the reader of the output has gone, which is no failure worth a word.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

func cleaned(w io.Writer, terminal bool) io.Writer {
	if terminal {
		return render.CleanWriter{W: w}
	}
	return w
}
