package hub

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"runner/models/catalog"
)

// Limits of names, in bytes.
const (
	maxPath = 1024
	maxName = 255
)

// CheckPath says why a file's path in a repository cannot be kept, or returns nil. It allows a relative path with
// slashes that no system can take to lead out of a folder: no empty part, no "." or "..", no backslash, drive letter,
// control character or character that turns the direction of writing, and no part over 255 bytes.
func CheckPath(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > maxPath:
		return fmt.Errorf("the name has %d bytes, more than %d", len(name), maxPath)
	case !utf8.ValidString(name) || strings.ContainsRune(name, utf8.RuneError):
		return errors.New("the name is not UTF-8")
	case strings.HasPrefix(name, "/"):
		return errors.New("the name is an absolute path")
	case len(name) > 1 && name[1] == ':' && unicode.IsLetter(rune(name[0])):
		return errors.New("the name begins with a drive letter")
	}
	for _, r := range name {
		if r == '\\' || unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return fmt.Errorf("the name has the character %U", r)
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return fmt.Errorf("the name has the part %q", part)
		case len(part) > maxName:
			return fmt.Errorf("a part of the name has %d bytes, more than %d", len(part), maxName)
		}
	}
	return nil
}

// CheckDistinct returns an error that names two files which cannot lie in one folder on every system: their names
// differ in upper and lower case only, or one is a folder of the other.
func CheckDistinct(files []catalog.File) error {
	names := make(map[string]string, len(files))
	for _, f := range files {
		key := fold(f.Path)
		if other, taken := names[key]; taken {
			return fmt.Errorf("the files %q and %q have the same name on some systems", other, f.Path)
		}
		names[key] = f.Path
	}
	for _, f := range files {
		for dir := path.Dir(fold(f.Path)); dir != "."; dir = path.Dir(dir) {
			if other, taken := names[dir]; taken {
				return fmt.Errorf("the file %q would be in the file %q", f.Path, other)
			}
		}
	}
	return nil
}

// fold maps names that differ in upper and lower case only to the same text.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, name)
}
