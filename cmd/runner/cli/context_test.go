package cli

import (
	"slices"
	"testing"

	"runner/server/pool"
)

// TestOthersLeaveOutModelsThatAreNeverLoadedTogether: room is left only for models that may be loaded later at the same
// time.
func TestOthersLeaveOutModelsThatAreNeverLoadedTogether(t *testing.T) {
	for _, c := range []struct {
		name   string
		memory int64
		loaded []string
		want   []int64
	}{
		{"a", 0, nil, []int64{20, 30}},
		{"b", 0, []string{"a"}, []int64{30}},
		{"c", 0, []string{"a", "b"}, nil},
		{"a", 35, nil, []int64{20}},
		{"a", 25, nil, nil},
		{"c", 60, nil, []int64{10, 20}},
		{"c", 45, []string{"b"}, nil},
	} {
		models := []pool.Entry{{Name: "a", Size: 10}, {Name: "b", Size: 20}, {Name: "c", Size: 30}}
		cfg := pool.Config{Memory: c.memory, Models: models}
		got := othersOf(c.name, cfg, func(name string) bool { return slices.Contains(c.loaded, name) })
		if !slices.Equal(got, c.want) {
			t.Errorf("for %q, with %v loaded and %d bytes: %v, want %v", c.name, c.loaded, c.memory, got, c.want)
		}
	}
}
