package fake_test

import (
	"testing"
	"time"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/fake"
)

func TestConformance(t *testing.T) {
	for name, v := range map[string]*backend.Vocab{"Harmony": fake.Harmony(), "Think": fake.Think()} {
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
				return fake.New(fake.Config{
					Vocab: v, ContextSize: cfg.ContextSize, Sequences: cfg.Sequences, CacheTokens: cfg.CacheTokens,
					BatchSize: cfg.BatchSize,
					Delay:     longSteps,
				})
			}, backendtest.Options{})
		})
	}
}

// TestPacedConformance runs the suite with sequences of different pace.
func TestPacedConformance(t *testing.T) {
	backendtest.Run(t, func(t *testing.T, cfg backend.Config) backend.Model {
		return fake.New(fake.Config{
			ContextSize: cfg.ContextSize, Sequences: cfg.Sequences, CacheTokens: cfg.CacheTokens, BatchSize: cfg.BatchSize,
			Pace: func(id, length int) time.Duration {
				if length > 800 {
					return 40 * time.Millisecond
				}
				return time.Duration((id*7+length)%3) * 100 * time.Microsecond
			},
		})
	}, backendtest.Options{})
}

// longSteps slows down steps of many tokens, so that they can be cancelled while they run.
func longSteps(tokens int) time.Duration {
	if tokens < 500 {
		return 0
	}
	return 40 * time.Millisecond
}
