package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The quantizations of a repository in the cache are completed, also where there is only one. What only the Hugging
// Face cache can do is not offered for the models of other programs.
func TestCompletionOfModels(t *testing.T) {
	hub := inEmptyHome(t)
	studio := filepath.Join(os.Getenv("HOME"), ".lmstudio", "models", "lm", "Studio-GGUF", "s-Q6_K.gguf")
	cached := filepath.Join(hub, "models--First--Steps-GGUF", "snapshots", "c1", "f-Q4_K_M.gguf")
	for _, path := range []string{studio, cached} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("GGUF"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, typed := range []string{"First/Steps-GGUF:", "first/steps-gguf:q"} {
		models, _ := CompleteModels(nil, nil, typed)
		here, _ := completeInstalled(nil, nil, typed)
		pull, _ := completePull(nil, nil, typed)
		want := typed[:len("First/Steps-GGUF:")] + "Q4_K_M"
		for _, list := range [][]string{models, here, pull} {
			if !slices.Contains(list, want) {
				t.Errorf("%s: no %s in %q", typed, want, list)
			}
		}
		if !slices.Contains(models, "lm/Studio-GGUF") || slices.Contains(here, "lm/Studio-GGUF") ||
			slices.Contains(pull, "lm/Studio-GGUF") {
			t.Errorf("%q, %q, %q", models, here, pull)
		}
	}
}
