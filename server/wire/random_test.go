package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestNewID(t *testing.T) {
	if id := NewID(bytes.NewReader(make([]byte, 16)), "x_"); id != "x_"+strings.Repeat("0", 32) {
		t.Errorf("%s", id)
	}
	seen := map[string]bool{}
	for _, random := range []io.Reader{nil, nil, strings.NewReader("short"), iotest.ErrReader(errors.New("none"))} {
		id := NewID(random, "x_")
		if seen[id] || len(id) != 34 || !strings.HasPrefix(id, "x_") {
			t.Errorf("%s", id)
		}
		seen[id] = true
	}
}

func TestNewSeed(t *testing.T) {
	if seed := NewSeed(strings.NewReader("\xff\xff\xff\xff\xff\xff\xff\xff")); seed != MaxSeed ||
		uint64(float64(seed)) != seed {
		t.Errorf("%d", seed)
	}
	seen := map[uint64]bool{}
	for range 100 {
		seed := NewSeed(nil)
		if seen[seed] || seed > MaxSeed {
			t.Errorf("%d", seed)
		}
		seen[seed] = true
	}
}
