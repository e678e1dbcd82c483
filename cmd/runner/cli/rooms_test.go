package cli_test

import (
	"slices"
	"testing"

	// The tests run the program with all of its rooms. Only an external test can import them, because they import cli.
	_ "runner/cmd/runner/rooms"
	"runner/server/wire"
)

// TestPermissionsThatNobodyHasByDefault holds the permissions of the whole program against lists, since each format
// declares its own.
func TestPermissionsThatNobodyHasByDefault(t *testing.T) {
	for _, c := range []struct {
		name string
		got  []wire.Scope
		want []wire.Scope
	}{
		{"a key whose entry names none", wire.Scopes(func(p *wire.Permission) bool { return !p.Named }),
			[]wire.Scope{"embed", "generate", "metrics", "models", "trace:erase", "trace:read"}},
		{"without a file of keys", wire.Granted(nil, false),
			[]wire.Scope{"admin", "embed", "generate", "metrics", "models", "trace:all", "trace:erase", "trace:read"}},
		{"without keys, in public", wire.Granted(nil, true), []wire.Scope{"embed", "generate", "metrics", "models"}},
	} {
		if slices.Sort(c.got); !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}
