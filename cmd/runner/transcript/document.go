//go:build unix

// Package transcript runs the commands in a Markdown document and updates the output that the document shows. A test
// can then check that the document is true. Only tests import it.
//
// It acts on two kinds of fenced blocks. All other text stays as it is.
//
//   - A "console" block holds commands, each after "$ ", and their output. The output is replaced. A command continues
//     on the next line if it ends in a backslash or a bar, or has an open quote. If the lines after it begin with
//     ">>> " or "result of NAME: ", the command is a chat, and these lines are typed into it one by one. The chat is
//     left when no lines remain.
//   - A block whose opening line names a file after the kind ("json tools.json") is written to that file, for the
//     commands below it.
//
// The commands of a document run one after another in the same bash, so variables and background jobs last. They run
// in a new, empty home folder, on a terminal of 100 columns without colours. Background jobs are ended with the
// document. They must print to a file, because their output could come at any time. A command that fails is an error
// unless the document handles it ("|| echo ...").
//
// Output that differs between runs or machines is replaced; see [Rules].
package transcript

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// fence begins and ends a block. prompt begins a command, and chatPrompt a chat message.
const (
	fence      = "```"
	prompt     = "$ "
	chatPrompt = ">>> "
)

// question matches a prompt of a chat, and typed a line that was typed into a chat.
const question = chatPrompt + `|result of [\w-]+: `

var typed = regexp.MustCompile(`^(?:` + question + `)(.+)$`)

// Renew writes the files and runs the commands of doc in the folder home. It returns doc with the new output.
// Programs are found on this process's PATH. ports has the real ports of servers that run already, by the ports that
// the document shows. variables ("NAME=value") are added to the environment of the commands.
func Renew(doc, home string, ports map[string]string, variables ...string) (string, error) {
	sh, err := start(home, ports, variables)
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

// fenced returns the fenced block that lines begin with, including its fences, and the kind and file named in its
// opening line. block is nil if there is none.
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
				return nil, fmt.Errorf("%s: the line %q of its output would look like a command or a fence in the document",
					c.text, line)
			}
		}
		if out = append(out, printed...); len(printed) > 0 && i < len(commands)-1 {
			out = append(out, "")
		}
	}
	return out, nil
}

// command is one command of a document, with the lines that are typed when it asks.
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

// open reports whether a shell would read another line: text ends in a backslash or a bar, or inside quotes.
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
