package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"runner/bench"
	"runner/bench/plot"
)

// picture is the file of --plot. One that was there stays as it is until there is something to draw.
type picture struct {
	file *os.File
	// made says that the file is new, and drawn that it has its picture.
	made, drawn bool
}

// openPicture opens the file of --plot, before anything is measured for it. It returns nil without one.
func openPicture(path string) (*picture, error) {
	if path == "" {
		return nil, nil
	}
	if end := filepath.Ext(path); end != "" && !strings.EqualFold(end, ".svg") {
		return nil, &usageError{what: fmt.Sprintf("--plot cannot be %q", path),
			hint: "use a name that ends with .svg, which is what it draws"}
	}
	_, err := os.Lstat(path)
	p := &picture{made: errors.Is(err, fs.ErrNotExist)}
	if p.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o666); err != nil {
		return nil, &inputError{what: fmt.Sprintf("%s cannot be written: %v", path, reason(err)),
			hint: "name a file in a folder that is there", err: err}
	}
	return p, nil
}

// draw draws results into the file, if there is one.
func (p *picture) draw(rows []bench.Row) error {
	if p == nil {
		return nil
	}
	var b bytes.Buffer
	if err := plot.SVG(&b, rows); err != nil {
		return err
	}
	if info, err := p.file.Stat(); err == nil && info.Mode().IsRegular() {
		if err := p.file.Truncate(0); err != nil {
			return err
		}
	}
	p.drawn = true
	if _, err := b.WriteTo(p.file); err != nil {
		return err
	}
	return p.file.Close()
}

// close closes the file, and removes a new one without a picture.
func (p *picture) close() {
	if p == nil {
		return
	}
	_ = p.file.Close()
	if p.made && !p.drawn {
		_ = os.Remove(p.file.Name())
	}
}
