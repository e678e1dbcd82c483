//go:build unix

package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"
)

// patience is the longest time that a command may print nothing.
const patience = time.Minute

// columns is the width of the terminal.
const columns = 100

// port stands in documents for the port of their servers. The real port is any free one.
const port = "8080"

// shell is the bash that runs the commands of a document on a terminal.
type shell struct {
	cmd      *exec.Cmd
	commands *os.File // bash's input
	terminal *os.File // the other end of bash's terminal
	printed  chan []byte
	home     string
	script   string // the file that holds the current command
	ports    *strings.Replacer
	standIns standIns
}

func start(home string, ports map[string]string, variables []string) (*shell, error) {
	home, err := filepath.EvalSymlinks(home) // as programs print it
	if err != nil {
		return nil, err
	}
	free, err := freePort()
	if err != nil {
		return nil, err
	}
	script, err := os.CreateTemp("", "command")
	if err != nil {
		return nil, err
	}
	script.Close()
	typed, shown := []string{"--port " + port, "--port " + free}, []string{home, "/home/me"}
	all := map[string]string{port: free}
	maps.Copy(all, ports)
	for p, used := range all {
		typed, shown = append(typed, ":"+p, ":"+used), append(shown, ":"+used, ":"+p)
	}
	sh := &shell{home: home, script: script.Name(), printed: make(chan []byte), ports: strings.NewReplacer(typed...),
		standIns: newStandIns(shown...)}
	if err := sh.begin(append(environment(home), variables...)); err != nil {
		os.Remove(sh.script)
		return nil, err
	}
	go sh.receive()
	return sh, nil
}

// begin starts bash in a new session with a new terminal. Bash writes to the terminal, which is also open for reading
// as file 3.
func (sh *shell) begin(env []string) error {
	master, slave, err := pty.Open()
	if err != nil {
		return err
	}
	defer slave.Close()
	read, write, err := os.Pipe()
	if err != nil {
		master.Close()
		return err
	}
	defer read.Close()
	sh.terminal, sh.commands = master, write
	sh.cmd = exec.Command("bash", "--noprofile", "--norc")
	sh.cmd.Dir, sh.cmd.Env = sh.home, env
	sh.cmd.Stdin, sh.cmd.Stdout, sh.cmd.Stderr, sh.cmd.ExtraFiles = read, slave, slave, []*os.File{slave}
	sh.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
	_, err = term.MakeRaw(int(slave.Fd())) // no echo, and lines end as they were printed
	err = errors.Join(err, pty.Setsize(slave, &pty.Winsize{Rows: 50, Cols: columns}))
	if err == nil {
		err = sh.cmd.Start()
	}
	if err != nil {
		master.Close()
		write.Close()
	}
	return err
}

// environment returns the environment of the commands. It passes on only the variables that programs need to start,
// and nothing about the user. It hides GPUs, because their sums differ from those of processors.
func environment(home string) []string {
	env := []string{"HOME=" + home, "TERM=dumb", "NO_COLOR=1", "LC_ALL=C.UTF-8", "TZ=UTC", "CUDA_VISIBLE_DEVICES="}
	for name, folder := range map[string]string{"CACHE": ".cache", "CONFIG": ".config", "DATA": ".local/share",
		"STATE": ".local/state"} {
		env = append(env, "XDG_"+name+"_HOME="+filepath.Join(home, folder))
	}
	for _, name := range []string{"PATH", "TMPDIR", "LD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// close ends bash and every program that it has left running.
func (sh *shell) close() {
	sh.commands.Close()
	_ = syscall.Kill(-sh.cmd.Process.Pid, syscall.SIGKILL)
	for range sh.printed { // until receive has ended
	}
	_ = sh.cmd.Wait()
	sh.terminal.Close()
	os.Remove(sh.script)
}

func (sh *shell) receive() {
	defer close(sh.printed)
	for {
		buf := make([]byte, 64<<10)
		n, err := sh.terminal.Read(buf)
		if n > 0 {
			sh.printed <- buf[:n]
		}
		if err != nil {
			return
		}
	}
}

// asking matches the prompt of a chat at the end of the output. codes are terminal codes that appear in the output.
// done is printed after each command.
var (
	asking = regexp.MustCompile(`(?:^|\n)(` + question + `)$`)
	codes  = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`)
	done   = regexp.MustCompile("\x00([0-9]+)\x00")
)

// run runs one command and returns the lines that it printed, after the rules were applied.
func (sh *shell) run(c command) ([]string, error) {
	if err := os.WriteFile(sh.script, []byte(sh.ports.Replace(c.text)+"\n"), 0o600); err != nil {
		return nil, err
	}
	input := "/dev/null"
	if len(c.typed) > 0 {
		input = "/dev/fd/3"
	}
	if _, err := fmt.Fprintf(sh.commands, ". %s <%s; printf '\\0%%d\\0' $?\n", sh.script, input); err != nil {
		return nil, err
	}
	var got []byte
	entered := 0 // how many lines of the chat were typed
	for {
		select {
		case b, ok := <-sh.printed:
			if !ok {
				return nil, fmt.Errorf("the shell has ended after %q", got)
			}
			got = append(got, b...)
		case <-time.After(patience):
			return nil, fmt.Errorf("no output for %v after %q", patience, got)
		}
		end, asked := done.FindSubmatch(got), asking.FindSubmatch(got)
		switch {
		case end != nil && string(end[1]) != "0":
			return nil, fmt.Errorf("exit code %s after %q", end[1], got)
		case end != nil && len(c.typed) > entered:
			return nil, fmt.Errorf("the command did not ask for %q", c.typed[entered])
		case end != nil:
			return sh.shown(done.ReplaceAll(got, nil)), nil
		case len(c.typed) > 0 && asked != nil:
			if err := sh.enter(string(asked[1]), c.typed[min(len(c.typed), entered):]); err != nil {
				return nil, err
			}
			entered++
		}
	}
}

// enter types the first of the remaining lines at a chat's prompt. If no line remains, it leaves the chat.
func (sh *shell) enter(question string, left []string) error {
	keys := "\x04"
	switch {
	case len(left) > 0 && len(question+left[0]) >= columns:
		return fmt.Errorf("%q is longer than a row of the terminal", question+left[0])
	case len(left) > 0:
		keys = left[0] + "\r"
	case question != chatPrompt:
		return fmt.Errorf("the document has no line to type at %q", question)
	}
	_, err := sh.terminal.WriteString(keys)
	return err
}

// shown splits the output of a command into lines. It leaves out the prompt at which a chat was left.
func (sh *shell) shown(printed []byte) []string {
	printed = codes.ReplaceAll(bytes.ReplaceAll(printed, []byte("\r\n"), []byte("\n")), nil)
	text := strings.TrimRight(sh.standIns.replace(string(printed)), "\n")
	text = strings.Trim(strings.TrimSuffix(text, chatPrompt), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return lines
}

// freePort returns an unused port of the loopback interface.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port), nil
}
