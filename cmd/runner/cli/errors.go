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
	"runner/cmd/runner/settings"
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

// Problem is an error with what to do about it, one line each.
type Problem struct {
	what, advice string
	err          error
	// usage says that it is a mistake in the command line.
	usage bool
}

func (p *Problem) Error() string { return p.what }
func (p *Problem) Unwrap() error { return p.err }

// Hint says what to do.
func (p *Problem) Hint() string { return p.advice }

// Unhinted is a problem that becomes an error with its hint.
type Unhinted Problem

// Usage begins the error of a mistake in the command line.
func Usage(format string, args ...any) Unhinted {
	return Unhinted{what: fmt.Sprintf(format, args...), usage: true}
}

// Input begins the error of something that a flag or an argument names, such as a file.
func Input(format string, args ...any) Unhinted { return Unhinted{what: fmt.Sprintf(format, args...)} }

// From adds the cause.
func (u Unhinted) From(err error) Unhinted {
	u.err = err
	return u
}

// Hint says what to do, and makes the error.
func (u Unhinted) Hint(format string, args ...any) *Problem {
	u.advice = fmt.Sprintf(format, args...)
	return (*Problem)(&u)
}

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
	return strings.Join(strings.Fields(line), " ")
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
	var known *Problem
	var unfit *flags.Error
	var setting *settings.Error
	var request *generation.RequestError
	var broken *brokenForm
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, ErrInterrupted), errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &known) && known.usage, errors.As(err, &request), errors.As(err, &unfit),
		errors.As(err, &setting):
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
