package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestPromptsAreWrittenDown checks that a change of the runner's texts reaches the training data.
func TestPromptsAreWrittenDown(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "prompts.json"))
	if err != nil {
		t.Fatal(err)
	}
	var written map[string]string
	if err := json.Unmarshal(data, &written); err != nil {
		t.Fatal(err)
	}
	now, err := rendered(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range now {
		if written[name] != text {
			t.Errorf("%s has changed: run go run ./scripts/demo_model/told, and train the model again\nwas: %q\nis:  %q", name,
				written[name], text)
		}
	}
	if len(written) != len(now) {
		t.Errorf("%d prompts are written down, there are %d", len(written), len(now))
	}
}
