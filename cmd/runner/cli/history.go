package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"runner/wholefile"
)

// history is what the user typed in chats. It is kept between sessions in a file that only the user can read, one JSON
// string a line. It never holds a model's text. A message that begins with a space is not kept.
//
// It implements [lineeditor.History].
type history struct {
	path  string // if empty, the history is kept in memory
	lines []string
}

const (
	historyLines = 1000
	// historyLine is the maximum size of an entry in bytes. Longer ones are not kept.
	historyLine = 64 << 10
)

// historyPath returns the path of the history file: $XDG_STATE_HOME/runner/history or ~/.local/state/runner/history.
// On macOS and Windows the system's folder for application data replaces ~/.local/state. The path is empty if there is
// no such folder.
func historyPath() string {
	dir := os.Getenv("XDG_STATE_HOME")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		switch runtime.GOOS {
		case "darwin", "windows":
			if dir, err = os.UserConfigDir(); err != nil {
				return ""
			}
		default:
			dir = filepath.Join(home, ".local", "state")
		}
	}
	return filepath.Join(dir, "runner", "history")
}

// openHistory reads the history at path. If the file cannot be read, the history is empty.
func openHistory(path string) *history {
	h := &history{path: path}
	f, err := os.Open(path)
	if err != nil {
		return h
	}
	defer f.Close()
	total := 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 8*historyLine)
	for lines.Scan() {
		var line string
		if json.Unmarshal(lines.Bytes(), &line) != nil || line == "" {
			continue
		}
		total++
		if h.lines = append(h.lines, line); len(h.lines) > historyLines {
			h.lines = h.lines[1:]
		}
	}
	if total > 2*historyLines {
		h.rewrite()
	}
	return h
}

// add adds a message. It keeps a message that was entered twice in a row only once.
func (h *history) add(line string) error {
	repeated := len(h.lines) > 0 && h.lines[len(h.lines)-1] == line
	if repeated || strings.HasPrefix(line, " ") || len(line) > historyLine {
		return nil
	}
	h.lines = append(h.lines, line)
	if h.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(json.NewEncoder(f).Encode(line), f.Close())
}

// rewrite shortens the file to the newest lines. If that fails, the long file stays.
func (h *history) rewrite() {
	var text bytes.Buffer
	for enc, i := json.NewEncoder(&text), 0; i < len(h.lines); i++ {
		if enc.Encode(h.lines[i]) != nil {
			return
		}
	}
	_ = wholefile.Write(h.path, text.Bytes(), 0o600)
}

// Line returns line i, the oldest first.
func (h *history) Line(i int) string { return h.lines[i] }

// Len returns the number of lines.
func (h *history) Len() int { return len(h.lines) }
