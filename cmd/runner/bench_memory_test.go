//go:build linux

package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"runner/bench/results"
	"runner/models/random"
	"runner/models/random/randomtest"
)

// TestBenchMeasuresMemory: beside each run that generates, another process measures the bandwidth of the memory. The
// memory that it reads does not count as the engine's.
func TestBenchMeasuresMemory(t *testing.T) {
	in := install(t)
	path := filepath.Join(in.dir, "large.gguf")
	large := random.Config{Architecture: "llama", Layers: 8, Width: 1024, FeedForward: 2048, Heads: 8, KVHeads: 8,
		HeadSize: 128, Seed: 1}
	if err := randomtest.WriteFile(path, large); err != nil {
		t.Fatal(err)
	}
	out, aside, code := in.run("bench", path, "-p", "4", "-n", "2", "-r", "2", "-o", "json", "--engine", "builtin")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, aside)
	}
	rows, err := results.Read(bytes.NewReader([]byte(out)))
	if err != nil || len(rows) != 2 {
		t.Fatalf("%d rows, %v:\n%s", len(rows), err, out)
	}
	reads, generates := &rows[0], &rows[1]
	if reads.Roofline != 0 || len(reads.Bandwidths) != 0 {
		t.Errorf("reading a prompt has a roofline: %v, %v", reads.Roofline, reads.Bandwidths)
	}
	if len(generates.Bandwidths) != 2 || generates.Bandwidth < 1e8 || generates.Roofline <= 0 {
		t.Errorf("generating: bandwidths %v, roofline %v", generates.Bandwidths, generates.Roofline)
	}
	// The model is mapped once, and the program itself takes far less than what the other process reads.
	if most := generates.Size + 192<<20; generates.Memory <= generates.Size || generates.Memory > most {
		t.Errorf("the peak is %d MB for a model of %d MB", generates.Memory>>20, generates.Size>>20)
	}
}
