package llamacpp

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"runner/backend"
	"runner/models/random"
)

const freedVariable = "RUNNER_TEST_FREED_MEMORY"

// TestFreedMemoryIsNotUsed opens, uses and closes models in a process whose freed memory is overwritten at once. A
// context that uses what it has freed crashes there.
func TestFreedMemoryIsNotUsed(t *testing.T) {
	if os.Getenv(freedVariable) != "" {
		useAndClose(t)
		return
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, exe, "-test.run", "^TestFreedMemoryIsNotUsed$")
	// glibc overwrites only what it does not keep for the thread's next allocation.
	c.Env = append(os.Environ(), freedVariable+"=1", "MALLOC_PERTURB_=90", "GLIBC_TUNABLES=glibc.malloc.tcache_count=0")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
}

func useAndClose(t *testing.T) {
	path := writeModel(t, random.Config{Seed: 1, Layers: 2})
	for range 3 {
		m, err := Open(context.Background(), path, backend.Config{Sequences: 2, GPULayers: layersOnGPU()})
		if err != nil {
			t.Fatal(err)
		}
		decodes(t, m)
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
