package child

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// starts passes commands to the thread that starts them. The kernel ends a child with its parent *thread*, so that
// thread must live as long as this process.
var starts = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

// start starts a process that the kernel ends together with this one, even if it is stopped.
func start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	done := make(chan error)
	starts() <- func() { done <- cmd.Start() }
	return <-done
}

// ownFile returns a name of the file that this process runs. It works even if another file has its place now.
func ownFile() (string, bool) {
	const name = "/proc/self/exe"
	_, err := os.Stat(name)
	return name, err == nil
}

// resident returns how many bytes of a process are in memory, or 0.
func resident(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid)) // it may have ended
	var total, pages int64
	_, _ = fmt.Sscan(string(text), &total, &pages)
	return pages * int64(os.Getpagesize())
}

// sharedFile returns a new file of memory.
func sharedFile() (*os.File, error) {
	fd, err := unix.MemfdCreate("runner-logits", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "runner-logits"), nil
}

// seal forbids everybody to make the shared file shorter. Reading what is not there any more would end this process.
func seal(f *os.File) error {
	_, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
	return os.NewSyscallError("fcntl", err)
}

// enlarge lets pipes hold the masks of a step, so that a writer need not wait for its reader.
func enlarge(pipes ...*os.File) {
	for _, p := range pipes {
		if c, err := p.SyscallConn(); err == nil {
			_ = c.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 1<<20) }) // else it is slower
		}
	}
}
