package cli

import (
	"strings"
	"testing"
)

// TestBenchRefusesAddresses: an address is not taken for a folder, whose error would name a file.
func TestBenchRefusesAddresses(t *testing.T) {
	for _, engine := range []string{"http://127.0.0.1:8000", "vllm+https://gpu-box:8000"} {
		if _, err := (&app{}).benchEngine(engine); err == nil || !strings.Contains(err.Error(), "at an address") {
			t.Errorf("%s: error %v", engine, err)
		}
	}
}
