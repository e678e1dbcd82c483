package render

import (
	"bytes"
	"strings"
	"testing"

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
