package llamacpp

import (
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/models/random"
)

// suite is a run of package backendtest with a configuration.
type suite struct {
	name    string
	base    backend.Config
	options backendtest.Options
}

// suites first has runs with F32 cache and attention, for a model with F32 weights, where two orders of one sum differ
// only in the last bits. Any error in cells, positions, masks or windows then shows. The last run has the default
// kernels, whose attention adds in 16 bits.
func suites() []suite {
	return []suite{
		{"FullWindow", backend.Config{FullWindow: "on", CacheType: "f32", FlashAttention: "off"}, rounding(true)},
		{"SmallWindow", backend.Config{FullWindow: "off", CacheType: "f32", FlashAttention: "off"}, rounding(true)},
		{"Default", backend.Config{}, rounding(false)},
	}
}

func TestConformance(t *testing.T) {
	e, err := BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	path := writeModel(t, steady(random.Config{Seed: 1, Precise: true, Layers: 2}))
	for _, s := range suites() {
		t.Run(s.name, func(t *testing.T) {
			if testing.Short() && s.name != "Default" {
				t.Skip("with -short only the default configuration is tested")
			}
			conform(t, e, path, s.base, s.options)
		})
	}
}
