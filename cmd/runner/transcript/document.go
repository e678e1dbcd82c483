//go:build unix

// Package transcript runs the commands that a Markdown document shows, and puts what they print into it. So what a
// document shows is what happens, and a test can compare the two. Only tests import it.
//
// A document is prose with fenced blocks, of which two kinds matter; all else stays as it is.
//
//   - A block of the kind "console" holds commands, each after "$ ", and below each what it printed, which is replaced. A command goes on in
//     the next line while it ends in a backslash or a bar, or a quote in it is open. Lines after it that begin with ">>> " or "result of NAME: " say
//     that it is a chat and what is typed there, line by line; it is left when there is nothing more to type.
//   - A block whose opening line names a file after the kind ("json tools.json") is written to that file, for the commands below it.
//
// All commands of a document run one after another in one bash, in a home folder of their own that is empty at
// first, on a terminal without colours that is 100 columns wide. So variables and background jobs last. Background
// jobs end with the document at the latest; what they print has to go to a file, or it would come at any time. A
// command that fails is an error of the document, unless it says what follows ("|| echo ...").
//
// What differs from run to run and from machine to machine is replaced by stand-ins; see [Rules].
package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// fence begins and ends a block, prompt begins a command, chatPrompt a message of a chat.
const (
	fence      = "```"
	prompt     = "$ "
	chatPrompt = ">>> "
)

// typed matches a line of a chat in which something was typed.
var typed = regexp.MustCompile(`^(?:` + chatPrompt + `|result of [\w-]+: )(.+)$`)

// Renew returns doc with the files written and the commands run that it shows, in the folder home, and with what these have printed now.
// Programs are found on this process's PATH; variables ("NAME=value") are added to their environment.
func Renew(doc, home string, variables ...string) (string, error) {
	sh, err := start(home, variables)
	if err != nil {
		return "", err
	}
	defer sh.close()
	in := strings.Split(doc, "\n")
	var out []string
	for i := 0; i < len(in); {
		block, kind, file := fenced(in[i:])
		if block == nil {
			if strings.HasPrefix(in[i], fence) {
				return "", fmt.Errorf("line %d: %q begins a block that does not end", i+1, in[i])
			}
			out = append(out, in[i])
			i++
			continue
		}
		inner := block[1 : len(block)-1]
		out = append(out, block[0])
		switch {
		case kind == "console":
			lines, err := renew(inner, sh)
			if err != nil {
				return "", fmt.Errorf("line %d: %w", i+1, err)
			}
			inner = lines
		case file != "":
			if !filepath.IsLocal(file) {
				return "", fmt.Errorf("line %d: %q leaves the home folder", i+1, file)
			}
			if err := os.WriteFile(filepath.Join(home, file), []byte(strings.Join(inner, "\n")+"\n"), 0o644); err != nil {
				return "", err
			}
		}
		out = append(append(out, inner...), block[len(block)-1])
		i += len(block)
	}
	return strings.Join(out, "\n"), nil
}

// fenced returns the fenced block that lines begin with, its fences included, and what its opening line says, or nil.
func fenced(lines []string) (block []string, kind, file string) {
	info, ok := strings.CutPrefix(lines[0], fence)
	if !ok {
		return nil, "", ""
	}
	for i, line := range lines[1:] {
		if line == fence {
			kind, file, _ = strings.Cut(info, " ")
			return lines[:i+2], kind, file
		}
	}
	return nil, "", ""
}

// renew runs the commands of a console block and returns its new lines.
func renew(lines []string, sh *shell) ([]string, error) {
	commands, err := parse(lines)
	if err != nil {
		return nil, err
	}
	var out []string
	for i, c := range commands {
		printed, err := sh.run(c)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.text, err)
		}
		out = append(out, strings.Split(prompt+c.text, "\n")...)
		for _, line := range printed {
			if strings.HasPrefix(line, prompt) || strings.HasPrefix(line, fence) {
				return nil, fmt.Errorf("%s: it printed %q, which would be read as something else here", c.text, line)
			}
		}
		if out = append(out, printed...); len(printed) > 0 && i < len(commands)-1 {
			out = append(out, "")
		}
	}
	return out, nil
}

// command is one command of a document, and what is typed where it asks.
type command struct {
	text  string
	typed []string
}

func parse(lines []string) ([]command, error) {
	var commands []command
	for i := 0; i < len(lines); i++ {
		text, ok := strings.CutPrefix(lines[i], prompt)
		if !ok {
			if len(commands) == 0 {
				return nil, fmt.Errorf("a console block begins with %q, not with a command", lines[i])
			}
			if m := typed.FindStringSubmatch(lines[i]); m != nil {
				last := &commands[len(commands)-1]
				last.typed = append(last.typed, m[1])
			}
			continue
		}
		for open(text) {
			if i++; i == len(lines) {
				return nil, fmt.Errorf("%s: the block ends within this command", text)
			}
			text += "\n" + lines[i]
		}
		commands = append(commands, command{text: text})
	}
	return commands, nil
}

// open reports whether a shell would read on: text ends in a backslash or a bar, or within quotes.
func open(text string) bool {
	var quote rune
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		}
	}
	return escaped || quote != 0 || strings.HasSuffix(text, "|")
}
