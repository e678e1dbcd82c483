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
		got := shortened(name)
		if uniseg.StringWidth(got) > nameColumns || !strings.HasSuffix(name, strings.TrimPrefix(got, "…")) ||
			uniseg.StringWidth(name) <= nameColumns && got != name {
			t.Errorf("%q became %q", name, got)
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
	v := NewTransfers(&b, false)
	for done := range int64(100) {
		v.Set("m\x1b[31m.gguf", "downloading", done, 100)
	}
	v.Set("m\x1b[31m.gguf", "done", 100, 100)
	v.End(true)
	if lines := strings.Count(b.String(), "\n"); lines != 2 || strings.Contains(b.String(), "\x1b") {
		t.Errorf("%d lines: %q", lines, b.String())
	}
}
