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
)

// inMountsVariable says that the test binary may mount file systems, which other processes do not see.
const inMountsVariable = "CLI_TEST_IN_MOUNTS"

// TestFullDiskScripts runs the program with stores that are full or read-only, in a process that may mount file
// systems.
func TestFullDiskScripts(t *testing.T) {
	if os.Getenv(inMountsVariable) == "" {
		inMounts(t)
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

// inMounts runs the test in its own process.
func inMounts(t *testing.T) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inMountsVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch exit := (*exec.ExitError)(nil); {
	case err != nil && !errors.As(err, &exit):
		t.Skipf("the system has no user namespaces to mount file systems in: %v", err)
	case err != nil:
		t.Errorf("%v: %s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
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
