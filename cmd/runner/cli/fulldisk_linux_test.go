package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"runner/cmd/runner/scripttest"
	"runner/models/hub/hubtest"
	"runner/testenv"
)

// TestFullDiskScripts runs the program with stores that are full or read-only, in a process that may mount file
// systems.
func TestFullDiskScripts(t *testing.T) {
	if !testenv.Mounts(t) {
		return
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/full",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", noRaceDelay)
			e.Setenv("HOME", e.WorkDir+"/home")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": scripttest.Exits, "storetrace": storeTrace, "disk": mountDisk, "fill": fillDisk, "readonly": mountReadOnly,
		},
	})
}

// TestFullDiskPull pulls to a disk that is too small.
func TestFullDiskPull(t *testing.T) {
	if !testenv.Mounts(t) {
		return
	}
	h, cache := hubtest.Start(t), t.TempDir()
	h.Add(hubtest.Repo{ID: "Org/Tiny-GGUF", Files: []hubtest.File{
		{Path: "tiny-Q4_K_M.gguf", Content: make([]byte, 1_300_000), LFS: true}}})
	if err := syscall.Mount("tmpfs", cache, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Unmount(cache, syscall.MNT_DETACH) }()
	cmd := exec.Command("runner", "pull", "org/tiny")
	cmd.Env = append(os.Environ(), "HF_ENDPOINT="+h.URL, "HF_HUB_CACHE="+cache, "HOME="+t.TempDir(), "HF_TOKEN=",
		noRaceDelay)
	if told, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(told), "1.2 MiB more are needed and 1.0 "+
		"MiB are free in "+cache) || !strings.Contains(string(told), "make room, or set HF_HOME") {
		t.Errorf("runner pull to a small disk: %v: %s", err, told)
	}
}

// mountDisk mounts a small disk: disk FOLDER SIZE.
func mountDisk(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+args[1]))
	ts.Defer(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// fillDisk uses all remaining space: fill FOLDER.
func fillDisk(ts *testscript.TestScript, _ bool, args []string) {
	f, err := os.OpenFile(filepath.Join(ts.MkAbs(args[0]), "filler"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	ts.Check(err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		ts.Check(err)
	}
	ts.Check(f.Close())
}

// mountReadOnly mounts a folder a second time, read-only: readonly FOLDER AT.
func mountReadOnly(ts *testscript.TestScript, _ bool, args []string) {
	from, to := ts.MkAbs(args[0]), ts.MkAbs(args[1])
	ts.Check(os.MkdirAll(to, 0o700))
	ts.Check(syscall.Mount(from, to, "", syscall.MS_BIND, ""))
	ts.Defer(func() { _ = syscall.Unmount(to, syscall.MNT_DETACH) })
	ts.Check(syscall.Mount("", to, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
}
