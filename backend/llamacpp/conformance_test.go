package llamacpp

import (
	"context"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/models/random"
)

// TestConformance first runs the suite with F32 weights, cache and attention, where two orders of one sum differ
// only in the last bits. Any error in cells, positions, masks or windows then shows. It runs again with the default
// kernels, whose attention adds in 16 bits.
func TestConformance(t *testing.T) {
	path := writeModel(t, steady(random.Config{Seed: 1, Precise: true, Layers: 2}))
	for _, c := range []struct {
		name    string
		base    backend.Config
		options backendtest.Options
	}{
		{"FullWindow", backend.Config{FullWindow: "on", CacheType: "f32", FlashAttention: "off"},
			rounding(true)},
		{"SmallWindow", backend.Config{FullWindow: "off", CacheType: "f32", FlashAttention: "off"},
			rounding(true)},
		{"Default", backend.Config{}, rounding(false)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && c.name != "Default" {
				t.Skip("with -short only the default configuration is tested")
			}
			backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
				cfg.FullWindow, cfg.CacheType, cfg.FlashAttention, cfg.Threads = c.base.FullWindow, c.base.CacheType,
					c.base.FlashAttention, 1
				cfg.GPULayers = layersOnGPU()
				m, err := Open(context.Background(), path, cfg)
				if err != nil {
					t.Fatal(err)
				}
				return usesGPU(t, m)
			}, c.options)
		})
	}
}
