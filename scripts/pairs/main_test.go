package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestPairs compares a program with one that is twice as fast, on a machine that gets slower with every pair.
func TestPairs(t *testing.T) {
	var order []int
	list, err := takeTurns(4, func(i int) ([]byte, error) {
		slow := float64(len(order)/2 + 1)
		order = append(order, i)
		return fmt.Appendf(nil, "load 0.5\npp1 %.3f\n", 100*float64(i+1)/slow), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 1, 0, 0, 1, 1, 0}; !slices.Equal(order, want) {
		t.Errorf("the programs ran in the order %v, want %v", order, want)
	}
	var b bytes.Buffer
	if err := write(&b, list); err != nil {
		t.Fatal(err)
	}
	want := []string{"before after ratio quartiles", "load 0.5 0.5 1.000 1.000 to 1.000",
		"pp1 41.67 83.33 2.000 2.000 to 2.000"}
	for i, line := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		if got := strings.Join(strings.Fields(line), " "); got != want[i] {
			t.Errorf("%q, want %q", got, want[i])
		}
	}
}

// TestPairsRefuse checks the errors of programs that print something else.
func TestPairsRefuse(t *testing.T) {
	if _, err := add(nil, 0, []byte("pp1 fast\n")); err == nil {
		t.Error("a figure that is no number was taken")
	}
	if err := write(new(bytes.Buffer), []figure{{name: "pp1", of: [2][]float64{{1}, {}}}}); err == nil {
		t.Error("a figure of one program alone was compared")
	}
}
