package child

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
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
