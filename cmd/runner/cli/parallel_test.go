package cli

import (
	"strings"
	"testing"

	"runner/models"
	"runner/runner"
)

// TestParallelOfAddresses allows many requests at once only where all models are at addresses.
func TestParallelOfAddresses(t *testing.T) {
	here, away := served{name: "here", placed: placed{Model: models.Model{Source: models.GGUF, Path: "/models/a.gguf"}}},
		served{name: "away", placed: placed{Model: models.Model{Source: models.Address, Path: "vllm+http://gpu-box:8000"}}}
	for _, c := range []struct {
		parallel int
		list     []served
		ok       bool
	}{{64, []served{here, away}, true}, {65, []served{away}, true}, {65, []served{away, here}, false},
		{65, []served{{name: "demo"}}, false}} {
		err := (&serveOptions{runner: runner.Config{Parallel: c.parallel}}).checkParallel(c.list)
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), "64") {
			t.Errorf("%d for %v: %v", c.parallel, c.list, err)
		}
	}
}
