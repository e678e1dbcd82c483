package runner

import (
	"testing"

	"runner/backend/fake"
)

// TestTemplateInEffect: a runner's Info has the template that it uses, not the one that was replaced.
func TestTemplateInEffect(t *testing.T) {
	own := fake.Config{Vocab: fake.Think(), ChatTemplate: fake.ThinkTemplate}
	other := fake.ThinkTemplate + "{# other #}"
	for given, want := range map[string]string{"": fake.ThinkTemplate, other: other} {
		if got := start(t, own, Config{ChatTemplate: given}).Info().ChatTemplate; got != want {
			t.Errorf("with %q it is %q", given, got)
		}
	}
}
