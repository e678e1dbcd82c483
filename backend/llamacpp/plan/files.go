package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"runner/backend"
	"runner/backend/gguf"
	"runner/hint"
)

// ReadParts reads the header of the file and of all other parts of the model. Their names follow from the path of the
// first, which is opened by a name of its own.
func ReadParts(path, name string) ([]*gguf.File, error) {
	f, err := readHeader(path, name)
	if err != nil {
		return nil, err
	}
	files := []*gguf.File{f}
	n, _ := f.Int("split.count")
	if n <= 1 {
		return files, nil
	}
	suffix := fmt.Sprintf("-%05d-of-%05d.gguf", 1, n)
	if no, _ := f.Int("split.no"); no != 0 || !strings.HasSuffix(path, suffix) || n > 1000 {
		return nil, &backend.LoadError{Path: path, Reason: backend.LoadCorrupt,
			Detail: fmt.Sprintf("is not the first of the %d parts of a model", n),
			Advice: "name the part that ends in " + suffix}
	}
	for i := int64(2); i <= n; i++ {
		other := fmt.Sprintf("%s-%05d-of-%05d.gguf", strings.TrimSuffix(path, suffix), i, n)
		part, err := readHeader(other, other)
		if err != nil {
			return nil, err
		}
		files = append(files, part)
	}
	return files, nil
}

func readHeader(path, name string) (*gguf.File, error) {
	f, err := gguf.Open(name)
	if err == nil {
		return f, nil
	}
	e := &backend.LoadError{Path: path, Reason: backend.LoadFailed, Err: err}
	var format *gguf.FormatError
	switch {
	case errors.As(err, &format):
		e.Detail, e.Advice = format.Error(), hint.Of(err)
		switch format.Kind {
		case gguf.ErrNotGGUF, gguf.ErrVersion:
			e.Reason = backend.LoadNotModel
		case gguf.ErrTruncated:
			e.Reason = backend.LoadTruncated
		default:
			e.Reason = backend.LoadCorrupt
		}
	case errors.Is(err, fs.ErrNotExist):
		e.Reason, e.Detail, e.Advice = backend.LoadMissing, "no such file", "check the path"
	case errors.Is(err, fs.ErrPermission):
		e.Reason, e.Detail, e.Advice = backend.LoadMissing, "no permission to read it", "change the file's permissions"
	default:
		e.Reason, e.Advice = backend.LoadMissing, "check that the disk is readable"
	}
	return nil, e
}
