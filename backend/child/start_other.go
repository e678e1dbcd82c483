//go:build !linux

package child

import (
	"os"
	"os/exec"
	"syscall"
)

// start starts a process. It ends when its pipe from this process is closed, unless it is stopped.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd.Start()
}

// ownFile reports that the system has no name for the file that this process runs.
func ownFile() (string, bool) { return "", false }

// sharedFile returns a new file that no folder lists.
func sharedFile() (*os.File, error) {
	f, err := os.CreateTemp("", "runner-logits-*")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// seal does nothing: the system has no seals.
func seal(*os.File) error { return nil }

// enlarge does nothing: the system sizes its pipes itself.
func enlarge(...*os.File) {}

// resident returns how many bytes of a process are in memory, or 0.
func resident(int) int64 { return 0 }
