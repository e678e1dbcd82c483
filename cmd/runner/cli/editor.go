package cli

import (
	"errors"
	"os"
	"strings"

	"runner/cmd/runner/lineeditor"
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

// terminalEditor edits lines on the terminal.
type terminalEditor struct {
	editor  *lineeditor.Editor
	history *history
	// placeholder is shown until the first message. unkept tells that a message could not be put into the history.
	placeholder string
	unkept      func(error)
}

func newTerminalEditor(in, out *os.File, h *history, commands []string) *terminalEditor {
	return &terminalEditor{history: h, editor: lineeditor.New(in, out, lineeditor.Options{
		History: h, Complete: complete, More: "... ", Dumb: os.Getenv("TERM") == "dumb",
		LimitHint: "Give a long text as a file: runner run --file FILE",
		Candidates: func(text string) []string {
			if !strings.HasPrefix(text, "/") {
				return nil
			}
			return commands
		},
	})}
}

func (e *terminalEditor) read() (string, error) {
	line, err := e.readLine(lineeditor.Prompt{Text: ">>> ", Placeholder: e.placeholder})
	if err == nil && strings.TrimSpace(line) != "" {
		e.placeholder = ""
		if err := e.history.add(line); err != nil {
			e.unkept(err)
		}
	}
	return unblock(line), err
}

func (e *terminalEditor) ask(prompt string) (string, error) {
	return e.readLine(lineeditor.Prompt{Text: prompt, Alone: true})
}

func (e *terminalEditor) readLine(p lineeditor.Prompt) (string, error) {
	line, err := e.editor.Read(p)
	if errors.Is(err, lineeditor.ErrInterrupted) {
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
