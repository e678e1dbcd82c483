package llamacpp

import (
	"context"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/models/random"
)

// tolerance, in standard deviations of the logits: see the package comment of backendtest. The kernels of flash attention
// and of the experts round differently for batches of different shapes.
const tolerance = 0.02

func TestConformance(t *testing.T) {
	path := writeModel(t, random.Config{Seed: 1})
	for name, base := range map[string]backend.Config{
		"FullWindow": {FullWindow: "on"},
		"Windowed":   {FullWindow: "off"},
	} {
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
				cfg.FullWindow, cfg.Threads = base.FullWindow, 1
				m, err := Open(context.Background(), path, cfg)
				if err != nil {
					t.Fatal(err)
				}
				return m
			}, backendtest.Options{Tolerance: tolerance})
		})
	}
}
