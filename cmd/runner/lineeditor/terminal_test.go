//go:build unix

package lineeditor

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"runner/cmd/runner/lineeditor/lineeditortest"
	"runner/testenv"
)

// hang is the maximum wait of a test.
const hang = 20 * time.Second

// pterm is the other side of a terminal that an editor has.
type pterm struct {
	t      *testing.T
	file   *os.File
	editor *Editor
	slave  *os.File

	mu   sync.Mutex
	text string
	more chan struct{}
}

// newTerminal returns a terminal that answers questions with a pause before every byte. A negative pause means that
// the terminal does not answer.
func newTerminal(t *testing.T, o Options, pause time.Duration) *pterm {
	t.Helper()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(slave, &pty.Winsize{Rows: 24, Cols: 60}); err != nil {
		t.Fatal(err)
	}
	// A file that does not block can be closed while it is read.
	fd, err := syscall.Dup(int(master.Fd()))
	if err := errors.Join(err, syscall.SetNonblock(fd, true), master.Close()); err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "terminal")
	p := &pterm{t: t, file: master, slave: slave, editor: New(slave, slave, o), more: make(chan struct{}, 1)}
	go p.receive(pause)
	t.Cleanup(func() {
		_, _ = master.WriteString("\x03") // ends a read that a failed test has left
		slave.Close()
		master.Close()
	})
	return p
}

func (p *pterm) receive(pause time.Duration) {
	buf := make([]byte, 4096)
	answered := 0
	for {
		n, err := p.file.Read(buf)
		p.mu.Lock()
		p.text += string(buf[:n])
		asked := len(lineeditortest.Questions.FindAllString(p.text, -1))
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
		for ; pause >= 0 && answered < asked; answered++ {
			p.typeSlowly("\x1b[5;5R", pause)
		}
	}
}

func (p *pterm) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text
}

func (p *pterm) typeSlowly(keys string, pause time.Duration) {
	if pause <= 0 {
		_, _ = p.file.WriteString(keys)
		return
	}
	for i := range len(keys) {
		_, _ = p.file.WriteString(keys[i : i+1])
		time.Sleep(pause)
	}
}

// expect waits until text has been shown.
func (p *pterm) expect(text string) {
	p.t.Helper()
	timeout := time.After(hang)
	for !strings.Contains(p.output(), text) {
		select {
		case <-p.more:
		case <-timeout:
			p.t.Fatalf("no %q in %q", text, p.output())
		}
	}
}

type result struct {
	text string
	err  error
}

func (p *pterm) read(prompt Prompt) chan result {
	got := make(chan result, 1)
	go func() {
		text, err := p.editor.Read(p.t.Context(), prompt)
		got <- result{text, err}
	}()
	return got
}

func (p *pterm) result(got chan result) result {
	p.t.Helper()
	select {
	case r := <-got:
		return r
	case <-time.After(hang):
		p.t.Fatalf("the editor hangs; it showed %q", p.output())
	}
	return result{}
}

// The scripts are typed at the same time, whatever the number of processors is. They wait more than they work.
func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() == "" {
		if err := flag.Set("test.parallel", "100"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// What is typed arrives byte for byte, whatever the terminal is and however slow the line is. The program is tested
// with kinds of terminals by their names.
func TestScripts(t *testing.T) {
	if len(lineeditortest.Scripts) < 40 {
		t.Fatalf("%d scripts", len(lineeditortest.Scripts))
	}
	pauses := []time.Duration{0, 20 * time.Millisecond, 150 * time.Millisecond}
	for _, terminal := range []string{"answering", "dumb", "silent"} {
		for _, pause := range pauses {
			t.Run(terminal+" "+pause.String(), func(t *testing.T) {
				if pause > 0 {
					testenv.NeedLong(t, "typing this slowly takes minutes")
				}
				for name, text := range lineeditortest.Scripts {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						testScript(t, terminal, text, pause)
					})
				}
			})
		}
	}
}

func testScript(t *testing.T, terminal, text string, pause time.Duration) {
	answers := pause
	if terminal == "silent" {
		answers = -1
	}
	p := newTerminal(t, Options{Dumb: terminal == "dumb"}, answers)
	got := p.read(Prompt{Text: ">>> "})
	p.expect(">>> ")
	// The text is edited too: a part of it is typed at its start, and a word at its end is removed again.
	p.typeSlowly(text+" \x01é世\x7f\x05gone\x17\r", pause)
	want := "é" + text + " "
	if r := p.result(got); r.err != nil || r.text != want {
		t.Errorf("%q, %v, want %q", r.text, r.err, want)
	}
	shown := p.output()
	if q := lineeditortest.Questions.FindString(shown); q != "" {
		t.Errorf("the editor asks the terminal %q", q)
	}
	if terminal == "dumb" && strings.Contains(shown, "\x1b") {
		t.Errorf("a dumb terminal gets %q", shown)
	}
}

// Text that was typed before a read counts, and so does what was typed after Enter.
func TestTypeAhead(t *testing.T) {
	p := newTerminal(t, Options{}, -1)
	p.typeSlowly("één\rtwee\rdrie\rhalf", 0)
	p.expect("half") // the terminal shows it while nobody reads
	for _, want := range []string{"één", "twee", "drie"} {
		if r := p.result(p.read(Prompt{Text: "> "})); r.err != nil || r.text != want {
			t.Errorf("%q, %v, want %q", r.text, r.err, want)
		}
	}
	got := p.read(Prompt{Text: "> "})
	p.typeSlowly("\r", 0)
	if r := p.result(got); r.text != "half" {
		t.Errorf("%q, %v", r.text, r.err)
	}
}

// The terminal is as before after a read, whatever ended it.
func TestTerminalIsRestored(t *testing.T) {
	for keys, want := range map[string]result{
		"ok\r":     {"ok", nil},
		"half\x03": {"half", ErrInterrupted},
		"\x04":     {"", io.EOF},
		"a\xff\r":  {"a\uFFFD", nil},
	} {
		p := newTerminal(t, Options{}, -1)
		before, err := term.GetState(int(p.slave.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		got := p.read(Prompt{Text: "> ", Placeholder: "say something"})
		p.expect("\x1b[2msay something\x1b[0m")
		p.typeSlowly(keys, 0)
		if r := p.result(got); r.text != want.text || !errors.Is(r.err, want.err) {
			t.Errorf("%q: %v, want %v", keys, r, want)
		}
		after, err := term.GetState(int(p.slave.Fd()))
		if err != nil || *after != *before {
			t.Errorf("%q leaves the terminal changed, %v", keys, err)
		}
		p.expect(pasteOff)
		if out := p.output(); strings.Count(out, wrapOff) != strings.Count(out, wrapOn) {
			t.Errorf("%q leaves the wrapping changed: %q", keys, out)
		}
	}
}

// The end of the context ends a read, which restores the terminal.
func TestTheEndOfTheContext(t *testing.T) {
	p := newTerminal(t, Options{}, -1)
	before, err := term.GetState(int(p.slave.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan result, 1)
	go func() {
		text, err := p.editor.Read(ctx, Prompt{Text: "> "})
		got <- result{text, err}
	}()
	p.expect("> ")
	p.typeSlowly("half", 0)
	p.expect("half")
	ended := errors.New("ended")
	cancel(ended)
	if r := p.result(got); r.text != "half" || !errors.Is(r.err, ended) {
		t.Errorf("%q, %v", r.text, r.err)
	}
	if after, err := term.GetState(int(p.slave.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal is changed, %v", err)
	}
	p.expect(pasteOff)
	if text, err := p.editor.Read(ctx, Prompt{Text: "> "}); text != "" || !errors.Is(err, ended) {
		t.Errorf("a read after the end: %q, %v", text, err)
	}
}

func TestTerminalIsGone(t *testing.T) {
	p := newTerminal(t, Options{}, -1)
	got := p.read(Prompt{Text: "> "})
	p.expect("> ")
	p.file.Close()
	if r := p.result(got); r.err == nil {
		t.Errorf("%q without an error", r.text)
	}
}

// Pasted lines are one text. Control characters in it do not reach the terminal.
func TestPaste(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Millisecond} {
		p := newTerminal(t, Options{More: "... "}, -1)
		got := p.read(Prompt{Text: "> "})
		p.expect(pasteOn)
		const pasted = "one\ttab\n\x1b]0;title\x07\x1b[31mred\u009b2J\n\x03\x04\x7f end\n"
		p.typeSlowly("\x1b[200~"+strings.ReplaceAll(pasted, "\n", "\r")+"\x1b[201~more\r", pause)
		if r := p.result(got); r.err != nil || r.text != pasted+"more" {
			t.Errorf("%q, %v", r.text, r.err)
		}
		p.expect(pasteOff) // all is drawn, in as many pieces as it came in
		out := p.output()
		for _, bad := range []string{"\x1b]", "\x1b[31m", "\u009b", "\x07", "\x03", "\x04", "\x7f", "\t"} {
			if strings.Contains(out, bad) {
				t.Errorf("%q reaches the terminal: %q", bad, out)
			}
		}
		if !strings.Contains(out, "␛[31mred") {
			t.Errorf("the paste is not shown: %q", out)
		}
	}
}

// The text is drawn for the new size when the terminal gets one.
func TestResize(t *testing.T) {
	p := newTerminal(t, Options{}, -1)
	got := p.read(Prompt{Text: "> "})
	p.expect(pasteOn)
	p.typeSlowly(strings.Repeat("x", 30), 0)
	p.expect(strings.Repeat("x", 30))
	if err := pty.Setsize(p.slave, &pty.Winsize{Rows: 24, Cols: 21}); err != nil {
		t.Fatal(err)
	}
	// The test has no controlling terminal, which would send the signal.
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil {
		t.Fatal(err)
	}
	p.expect("> " + strings.Repeat("x", 18) + clearRow + "\r\n\r" + strings.Repeat("x", 12) + clearRow)
	p.typeSlowly("\r", 0)
	if r := p.result(got); len(r.text) != 30 || r.err != nil {
		t.Errorf("%q, %v", r.text, r.err)
	}
}

// A lone escape byte ends a search. The keys after it count.
func TestEscape(t *testing.T) {
	p := newTerminal(t, Options{History: lines{"earlier"}}, -1)
	got := p.read(Prompt{Text: "> "})
	p.expect(pasteOn)
	p.typeSlowly("\x12earl\x1b", 0)
	p.expect("(search: earl) ")
	time.Sleep(escapeWait + 100*time.Millisecond)
	p.typeSlowly("x\r", 0)
	if r := p.result(got); r.text != "xearlier" || r.err != nil {
		t.Errorf("%q, %v", r.text, r.err)
	}
}

func TestNotATerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = New(f, f, Options{}).Read(t.Context(), Prompt{})
	if err == nil || !strings.Contains(err.Error(), "terminal") {
		t.Error(err)
	}
}
