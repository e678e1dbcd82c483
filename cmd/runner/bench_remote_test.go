//go:build linux

package main

import (
	"strings"
	"testing"

	"runner/bench/results"
)

// TestBenchOfAnAddress measures a real llama-server beside the engine of the program, whole answers included. What is
// not known of the other machine is left out.
func TestBenchOfAnAddress(t *testing.T) {
	s := llamaServer(t, 4)
	in := install(t)
	out, aside, code := in.run("bench", "-p", "32", "-n", "16", "-r", "2", "-o", "json", "--answers", "--max-tokens", "24",
		"--serve", "--engine", "builtin", "--engine", s.URL)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, aside)
	}
	rows, err := results.Read(strings.NewReader(out))
	if err != nil || len(rows) != 8 { // pp32, tg16, answer and server, of two engines
		t.Fatalf("%d rows, %v:\n%s", len(rows), err, out)
	}
	count := 0
	for i := range rows {
		r := &rows[i]
		if !strings.Contains(s.URL, r.Subject) {
			continue
		}
		if count++; r.PerToken != 0 || r.Roofline != 0 || r.Memory != 0 && !strings.HasPrefix(r.Workload, "server") {
			t.Errorf("%s of the address: %d bytes a token, roofline %v, memory %d", r.Test(), r.PerToken, r.Roofline, r.Memory)
		}
	}
	if count != 4 {
		t.Errorf("%d rows are of the address, want 4", count)
	}
	if n := len(results.Within(rows)); n != 6 {
		t.Errorf("%d differences", n)
	}
}
