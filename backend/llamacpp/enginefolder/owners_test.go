package enginefolder

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
)

// TestRightsOfTheSystem: nobody is told to change the rights of a folder of the system, or of another user.
func TestRightsOfTheSystem(t *testing.T) {
	const me = 501
	for path, o := range map[string]ownership{
		"/home/me/engine":    {fs.ModeDir | 0o775, 0, 0},
		"/tmp":               {fs.ModeDir | fs.ModeSticky | 0o777, 0, 0},
		"/data/shared":       {fs.ModeDir | fs.ModeSticky | 0o777, me, 0},
		"/home":              {fs.ModeDir | 0o777, me, 0},
		"/usr/lib":           {fs.ModeDir | 0o775, me, 0},
		"/usr/local/lib":     {fs.ModeDir | 0o775, me, 0},
		"/private/something": {fs.ModeDir | 0o777, me, 0},
	} {
		var e *Error
		if err := o.check(path, me, "linux"); !errors.As(err, &e) || e.Advice == "" || strings.Contains(e.Advice, "chmod") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := (ownership{fs.ModeDir | 0o775, me, 0}).check("/home/me/engine", me, "linux"); err == nil ||
		!strings.Contains(err.Error(), "chmod go-w /home/me/engine") {
		t.Errorf("a folder of this user: %v", err)
	}
}

// TestOwnership: the group may write only where it is that of macOS's administrators.
func TestOwnership(t *testing.T) {
	const me = 501
	folder, file := fs.ModeDir|0o775, fs.FileMode(0o664)
	for _, c := range []struct {
		o      ownership
		system string
		want   string
	}{
		{ownership{folder, me, admin}, "darwin", ""},
		{ownership{file, me, admin}, "darwin", ""},
		{ownership{folder, 0, admin}, "darwin", ""},
		{ownership{folder, 502, admin}, "darwin", "belongs to another user"},
		{ownership{folder | 0o002, me, admin}, "darwin", "can be written by other users"},
		{ownership{folder, me, 20}, "darwin", "can be written by other users"}, // staff, which is everybody
		{ownership{folder, me, 0}, "darwin", "can be written by other users"},
		{ownership{folder, me, admin}, "linux", "can be written by other users"},
		{ownership{fs.ModeDir | 0o755, me, 20}, "darwin", ""},
		{ownership{fs.ModeNamedPipe | 0o600, me, 20}, "darwin", "is not a file"},
	} {
		err := c.o.check("/opt/homebrew", me, c.system)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v on %s: %v, want %q", c.o, c.system, err, c.want)
		}
	}
}
