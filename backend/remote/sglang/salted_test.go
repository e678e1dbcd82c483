package sglang

import "testing"

func TestSalted(t *testing.T) {
	for version, want := range map[string]bool{"0.5.11": true, "0.5.23": true, "0.6.0rc1": true, "1.0": true,
		"0.5.11.post1": true, "0.5.10": false, "0.5.10.post1": false,
		"0.5.5": false, "0.4.10": false, "": false, "dev": false, "0.5": false} {
		if salted(version) != want {
			t.Errorf("%q: %v", version, !want)
		}
	}
}
