//go:build unix

// Package terminalpicture draws what commands print on a terminal, as an SVG. It runs the commands and shows their real
// output with its styles. Only tests import it: one of them checks that the picture in the documents is current.
//
// It knows the styles that runner uses, and leaves out its signs of progress. It does not emulate a terminal. Other
// codes are errors.
package terminalpicture

import (
	"errors"
	"fmt"
	"html"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/creack/pty"
)

// The size of the terminal and of its characters.
const (
	Columns    = 80
	Rows       = 40
	charWidth  = 9 // a little more than a character of 14 px takes in any common font
	lineHeight = 19
	margin     = 16
	maxOutput  = 64 << 10
)

// classes has the style of the picture for each style of the terminal.
var classes = map[string]string{"1": "bold", "2": "dim"}

// Draw runs the commands one after another, with the environment env, and draws a terminal that shows them with their
// output.
func Draw(commands, env []string) (string, error) {
	var lines []string
	for i, command := range commands {
		if i > 0 {
			lines = append(lines, "")
		}
		printed, err := run(command, env)
		if err != nil {
			return "", fmt.Errorf("%s: %w", command, err)
		}
		rows, err := styled(printed)
		if err != nil {
			return "", fmt.Errorf("%s: %w", command, err)
		}
		lines = append(lines, `<tspan class="prompt">$</tspan> `+html.EscapeString(command))
		lines = append(lines, rows...)
	}
	if len(lines) > Rows {
		return "", fmt.Errorf("%d lines do not fit into %d rows", len(lines), Rows)
	}
	return svg(lines), nil
}

// run returns what a command prints on a terminal.
func run(command string, env []string) (string, error) {
	if utf8.RuneCountInString("$ "+command) > Columns {
		return "", errors.New("the command is wider than the terminal")
	}
	cmd := exec.Command("sh", "-c", command)
	cmd.Env = append(env, "TERM=xterm-256color")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: Rows, Cols: Columns})
	if err != nil {
		return "", err
	}
	defer terminal.Close()
	printed, err := io.ReadAll(io.LimitReader(terminal, maxOutput))
	if errors.Is(err, syscall.EIO) { // Linux's end of a terminal
		err = nil
	}
	return string(printed), errors.Join(err, cmd.Wait())
}

var (
	style = regexp.MustCompile(`\x1b\[([0-9;]*)m`)
	// progress matches a line that shows that something goes on. It is erased when there is other output, so whether it
	// was shown depends on the speed of the machine.
	progress = regexp.MustCompile(`(?:\r[^\r\n]*\x1b\[K)+`)
	control  = regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f]`)
)

// styled returns the lines of what was printed, as SVG text. A style lasts until it is reset, also over lines.
func styled(printed string) ([]string, error) {
	text := progress.ReplaceAllString(strings.ReplaceAll(printed, "\r\n", "\n"), "")
	text = strings.TrimRight(text, "\n")
	class := ""
	var rows []string
	for line := range strings.SplitSeq(text, "\n") {
		var b strings.Builder
		add := func(text string) error {
			switch bad := control.FindString(text); {
			case bad != "":
				return fmt.Errorf("the output has the control character %q", bad)
			case text == "":
			case class == "":
				b.WriteString(html.EscapeString(text))
			default:
				fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text))
			}
			return nil
		}
		end := 0
		for _, m := range style.FindAllStringSubmatchIndex(line, -1) {
			if err := add(line[end:m[0]]); err != nil {
				return nil, err
			}
			code := line[m[2]:m[3]]
			if class = classes[code]; class == "" && code != "" && code != "0" {
				return nil, fmt.Errorf("the output has the unknown style %q", code)
			}
			end = m[1]
		}
		if err := add(line[end:]); err != nil {
			return nil, err
		}
		rows = append(rows, b.String())
	}
	return rows, nil
}

func svg(lines []string) string {
	width, height := Columns*charWidth+2*margin, len(lines)*lineHeight+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d">
<title>runner in a terminal</title>
<style>
text { font: 14px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d8dee9; white-space: pre }
.dim { fill: #8a93a3 }
.bold { font-weight: bold }
.prompt { fill: #7fb069 }
</style>
<rect width="100%%" height="100%%" rx="8" fill="#1d2129"/>
`, width, height)
	for i, line := range lines {
		if line != "" {
			baseline := margin + (i+1)*lineHeight - 5
			fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", margin, baseline, line)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}
