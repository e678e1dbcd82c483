//go:build unix

package cli

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"runner/cmd/runner/lineeditor/lineeditortest"
)

// terminal is the program on a pseudo-terminal.
type terminal struct {
	t    *testing.T
	file *os.File
	cmd  *exec.Cmd
	dir  string
	// more has an element when text has arrived since expect looked. done is closed when no more text can arrive.
	more, done chan struct{}
	// answers is set for a terminal that answers the program's questions with a position.
	answers atomic.Bool

	mu   sync.Mutex
	text string // the received text
	seen int    // how much of text expect has passed
}

// hang is the maximum wait of a test. It is long enough for a slow or busy machine.
const hang = 2 * time.Minute

// wideTerminal is so wide that no answer of the tests is broken into lines.
const wideTerminal = 9000

func start(t *testing.T, env []string, args ...string) *terminal {
	t.Helper()
	return startIn(t, wideTerminal, env, args...)
}

// startIn is start with a terminal of some columns.
func startIn(t *testing.T, columns uint16, env []string, args ...string) *terminal {
	t.Helper()
	bin, err := exec.LookPath("runner")
	if err != nil {
		t.Fatal(err)
	}
	tt := &terminal{t: t, cmd: exec.Command(bin, args...), dir: t.TempDir(), more: make(chan struct{}, 1),
		done: make(chan struct{})}
	tt.cmd.Dir = tt.dir
	tt.cmd.Env = append(os.Environ(), "HOME="+tt.dir, "XDG_STATE_HOME="+tt.dir+"/state", "HF_HUB_CACHE="+tt.dir,
		"TERM=xterm-256color", "NO_COLOR=")
	tt.cmd.Env = append(tt.cmd.Env, env...)
	if tt.file, err = pty.StartWithSize(tt.cmd, &pty.Winsize{Rows: 40, Cols: columns}); err != nil {
		t.Fatal(err)
	}
	go tt.receive()
	t.Cleanup(func() {
		tt.cmd.Process.Kill()
		tt.file.Close()
		<-tt.done
	})
	return tt
}

func (tt *terminal) receive() {
	defer close(tt.done)
	buf := make([]byte, 4096)
	answered := 0
	for {
		n, err := tt.file.Read(buf)
		tt.mu.Lock()
		tt.text += string(buf[:n])
		asked := 0
		if tt.answers.Load() {
			asked = len(lineeditortest.Questions.FindAllString(tt.text, -1))
		}
		tt.mu.Unlock()
		for ; answered < asked; answered++ {
			_, _ = tt.file.WriteString("\x1b[5;5R")
		}
		select {
		case tt.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

func (tt *terminal) send(s string) {
	tt.t.Helper()
	if _, err := tt.file.WriteString(s); err != nil {
		tt.t.Fatal(err)
	}
}

// enter waits for the prompt and types a line.
func (tt *terminal) enter(line string) {
	tt.t.Helper()
	tt.expect(emptyPrompt)
	tt.send(line + "\r")
}

// expect waits until text arrives and returns the output since the last expect, up to its end.
func (tt *terminal) expect(text string) string {
	tt.t.Helper()
	timeout := time.After(hang)
	for over := false; ; {
		tt.mu.Lock()
		rest := tt.text[tt.seen:]
		if i := strings.Index(rest, text); i >= 0 {
			tt.seen += i + len(text)
			tt.mu.Unlock()
			return rest[:i+len(text)]
		}
		tt.mu.Unlock()
		if over {
			tt.t.Fatalf("no %q in %q", text, rest)
		}
		select {
		case <-tt.more:
		case <-tt.done:
			over = true
		case <-timeout:
			over = true
		}
	}
}

// stateOf returns how a terminal is set.
func stateOf(t *testing.T, file *os.File) *term.State {
	t.Helper()
	raw, err := file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var state *term.State
	if failed := raw.Control(func(fd uintptr) { state, err = term.GetState(int(fd)) }); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	return state
}

// freshState returns how a new terminal is set.
func freshState(t *testing.T) *term.State {
	t.Helper()
	other, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	defer slave.Close()
	return stateOf(t, slave)
}

// exit waits for the end of the program and checks its exit code.
func (tt *terminal) exit(want int) {
	tt.t.Helper()
	done := make(chan error, 1)
	go func() { done <- tt.cmd.Wait() }()
	select {
	case err := <-done:
		if ee := (*exec.ExitError)(nil); err != nil && !errors.As(err, &ee) {
			tt.t.Fatal(err)
		}
	case <-time.After(hang):
		tt.stuck()
	}
	if got := tt.cmd.ProcessState.ExitCode(); got != want {
		tt.t.Fatalf("exit code %d, want %d; %q", got, want, tt.text)
	}
	<-tt.done
}

// stuck fails the test with what a program that did not end has shown, and with what its goroutines wait for.
func (tt *terminal) stuck() {
	tt.t.Helper()
	_ = tt.cmd.Process.Signal(syscall.SIGQUIT) // the runtime then prints its goroutines
	select {
	case <-tt.done:
	case <-time.After(10 * time.Second):
	}
	tt.mu.Lock()
	defer tt.mu.Unlock()
	tt.t.Fatalf("still running after %v; %s", hang, tt.text[tt.seen:])
}

// ready ends what the line editor draws. After a prompt, it means that the line is empty.
const ready = "\x1b[?7h"

// emptyPrompt is the prompt with nothing typed yet.
const emptyPrompt = ">>> " + ready

func TestChat(t *testing.T) {
	tt := start(t, nil, "run", "--reasoning", "full")
	tt.expect("/help lists the commands")
	tt.enter("What is 17 + 25?")
	tt.expect("\x1b[2mReasoning:\r\n17 plus 25 makes 42.\x1b[0m\r\n\r\n42\r\n")

	// The conversation grows, and commands change the later turns.
	tt.enter("how many messages")
	tt.expect("3 messages")
	tt.enter("/reasoning summary")
	tt.expect("Reasoning shown: summary.")
	tt.enter("summary after the answer")
	tt.expect("Summary of the reasoning:\r\nAdding gives 42.\x1b[0m\r\n\r\n42\r\n")
	tt.enter("/reasoning loud")
	tt.expect(`runner: /reasoning cannot be "loud"; use none, summary or full`)
	tt.enter("/effort high")
	tt.expect("Reasoning effort: high.")
	tt.enter("request")
	tt.expect(`"effort":"high"`)
	tt.enter("/frobnicate")
	tt.expect("runner: there is no command /frobnicate; /help lists them")
	tt.enter("/help")
	tt.expect("/save")

	// The shown text can be saved, but only once to the same file.
	tt.enter("/save talk.md")
	tt.expect("Saved to talk.md.")
	tt.enter("/save talk.md")
	tt.expect("runner: /save talk.md: the file exists already; choose another name")
	tt.enter("/clear")
	tt.expect("The conversation is forgotten.")
	tt.enter("how many messages")
	tt.expect("1 messages")
	tt.enter("/exit")
	tt.exit(0)

	saved, err := os.ReadFile(filepath.Join(tt.dir, "talk.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# Conversation with scripted model\n", "## You\n\nWhat is 17 + 25?\n",
		"## Reasoning\n\n17 plus 25 makes 42.\n", "## Answer\n\n42\n", "## Summary of the reasoning\n\nAdding gives 42.\n"} {
		if !strings.Contains(string(saved), want) {
			t.Errorf("the saved conversation has no %q:\n%s", want, saved)
		}
	}
	if strings.Count(string(saved), "\n17 plus") != 1 {
		t.Errorf("reasoning that was not shown was saved:\n%s", saved)
	}
	checkPrivate(t, filepath.Join(tt.dir, "talk.md"))

	// The history is private and contains only what was typed.
	path := filepath.Join(tt.dir, "state", "runner", "history")
	checkPrivate(t, path)
	history, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(history), "What is 17 + 25?") || strings.Contains(string(history), "plus") {
		t.Errorf("history:\n%s", history)
	}
}

func checkPrivate(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("%s has mode %v", path, info.Mode())
	}
}

func TestChatReasoningIsHiddenByDefault(t *testing.T) {
	tt := start(t, nil, "run")
	tt.enter("What is 17 + 25?")
	tt.expect("42")
	tt.expect(emptyPrompt)
	tt.send("\x04")
	tt.exit(0)
	if strings.Contains(tt.text, "plus") {
		t.Errorf("reasoning is shown: %q", tt.text)
	}
}

func TestChatInterrupts(t *testing.T) {
	tt := start(t, nil, "run")
	// One Ctrl-C stops the turn and keeps the answer so far.
	tt.enter("slow")
	tt.expect("working")
	tt.send("\x03")
	tt.expect("Stopped.")
	tt.enter("how many messages")
	tt.expect("3 messages")
	tt.expect(emptyPrompt)
	// On a line with text it only clears the line.
	tt.send("half a message\x03")
	tt.expect(emptyPrompt)
	tt.send("\x03")
	tt.expect("Ctrl-C again leaves")
	tt.expect(emptyPrompt)
	tt.send("the other half\x03")
	tt.expect(emptyPrompt)
	tt.send("\x03")
	tt.expect("Ctrl-C again leaves")
	tt.enter("how many messages")
	tt.expect("5 messages")
	// Two leave the chat, even during a turn.
	tt.enter("slow")
	tt.expect("working")
	tt.send("\x03")
	tt.expect("Stopped.")
	tt.expect(emptyPrompt)
	tt.send("\x03")
	tt.exit(exitInterrupted)
}

// A signal that ends the program finds a prompt, an answer or a question. The terminal is left as it was.
func TestChatIsEndedBySignals(t *testing.T) {
	before := freshState(t)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		if signal.Ignored(sig) { // as under nohup
			t.Logf("SKIPPED: %v, which this process ignores, and so does the program that it starts", sig)
			continue
		}
		for _, where := range []struct{ message, shows string }{
			{"half", "half"}, {"slow\r", "working"}, {"weather\r", "result of get_weather: " + ready},
		} {
			tt := start(t, nil, "run")
			tt.expect(emptyPrompt)
			if raw := stateOf(t, tt.file); *raw == *before {
				t.Fatal("the editor does not change the terminal, so this test finds nothing")
			}
			tt.send(where.message)
			tt.expect(where.shows)
			if err := tt.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			tt.exit(exitInterrupted)
			if after := stateOf(t, tt.file); *after != *before {
				t.Errorf("%v at %q leaves the terminal as %+v, want %+v", sig, where.message, after, before)
			}
			if strings.Count(tt.text, "\x1b[?2004h") != strings.Count(tt.text, "\x1b[?2004l") {
				t.Errorf("%v at %q leaves pastes marked: %q", sig, where.message, tt.text)
			}
		}
	}
}

// TestChatIsEndedByASignalAfterLoading sends the signal when the model is open and the chat does not catch signals yet.
func TestChatIsEndedByASignalAfterLoading(t *testing.T) {
	model := filepath.Join(t.TempDir(), "tardy.gguf")
	if err := os.WriteFile(model, []byte("model"), 0o600); err != nil {
		t.Fatal(err)
	}
	tt := start(t, nil, "run", "--model", model)
	tt.exit(exitInterrupted)
	if strings.Contains(tt.text, ">>>") {
		t.Errorf("the chat began: %q", tt.text)
	}
}

// A signal at the question for a passphrase leaves the terminal as it was, too.
func TestPassphraseIsEndedBySignals(t *testing.T) {
	tt := start(t, nil, "trace", "keys", "new")
	tt.expect("Passphrase: ")
	if err := tt.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	tt.exit(exitInterrupted)
	if after := stateOf(t, tt.file); *after != *freshState(t) {
		t.Errorf("the terminal is left as %+v", after)
	}
}

func TestChatTools(t *testing.T) {
	tt := start(t, nil, "run")
	tt.enter("weather")
	tt.expect("Before the call:\r\nLet me look.\r\n")
	tt.expect("Tool call:\r\n  get_weather {\"city\":\"Paris\"}\r\n")
	tt.expect("result of get_weather: " + ready)
	tt.send("sunny\r")
	tt.expect("It is sunny in Paris.")
	tt.enter("how many messages")
	tt.expect("5 messages")
	// If a call is not answered, its turn is forgotten.
	tt.enter("weather")
	tt.expect("result of get_weather: " + ready)
	tt.send("\x03")
	tt.expect("the turn is forgotten")
	tt.enter("how many messages")
	tt.expect("7 messages")
	// A call that was cut off cannot be answered, so its turn is forgotten, too.
	tt.enter("half a call")
	tt.expect("the turn is forgotten")
	tt.enter("how many messages")
	tt.expect("9 messages")
	tt.enter("/exit")
	tt.exit(0)
	history, err := os.ReadFile(filepath.Join(tt.dir, "state", "runner", "history"))
	if err != nil || strings.Contains(string(history), "sunny") {
		t.Errorf("history with a tool's result: %s, %v", history, err)
	}
}

func TestChatLeavesFromACall(t *testing.T) {
	tt := start(t, nil, "run")
	tt.enter("weather")
	tt.expect("result of get_weather: " + ready)
	tt.send("\x03")
	tt.expect("the turn is forgotten")
	tt.expect(emptyPrompt)
	tt.send("\x03")
	tt.exit(exitInterrupted)
}

// Attached text goes with the next message, even after a turn with it was forgotten.
func TestChatKeepsAttachedText(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "notes")
	if err := os.WriteFile(file, []byte("the attached notes"), 0o600); err != nil {
		t.Fatal(err)
	}
	tt := start(t, nil, "run", "--file", file)
	tt.enter("weather")
	tt.expect("result of get_weather: " + ready)
	tt.send("\x03")
	tt.expect("the turn is forgotten")
	tt.enter("echo")
	tt.expect("the attached notes")
	tt.enter("echo again")
	if text := tt.expect(emptyPrompt); strings.Contains(text, "the attached notes") {
		t.Errorf("attached twice: %q", text)
	}
	tt.send("\x04")
	tt.exit(0)
}

// A call is required only once in a turn. After the results of calls, the model may answer.
func TestChatRequiresACallOnce(t *testing.T) {
	tools := filepath.Join(t.TempDir(), "tools.json")
	if err := os.WriteFile(tools, []byte(`[{"name": "get_weather"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	tt := start(t, nil, "run", "--tools", tools, "--tool-choice", "required")
	for range 2 {
		tt.enter("weather")
		tt.expect("result of get_weather: " + ready)
		tt.send("sunny\r")
		tt.expect("It is sunny in Paris.")
	}
	tt.enter("request")
	tt.expect(`"tool_choice":"required"`)
	tt.expect(emptyPrompt)
	tt.send("\x04")
	tt.exit(0)
}

func TestChatLines(t *testing.T) {
	tt := start(t, nil, "run")
	tt.enter("request \\\rtwo")
	tt.expect(`"content":"request \ntwo"`)
	tt.enter("\"\"\"\rrequest\r\rend\"\"\"")
	tt.expect(`"content":"request\n\nend"`)
	// The backslashes of a pasted text are its own.
	tt.enter("\x1b[200~request \\\rpasted\\\x1b[201~")
	tt.expect(`"content":"request \\\npasted\\"`)
	tt.enter("\x1b[200~request\rpasted\r\x1b[201~more")
	tt.expect(`"content":"request\npasted\nmore"`)
	tt.enter("/etc/passwd request")
	tt.expect(`"content":"/etc/passwd request"`)
	// The block is one entry of the history.
	tt.enter("\x1b[A\x1b[A")
	tt.expect(`"content":"request\npasted\nmore"`)
	tt.enter("/exit")
	tt.exit(0)
}

func TestTerminalOutputIsCleaned(t *testing.T) {
	tt := start(t, nil, "run", "--reasoning", "full", "escape")
	tt.exit(0)
	want := "\x1b[2mReasoning:\r\n␛]0;title␇think\x1b[0m\r\n\r\n␛[31mred␛[0m\ttabover \uFFFDtxt\r\n"
	if !strings.HasSuffix(tt.text, want) {
		t.Errorf("the terminal received %q, want %q", tt.text, want)
	}
}

func TestTerminalWithoutColor(t *testing.T) {
	for _, c := range []struct {
		env  []string
		args []string
	}{{[]string{"NO_COLOR=1"}, nil}, {nil, []string{"--no-color"}}, {[]string{"TERM=dumb"}, nil}} {
		tt := start(t, c.env, append([]string{"run", "--reasoning", "full", "What is 17 + 25?"}, c.args...)...)
		tt.exit(0)
		if want := "Reasoning:\r\n17 plus 25 makes 42.\r\n\r\nAnswer:\r\n42\r\n"; !strings.HasSuffix(tt.text, want) ||
			strings.Contains(tt.text, "\x1b[2m") {
			t.Errorf("%v %v: the terminal received %q, want %q", c.env, c.args, tt.text, want)
		}
	}
}

func TestInterruptOfOneQuestion(t *testing.T) {
	tt := start(t, nil, "run", "slow")
	tt.expect("working")
	tt.send("\x03")
	tt.exit(exitInterrupted)
}

func TestChatNeedsText(t *testing.T) {
	tt := start(t, nil, "run", "--output", "json")
	tt.expect("runner: --output json does not work in a chat; give a prompt")
	tt.exit(exitUsage)
	tt = start(t, nil, "run", "--rationale")
	tt.expect("runner: a chat does not show the reasons of --rationale; give a prompt")
	tt.exit(exitUsage)
}

func TestBrokenPipeIsQuiet(t *testing.T) {
	for _, output := range []string{"text", "json", "events"} {
		cmd := exec.Command("runner", "run", "--output", output, "count")
		cmd.Env = append(os.Environ(), "HF_HUB_CACHE="+t.TempDir())
		var stderr strings.Builder
		cmd.Stderr = &stderr
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		r.Read(make([]byte, 10))
		r.Close()
		cmd.Wait()
		if stderr.Len() > 0 || cmd.ProcessState.Success() && output != "json" {
			t.Errorf("%s: %v, stderr %q", output, cmd.ProcessState, stderr.String())
		}
	}
}
