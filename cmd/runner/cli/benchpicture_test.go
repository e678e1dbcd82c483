package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"runner/bench"
)

// TestPictureIsReplacedWhole: of a longer picture that was there, nothing is left.
func TestPictureIsReplacedWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.svg")
	if err := os.WriteFile(path, []byte(strings.Repeat("old ", 50_000)), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := openPicture(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.draw([]bench.Row{{Subject: "one", Generate: 8, Median: 2, Low: 1, High: 3}}); err != nil {
		t.Fatal(err)
	}
	p.close()
	b, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(b), "<?xml") || !strings.HasSuffix(strings.TrimSpace(string(b)), "</svg>") {
		t.Errorf("%v, the file has %d bytes and begins with %.20q", err, len(b), b)
	}
}
