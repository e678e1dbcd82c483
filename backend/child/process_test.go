package child

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestLinesOfAnEngine: however an engine's output is cut into writes, each line is one debug message, and nothing is
// reported to a log without those.
func TestLinesOfAnEngine(t *testing.T) {
	lines := []string{"first", "", "  second\r", strings.Repeat("long ", 2*kept), "third", "no end"}
	var want []string
	for _, l := range lines[:len(lines)-1] {
		if l = strings.TrimSpace(l[:min(len(l), kept)]); l != "" {
			want = append(want, l)
		}
	}
	text := []byte(strings.Join(lines, "\n"))
	for seed := range uint64(50) {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key != "line" {
					return slog.Attr{}
				}
				return slog.String("l", strings.ReplaceAll(a.Value.String(), " ", "_"))
			}}))
		var quiet bytes.Buffer
		loud, silent := &tail{}, &tail{}
		loud.follow(log)
		silent.follow(slog.New(slog.NewTextHandler(&quiet, nil)))
		random := rand.New(rand.NewPCG(seed, 1))
		for rest := text; len(rest) > 0; {
			n := 1 + random.IntN(min(len(rest), 1+random.IntN(len(rest))))
			for _, to := range []*tail{loud, silent} {
				if wrote, err := to.Write(rest[:n]); wrote != n || err != nil {
					t.Fatal(wrote, err)
				}
			}
			rest = rest[n:]
		}
		var got []string
		for l := range strings.Lines(out.String()) {
			l = strings.TrimPrefix(strings.TrimSpace(l), "l=")
			got = append(got, strings.ReplaceAll(l, "_", " "))
		}
		if strings.Join(got, "|") != strings.Join(want, "|") || quiet.Len() > 0 {
			t.Fatalf("seed %d: %d lines, want %d; %q", seed, len(got), len(want), quiet.String())
		}
	}
}

// TestMemoryOfTheProcess: a model tells how much memory its engine's process has, and none after its end.
func TestMemoryOfTheProcess(t *testing.T) {
	m, err := engine("plain").Open(t.Context(), "", small)
	if err != nil {
		t.Fatal(err)
	}
	if n := m.Memory(); n < 1<<20 || n > 1<<32 {
		t.Errorf("the process has %d bytes in memory", n)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if n := m.Memory(); n != 0 {
		t.Errorf("after its end the process has %d bytes in memory", n)
	}
}

// TestLastWords: the reason of an end is in the last lines, whatever the engine wrote before and however long a dump
// after it is.
func TestLastWords(t *testing.T) {
	dump := "PC=0x7f m=0 sigcode=0\n\ngoroutine 0 gp=0x55 m=0 [idle]:\nmain.main()\n\t/a/error.go:9 +0x6c fp=0x3a\n" +
		strings.Repeat("\ngoroutine 1 gp=0x5 m=nil [error wait]:\nruntime.gopark(0x0?)\n\t/a/proc.go:462 +0xce\n", 200) +
		"\nrax    0x0\ngs     0x0\n"
	const assert = "ggml.c:12: GGML_ASSERT(a == b) failed"
	for _, c := range []struct{ early, late, want string }{
		{"", "", ""},
		{"", "a line\nand no end", "and no end"},
		{"", "SIGABRT: abort\n" + dump, "SIGABRT: abort"},
		{"", assert + "\nlibggml.so(+0x12)[0x7f]\nSIGABRT: abort\n" + dump, assert},
		{"", "panic: it met the poison\n\n" + dump, "panic: it met the poison"},
		{"a harmless error\n", "SIGSEGV: segmentation violation\n" + dump, "SIGSEGV: segmentation violation"},
		{"a harmless error\n", "", ""},
		{"", "a first error\nTraceback:\n  File \"a.py\", line 3\nValueError: no such layer\n", "ValueError: no such layer"},
		{"", "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n",
			"what():  std::bad_alloc"},
		{"", strings.Repeat("one of many\n", 5000) + assert + "\n", assert},
	} {
		for _, verbose := range []string{"", strings.Repeat("INFO load_tensors: no error\nDEBUG fatal: 0\n", 30)} {
			synctest.Test(t, func(t *testing.T) {
				said := &tail{}
				fmt.Fprint(said, verbose, c.early)
				time.Sleep(time.Hour)
				fmt.Fprint(said, verbose, c.late)
				if got := said.line(); got != c.want {
					t.Errorf("after %.30q and %.50q, with %d bytes of messages: %q, want %q", c.early, c.late, len(verbose), got,
						c.want)
				}
			})
		}
	}
}

// TestAbortIsNamed: the reason of an engine that is aborted is the signal, also if the engine wrote much before.
func TestAbortIsNamed(t *testing.T) {
	for _, kind := range []string{"plain", "noisy"} {
		m := open(t, kind, "", small)
		c := m.conn.Load()
		if err := syscall.Kill(c.proc.pid, syscall.SIGABRT); err != nil {
			t.Fatal(err)
		}
		<-c.dead
		if want := "the engine crashed: exit status 2: SIGABRT: abort"; c.cause.Error() != want {
			t.Errorf("%s: %q, want %q", kind, c.cause, want)
		}
	}
}
