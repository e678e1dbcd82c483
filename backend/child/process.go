package child

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"runner/backend"
	"runner/backend/child/protocol"
)

// Program says how to start an engine's process.
type Program struct {
	// Path is the program's file, Name what it is told about its own name; empty means Path.
	Path, Name string
	Args       []string
	// Env is its environment; nil means that of this process. Variables RUNNER_... are left out.
	Env []string
	// Input is what it reads from its standard input; nil means nothing.
	Input []byte
	// Model is a file that it inherits; nil means none. It must be open while the program is started.
	Model *os.File
}

// Self returns this program with other arguments. An upgrade that replaces the program's file does not matter, because
// the system starts the file that this process runs, where it can.
func Self(args ...string) (Program, error) {
	if path, ok := ownFile(); ok {
		return Program{Path: path, Name: os.Args[0], Args: args}, nil
	}
	path, err := os.Executable()
	return Program{Path: path, Args: args}, err
}

// pipe is one end of a pipe to an engine.
type pipe interface {
	io.ReadWriteCloser
	SetWriteDeadline(t time.Time) error
}

// process is a running engine with its pipes.
type process struct {
	in     pipe // the engine's frames
	out    pipe
	shared *os.File // nil if the system has no such file
	said   *tail
	pid    int
	end    func()        // ends the process at once; it may have ended
	ended  chan struct{} // closed when the process has ended and state is set
	state  *os.ProcessState
}

// begin starts a program.
func begin(p Program) (*process, error) {
	theirIn, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in, theirOut, err := os.Pipe()
	if err != nil {
		closeAll(theirIn, out)
		return nil, err
	}
	shared, err := sharedFile()
	if err != nil {
		closeAll(theirIn, out, in, theirOut)
		return nil, err
	}
	enlarge(out, in)
	c := &process{in: in, out: out, shared: shared, said: &tail{}, ended: make(chan struct{})}
	cmd := exec.Command(p.Path, p.Args...)
	if p.Name != "" {
		cmd.Args[0] = p.Name
	}
	cmd.Env = environment(p.Env)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut, shared} // descriptors 3, 4 and 5
	if p.Model != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, p.Model) // 6
	}
	if p.Input != nil {
		cmd.Stdin = bytes.NewReader(p.Input)
	}
	cmd.Stdout, cmd.Stderr = c.said, c.said
	cmd.WaitDelay = time.Second // a program that it started may hold its output open
	err = start(cmd)
	closeAll(theirIn, theirOut)
	if err != nil {
		closeAll(out, in, shared)
		return nil, fmt.Errorf("starting the engine's process: %w", err)
	}
	c.pid = cmd.Process.Pid
	c.end = func() { _ = cmd.Process.Kill() }
	go func() {
		_ = cmd.Wait() // state says all
		c.state = cmd.ProcessState
		_ = in.SetReadDeadline(time.Now().Add(time.Second)) // a program that it started may hold the pipe open
		close(c.ended)
	}()
	return c, nil
}

// environment returns an engine's environment: given, or that of this process if given is nil. It lacks this
// program's own variables, because keys and passphrases are among them and an engine need not be trusted with them.
func environment(given []string) []string {
	if given == nil {
		given = os.Environ()
	}
	return slices.DeleteFunc(slices.Clone(given), func(v string) bool {
		return strings.HasPrefix(v, "RUNNER_") && !strings.HasPrefix(v, "RUNNER_TEST_")
	})
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// kill ends the process at once and waits for it.
func (c *process) kill() {
	c.end()
	<-c.ended
	c.in.Close()
	c.out.Close()
	closeAll(c.shared)
}

// stop lets the process end, and kills it after a while.
func (c *process) stop() {
	_ = c.out.SetWriteDeadline(time.Now().Add(time.Second)) // a stopped process leaves the pipe full
	_ = protocol.NewWriter(c.out).WriteJSON(protocol.KindShutdown, nil, nil)
	c.out.Close()
	select {
	case <-c.ended:
	case <-time.After(2 * time.Second):
	}
	c.kill()
}

// how says how the process ended, with what it said about that.
func (c *process) how() string {
	if c.state == nil {
		return "it has not ended"
	}
	text := c.state.String()
	if w, ok := c.state.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		text = "signal: " + w.Signal().String()
	}
	if line := c.said.line(); line != "" {
		text += ": " + line
	}
	return text
}

// tail keeps the last lines that an engine writes.
type tail struct {
	mu sync.Mutex
	// words are the last lines, without those of a dump: the stacks and registers that Go's runtime writes at an abort.
	words  []words
	dumped bool // a dump has begun
	// log gets each line; nil gets none. part is the beginning of a line, if it was not written whole.
	log  *slog.Logger
	part []byte
}

// words are a line and when it was written.
type words struct {
	text string
	at   time.Time
}

const (
	// kept is the greatest length of a line that is reported to the log, and mostSaid that of one in an error.
	kept     = 4 << 10
	mostSaid = 200
	// keptLines is how many lines are kept. A trace of a C++ program, which may follow its reason, is shorter.
	keptLines = 100
	// lastWords is how long before the end of a process its last words were written at most. What it wrote before that
	// was not the reason.
	lastWords = 10 * time.Second
)

var (
	// dumpStart matches the line that begins a dump.
	dumpStart = regexp.MustCompile(`^(PC=0x|runtime stack:|goroutine \d+ )`)
	// logLine matches a line that the runner's own end of the pipe writes only if it is asked for all messages.
	logLine = regexp.MustCompile(`^(DEBUG|INFO|WARN|ERROR)[ +-]`)
	// reasons match lines that say why a program ends, the best first. A signal is often only how.
	reasons = []*regexp.Regexp{
		regexp.MustCompile(`(?i)assert|error\b|fatal|panic:|abort\w* with|what\(\):|terminate called`),
		regexp.MustCompile(`^SIG[A-Z0-9]+: |(?i:abort)`),
	}
)

// follow also reports what the engine writes from now on, line by line, as debug messages.
func (t *tail) follow(log *slog.Logger) {
	if log == nil || !log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = log
}

// Write implements io.Writer. A long line is cut.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte("\n"))
		t.part = append(t.part, line[:min(len(line), kept-len(t.part))]...)
		if !whole {
			break
		}
		if text := bytes.TrimSpace(t.part); len(text) > 0 {
			t.add(string(text))
		}
		t.part, p = t.part[:0], rest
	}
	return n, nil
}

// add takes a line.
func (t *tail) add(line string) {
	if t.log != nil {
		t.log.Debug("the engine says", "line", line)
	}
	if t.dumped = t.dumped || dumpStart.MatchString(line); t.dumped {
		return
	}
	if len(t.words) == keptLines {
		t.words = slices.Delete(t.words, 0, 1)
	}
	t.words = append(t.words, words{line[:min(mostSaid, len(line))], time.Now()})
}

// all returns the lines that are kept, and the beginning of one that was not written whole.
func (t *tail) all() []words {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := slices.Clone(t.words)
	if text := string(bytes.TrimSpace(t.part)); text != "" && !t.dumped {
		list = append(list, words{text[:min(mostSaid, len(text))], time.Now()})
	}
	return list
}

// memory returns a line that says that the engine got no memory, if there is one.
func (t *tail) memory() (line string, ok bool) {
	for _, w := range t.all() {
		if backend.IsMemoryMessage(w.text) {
			return w.text, true
		}
	}
	return "", false
}

// line returns the line that says most about the end: of the last words the last that names a reason, or the last.
func (t *tail) line() string {
	list := slices.DeleteFunc(t.all(), func(w words) bool {
		return time.Since(w.at) > lastWords || logLine.MatchString(w.text)
	})
	slices.Reverse(list)
	for _, r := range reasons {
		for _, w := range list {
			if r.MatchString(w.text) {
				return w.text
			}
		}
	}
	if len(list) == 0 {
		return ""
	}
	return list[0].text
}
