//go:build !linux

package child

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// resident returns how many bytes of a process are in memory, or 0. The system tells other processes than ps only by
// calls in C.
func resident(pid int) int64 {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	text, _ := exec.CommandContext(ctx, "/bin/ps", "-o", "rss=", "-p", strconv.Itoa(pid)).Output() // it may have ended
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n << 10
}
