package ggufwriter

import "testing"

func TestAlphabet(t *testing.T) {
	if got := Alphabet(" \n\x00é"); got != "ĠĊĀÃ©" {
		t.Errorf("got %q", got)
	}
}
