package testenv

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// inMounts tells the test binary that it may mount file systems, which no other process sees.
const inMounts = "RUNNER_TEST_IN_MOUNTS"

// Mounts runs the test again in a process that may mount file systems. It reports whether this is that process. In the
// other one nothing is left to do.
func Mounts(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inMounts) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inMounts+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	switch exit := (*exec.ExitError)(nil); {
	case errors.As(err, &exit):
		t.Errorf("%v: %s", err, out)
	case refused(err):
		t.Skipf("the system lets no process have mounts of its own: %v", err)
	case err != nil:
		t.Fatal(err)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Fatalf("the test did not run again:\n%s", out)
	}
	return false
}

// Mount mounts a file system until the test ends. It skips the test if the system refuses that.
func Mount(t *testing.T, source, target, kind string, flags uintptr, options string) {
	t.Helper()
	if err := syscall.Mount(source, target, kind, flags, options); refused(err) {
		t.Skipf("the system refuses to mount a file system: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(target, syscall.MNT_DETACH) })
}

// refused reports whether the system does not allow what was tried, or not here: EINVAL and ENOSYS come from a kernel
// without user namespaces, and ENOSPC and EUSERS if no more of them are allowed.
func refused(err error) bool {
	for _, no := range []syscall.Errno{syscall.EPERM, syscall.EACCES, syscall.EINVAL, syscall.ENOSYS, syscall.ENOSPC,
		syscall.EUSERS} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}
