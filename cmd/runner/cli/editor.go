package cli

import (
	"errors"
	"os"
	"strings"

	"github.com/reeflective/readline"
)

// lineEditor reads what the user types. An interrupted read returns the text so far and errInterrupted. The end of the
// input returns io.EOF.
type lineEditor interface {
	// read returns a message of one or more lines.
	read() (string, error)
	// ask returns one answer, which does not go into the history.
	ask(prompt string) (string, error)
}

// blockMark opens and closes a block of several lines.
const blockMark = `"""`

// terminalEditor edits lines on the terminal with the user's key bindings from inputrc.
type terminalEditor struct {
	shell   *readline.Shell
	history *history
	prompt  string
	asking  bool
}

func newTerminalEditor(h *history, commands []string) *terminalEditor {
	e := &terminalEditor{shell: readline.NewShell(), history: h}
	s := e.shell
	s.Config.Vars["enable-bracketed-paste"] = true // pasted lines are one message
	// The editor asks the terminal for the cursor's position. Without it, editing in the last row goes wrong.
	s.Config.Vars["cursor-position-probe"] = os.Getenv("TERM") != "dumb"
	s.Config.Vars["multiline-column"] = false
	s.Config.Vars["echo-control-characters"] = false // they would hide typed text
	s.Prompt.Primary(func() string { return e.prompt })
	s.Prompt.Secondary(func() string { return "... " })
	s.AcceptMultiline = func(line []rune) bool { return e.asking || complete(string(line)) }
	s.Completer = func(line []rune, _ int) readline.Completions {
		if e.asking || !strings.HasPrefix(string(line), "/") {
			return readline.Completions{}
		}
		return readline.CompleteValues(commands...)
	}
	s.History.Delete()
	s.History.Add("chat", h)
	return e
}

func (e *terminalEditor) read() (string, error) {
	line, err := e.readLine(">>> ", false)
	return unblock(line), err
}

func (e *terminalEditor) ask(prompt string) (string, error) { return e.readLine(prompt, true) }

func (e *terminalEditor) readLine(prompt string, asking bool) (string, error) {
	e.prompt, e.asking, e.history.paused = prompt, asking, asking
	line, err := e.shell.Readline()
	if errors.Is(err, readline.ErrInterrupt) {
		err = errInterrupted
	}
	return line, err
}

// complete reports whether a message is complete: it does not end in a backslash, and its block, if any, is closed.
func complete(text string) bool {
	if rest, ok := strings.CutPrefix(text, blockMark); ok {
		return strings.HasSuffix(strings.TrimRight(rest, " \n"), blockMark)
	}
	return !strings.HasSuffix(text, `\`)
}

// unblock removes the block marks or backslashes that joined the lines of a message.
func unblock(text string) string {
	if rest, ok := strings.CutPrefix(text, blockMark); ok {
		rest = strings.TrimRight(rest, " \n")
		return strings.Trim(strings.TrimSuffix(rest, blockMark), "\n")
	}
	return strings.ReplaceAll(text, "\\\n", "\n")
}
