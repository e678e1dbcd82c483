package render

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/rivo/uniseg"
)

func TestShortenedNames(t *testing.T) {
	for _, name := range []string{"", "a.gguf", strings.Repeat("x", nameColumns), strings.Repeat("x", nameColumns+1),
		"Model-Q4_K_M-00001-of-00002.gguf", strings.Repeat("模型", 20) + ".gguf", strings.Repeat("👩‍👩‍👧", 40)} {
		got := shortened(name, nameColumns)
		if uniseg.StringWidth(got) > nameColumns || !strings.HasSuffix(name, strings.TrimPrefix(got, "…")) ||
			uniseg.StringWidth(name) <= nameColumns && got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
}

// A row fits into every width, and has the total, the speed and the time left from 40 columns on.
func TestRows(t *testing.T) {
	r := row{name: "Model-Q4_K_M-00001-of-00002.gguf", names: nameColumns, state: usualState, done: 4 << 30,
		total: 11 << 30, speed: "100.0 MiB/s", left: "1m12s"}
	for width := 1; width < 200; width++ {
		got := r.text(width)
		if n := uniseg.StringWidth(got); n > width {
			t.Errorf("%d columns in %d: %q", n, width, got)
		}
		for _, part := range []string{"11.0 GiB", "100.0 MiB/s", "1m12s", "02.gguf"} {
			if width >= 39 && !strings.Contains(got, part) {
				t.Errorf("%d columns: no %s in %q", width, part, got)
			}
		}
		if bar := strings.Contains(got, "[="); bar != (width >= 79) {
			t.Errorf("%d columns: %q", width, got)
		}
	}
	r.state = "waiting"
	for _, width := range []int{39, 79, 199} {
		if got := r.text(width); !strings.Contains(got, "waiting") || !strings.Contains(got, "11.0 GiB") {
			t.Errorf("%d columns: %q", width, got)
		}
	}
}

// The speed is that of the bytes that came, not of those that were here, and the rest takes as long as it says.
func TestPace(t *testing.T) {
	begin := time.Now()
	f := &transfer{begin: begin}
	f.first.Store(900 << 20)
	if speed, left := f.pace(1000<<20, 1500<<20, begin.Add(10*time.Second)); speed != "10.0 MiB/s" || left != "50s" {
		t.Errorf("%q, %q", speed, left)
	}
	if speed, left := f.pace(900<<20, 1500<<20, begin.Add(time.Hour)); speed != "" || left != "" {
		t.Errorf("without a byte: %q, %q", speed, left)
	}
	if speed, left := f.pace(1500<<20, 1500<<20, begin.Add(time.Minute)); speed != "10.0 MiB/s" || left != "" {
		t.Errorf("at the end: %q, %q", speed, left)
	}
}

// Without a terminal a file is reported when its state changes, and not with every piece.
func TestTransfersWithoutATerminal(t *testing.T) {
	var b bytes.Buffer
	v := NewTransfers(&b, false, nil)
	for done := range int64(100) {
		v.Set("m\x1b[31m.gguf", "downloading", done, 100)
	}
	v.Set("m\x1b[31m.gguf", "done", 100, 100)
	v.End(true)
	if lines := strings.Count(b.String(), "\n"); lines != 2 || strings.Contains(b.String(), "\x1b") {
		t.Errorf("%d lines: %q", lines, b.String())
	}
}
