package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"runner/cmd/runner/flags"
	"runner/cmd/runner/render"
	"runner/generation"
	"runner/hint"
	"runner/reasoning/trace/keys"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitBrokenForm  = 4
	exitInterrupted = 130
)

var (
	// ErrInterrupted ends a command that the user interrupted.
	ErrInterrupted = errors.New("interrupted")
	// ErrReported ends a command that has already reported the failure on standard output.
	ErrReported = errors.New("failed")
)

// Unhinted is what becomes an error with its hint.
type Unhinted hint.Error

// Usage begins the error of a mistake in the command line.
func Usage(format string, args ...any) Unhinted { return Input(format, args...).From(flags.ErrUsage) }

// Input begins the error of something that a flag or an argument names, such as a file.
func Input(format string, args ...any) Unhinted { return Unhinted{Text: fmt.Sprintf(format, args...)} }

// From adds a cause.
func (u Unhinted) From(err error) Unhinted {
	u.Err = errors.Join(u.Err, err)
	return u
}

// Hint says what to do, and makes the error.
func (u Unhinted) Hint(format string, args ...any) *hint.Error {
	u.Advice = hint.Advice(fmt.Sprintf(format, args...))
	return (*hint.Error)(&u)
}

// didYouMean is advice to take another name, which is nearly spelled as the one that was typed.
func didYouMean(name string) hint.Advice { return hint.Advice("did you mean " + name + "?") }

// brokenForm is an answer that was cut off and so does not match its form.
type brokenForm struct{ why string }

func (e *brokenForm) Error() string { return e.why }

// requestFlags maps the fields of a generation.Request to the flags that set them.
var requestFlags = map[string]string{
	"Budget": "--reasoning-budget", "Effort": "--reasoning-effort", "Strategy": "--reasoning-strategy",
	"Visibility": "--reasoning", "MaxTokens": "--max-tokens", "Stop": "--stop", "Tools": "--tools",
	"Messages": "the prompt",
	"Form":     "the form of the answer", "Rationale": "--rationale", "ToolChoice": "--tool-choice",
	"Sampling.Temperature": "--temperature", "Sampling.TypicalP": "--typical",
	"Sampling.RepetitionPenalty": "--repeat-penalty",
}

// errorLine formats an error as one line, "what is wrong; what to do". It is empty if nothing has to be reported, for
// instance after an interrupt by the user.
func errorLine(err error) string {
	if err == nil || errors.Is(err, ErrReported) || isBrokenPipe(err) || exitCode(err) == exitInterrupted {
		return ""
	}
	line := err.Error()
	if re := (*generation.RequestError)(nil); errors.As(err, &re) {
		line = re.Err.Error()
		if flag := requestFlags[re.Path()]; flag != "" {
			line = flag + ": " + line
		}
	}
	if h := adviceOf(err); h != "" {
		line += "; " + h
	}
	return strings.Join(strings.Fields(render.Clean(line)), " ")
}

// adviceOf returns an error's advice. It adds the name of the flag to follow it with, which the error may not know.
func adviceOf(err error) string {
	advice, long := hint.Of(err), (*generation.PromptTooLongError)(nil)
	switch {
	case advice != "" && errors.As(err, &long):
		return advice + " (--ctx-size)"
	case advice != "":
		return advice
	case errors.Is(err, syscall.ENOSPC):
		return "free some space, or write elsewhere"
	case errors.Is(err, keys.ErrWeak):
		return "choose another one, in " + passphraseVariable + " or --passphrase-file, or type it"
	}
	return ""
}

func exitCode(err error) int {
	var request *generation.RequestError
	var broken *brokenForm
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, ErrInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, flags.ErrUsage), errors.As(err, &request):
		return exitUsage
	case errors.As(err, &broken):
		return exitBrokenForm
	}
	return exitFailed
}

// isBrokenPipe reports whether the reader of the output has gone. This is not reported as an error.
func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

func cleaned(w io.Writer, terminal bool) io.Writer {
	if terminal {
		return render.CleanWriter{W: w}
	}
	return w
}
