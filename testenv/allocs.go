package testenv

import (
	"slices"
	"testing"
)

// Allocs returns how many times f usually takes memory. It is [testing.AllocsPerRun] for functions that use pools, as
// those of package json do: with the race detector a pool forgets some of what it holds.
func Allocs(f func()) float64 {
	runs := make([]float64, 51)
	for i := range runs {
		runs[i] = testing.AllocsPerRun(1, f)
	}
	slices.Sort(runs)
	return runs[len(runs)/2]
}
