package testenv

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Seed returns a seed for what a test draws. RUNNER_TEST_SEED repeats one that a failure names.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("RUNNER_TEST_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("RUNNER_TEST_SEED=%d", seed)
		}
	})
	return seed
}
