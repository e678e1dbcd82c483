package cli

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A key is shown only once. If it cannot be printed, the command fails.
func TestKeyThatCannotBePrinted(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the system has no device that is always full: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var errs bytes.Buffer
	cmd := exec.Command("runner", "serve", "apikey", "new", filepath.Join(t.TempDir(), "keys.json"), "laptop")
	cmd.Stdout, cmd.Stderr = full, &errs
	err = cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != exitFailed ||
		!strings.HasSuffix(errs.String(), "; remove it from the file and make another\n") {
		t.Errorf("exit code %d, %q", got, errs.String())
	}
}

func TestFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("the system has no device that is always full: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"run", "hello"}, {"run", "--output", "json", "hello"},
		{"run", "--output", "events", "hello"}, {"version"}, {"doctor"}} {
		var errs bytes.Buffer
		cmd := exec.Command("runner", args...)
		cmd.Stdout, cmd.Stderr = full, &errs
		err := cmd.Run()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != exitFailed ||
			!strings.HasSuffix(errs.String(), "; free some space, or write elsewhere\n") {
			t.Errorf("%v: exit code %d, %q", args, got, errs.String())
		}
	}
}
