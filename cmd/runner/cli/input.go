package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"runner/hint"
)

// maxInput is the maximum size in bytes of a text from a file or from standard input.
const maxInput = 16 << 20

// ReadFile reads the text of a file that a flag names. "-" is standard input, which can be read only once.
func (a *App) ReadFile(flag, path string) (string, error) {
	if path == "-" {
		if a.inTaken {
			return "", Usage("%s", strings.TrimSpace(flag+" -: standard input was read already")).Hint("give a file instead")
		}
		return a.readStdin()
	}
	f, err := os.Open(path)
	if err != nil {
		return "", unreadable(flag, path, err)
	}
	defer f.Close()
	return readText(flag+" "+path, f)
}

// readStdin reads standard input. It returns "" if standard input is closed or was read before.
func (a *App) readStdin() (string, error) {
	if a.inTaken || !isOpen(a.in) {
		return "", nil
	}
	a.inTaken = true
	return readText("standard input", a.in)
}

func isOpen(f *os.File) bool {
	_, err := f.Stat()
	return err == nil
}

func readText(what string, r io.Reader) (string, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxInput+1))
	switch {
	case err != nil:
		return "", unreadable(what, "", err)
	case len(b) > maxInput:
		return "", Input("%s is larger than %d MiB", what, maxInput>>20).Hint("give a smaller part of it")
	}
	return string(b), checkText(what, string(b))
}

// checkText refuses text that is not UTF-8 or contains zero bytes.
func checkText(what, text string) error {
	if !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
		return Input("%s is not UTF-8 text", what).Hint("convert it to text first")
	}
	return nil
}

func unreadable(flag, path string, err error) error {
	return Input("%s: %v", strings.TrimSpace(fmt.Sprintf("%s %s", flag, path)), hint.Reason(err)).From(err).
		Hint("check the name and its permissions")
}

// prompt has the parts of the user's first message.
type prompt struct {
	// attached holds the labelled files and the text of standard input. typed is the argument.
	attached, typed string
	// given is set if there was an argument, and piped if standard input was read.
	given, piped bool
}

// text returns the message: files, then standard input, then the argument, with empty lines between them.
func (p prompt) text() string {
	return joined(p.attached, p.typed)
}

// labelled returns the text of a file with its name before and after it.
func labelled(name, text string) string {
	return fmt.Sprintf("[file %s]\n%s\n[end of file %s]", name, strings.TrimRight(text, "\n"), name)
}

func (p prompt) empty() bool { return strings.TrimSpace(p.text()) == "" }

func joined(parts ...string) string {
	var kept []string
	for _, s := range parts {
		if s = strings.TrimRight(s, "\n"); strings.TrimSpace(s) != "" {
			kept = append(kept, s)
		}
	}
	return strings.Join(kept, "\n\n")
}

// readPrompt builds the prompt from the argument, --file and standard input. Standard input is read if it is not a
// terminal, or if the argument is "-".
func (a *App) readPrompt(typed string, given bool, files []string) (prompt, error) {
	p := prompt{typed: typed, given: given}
	dash := typed == "-" // reads standard input even from a terminal
	if dash {
		p.typed = ""
	}
	if err := checkText("the prompt", typed); err != nil {
		return p, err
	}
	stdinUsed := a.inTerminal
	var parts []string
	for _, path := range files {
		name := path
		if path == "-" {
			name, stdinUsed = "standard input", true
		}
		text, err := a.ReadFile("--file", path)
		if err != nil {
			return p, err
		}
		parts = append(parts, labelled(name, text))
	}
	if dash || !stdinUsed {
		read := a.readStdin
		if dash {
			read = func() (string, error) { return a.ReadFile("the prompt", "-") }
		}
		text, err := read()
		if err != nil {
			return p, err
		}
		p.piped = true
		parts = append(parts, text)
	}
	p.attached = joined(parts...)
	return p, nil
}

// readSystem returns the system prompt: the value itself, or the text of FILE if the value is @FILE.
func (a *App) readSystem(value string) (string, error) {
	if path, ok := strings.CutPrefix(value, "@"); ok {
		return a.ReadFile("--system", path)
	}
	return value, checkText("--system", value)
}
