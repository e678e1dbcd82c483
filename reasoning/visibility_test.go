package reasoning_test

import (
	"strings"
	"testing"

	"runner/reasoning"
)

// TestCap checks that a visibility over the limit is refused with the permission that it needs.
func TestCap(t *testing.T) {
	if err := reasoning.VisibilitySummary.Cap(reasoning.VisibilityFull); err != nil {
		t.Error(err)
	}
	err := reasoning.VisibilityFull.Cap(reasoning.VisibilitySummary)
	if err == nil || !strings.Contains(err.Error(), "reasoning:full") {
		t.Errorf("got %v", err)
	}
}
