package cli

import (
	"context"
	"errors"
	"os"
	"strings"

	"runner/cmd/runner/lineeditor"
)

// lineEditor reads what the user types. An interrupted read returns the text so far and ErrInterrupted. The end of the
// input returns io.EOF, and the end of the context its cause.
type lineEditor interface {
	// read returns a message of one or more lines.
	read(ctx context.Context) (string, error)
	// ask returns one answer, which does not go into the history.
	ask(ctx context.Context, prompt string) (string, error)
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

func newTerminalEditor(in, out *os.File, h *history, candidates func(string) []string) *terminalEditor {
	return &terminalEditor{history: h, editor: lineeditor.New(in, out, lineeditor.Options{
		History: h, Continue: goOn, More: "... ", Dumb: os.Getenv("TERM") == "dumb",
		LimitHint:  "Give a long text as a file: runner run --file FILE",
		Candidates: candidates,
	})}
}

func (e *terminalEditor) read(ctx context.Context) (string, error) {
	line, err := e.readLine(ctx, lineeditor.Prompt{Text: ">>> ", Placeholder: e.placeholder})
	if err == nil && strings.TrimSpace(line) != "" {
		e.placeholder = ""
		if err := e.history.add(line); err != nil {
			e.unkept(err)
		}
	}
	return unblock(line), err
}

func (e *terminalEditor) ask(ctx context.Context, prompt string) (string, error) {
	return e.readLine(ctx, lineeditor.Prompt{Text: prompt, Alone: true})
}

func (e *terminalEditor) readLine(ctx context.Context, p lineeditor.Prompt) (string, error) {
	line, err := e.editor.Read(ctx, p)
	if errors.Is(err, lineeditor.ErrInterrupted) {
		err = ErrInterrupted
	}
	return line, err
}

// goOn begins the next line of a message that is not complete: its block is open, or its last line ends in a backslash
// that was typed. The newline takes the place of the backslash. Pasted and recalled backslashes belong to the message.
func goOn(text string, typed bool) (next string, more bool) {
	if rest, ok := strings.CutPrefix(text, blockMark); ok {
		return text + "\n", !strings.HasSuffix(strings.TrimRight(rest, " \n"), blockMark)
	}
	line, more := strings.CutSuffix(text, `\`)
	return line + "\n", more && typed
}

// unblock removes the marks of a block.
func unblock(text string) string {
	rest, ok := strings.CutPrefix(text, blockMark)
	if !ok {
		return text
	}
	rest = strings.TrimRight(rest, " \n")
	return strings.Trim(strings.TrimSuffix(rest, blockMark), "\n")
}
