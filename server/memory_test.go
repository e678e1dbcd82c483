package server

import (
	"net/http"
	"strings"
	"testing"

	"runner/backend/fake"
	"runner/server/pool"
	"runner/server/wire"
)

// keeping is a memory keeper with a runtime that the test controls.
type keeping struct {
	*memoryKeeper
	held, released       int64
	available, addresses int64
	limit                int64
	freed                int
}

func newKeeping(t *testing.T, cfg Config) *keeping {
	t.Helper()
	k := &keeping{limit: 1 << 62}
	cfg.Pool = pool.New(pool.Config{})
	t.Cleanup(func() { cfg.Pool.Close() })
	cfg.Memory = func() (available, addresses int64) { return k.available, k.addresses }
	k.memoryKeeper = newMemoryKeeper(New(cfg))
	k.use = func() (held, released int64) { return k.held, k.released }
	k.setLimit = func(n int64) int64 {
		before := k.limit
		if n >= 0 {
			k.limit = n
		}
		return before
	}
	k.giveBack = func() {
		k.freed++
		k.held /= 10
	}
	return k
}

// TestLimitsFollowTheMemory checks that Go's limit and the room for requests follow the available memory, whatever
// limits it.
func TestLimitsFollowTheMemory(t *testing.T) {
	const mib, none = 1 << 20, 1 << 62
	for name, c := range map[string]struct {
		gomemlimit                             string
		requests                               int64
		held, released, available, addresses   int64
		limit, budget, longestBody, otherLimit int64
	}{
		"much":           {"", 0, 100 * mib, 0, 100_000 * mib, 0, 90_100 * mib, 2048 * mib, 32 * mib, none},
		"a container":    {"", 0, 50 * mib, 0, 500 * mib, 0, 500 * mib, 250 * mib, 250 * mib / 16, none},
		"addresses":      {"", 0, 100 * mib, 300 * mib, 700 * mib, 700 * mib, 1000 * mib, 500 * mib, 250 * mib / 8, none},
		"hardly any":     {"", 0, 10 * mib, 0, mib, 0, 10*mib + mib/10*9, 16 * mib, mib, none},
		"nothing known":  {"", 0, 10 * mib, 0, 0, 0, none, 2048 * mib, 32 * mib, none},
		"GOMEMLIMIT":     {"400MiB", 0, 50 * mib, 0, 10_000 * mib, 0, 400 * mib, 200 * mib, 200 * mib / 16, 400 * mib},
		"--request-memo": {"", 64 * mib, 50 * mib, 0, 10_000 * mib, 0, 9050 * mib, 64 * mib, 2 * mib * 2, none},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", c.gomemlimit)
			k := newKeeping(t, Config{RequestMemory: c.requests})
			k.held, k.released, k.available, k.addresses, k.limit = c.held, c.released, c.available, c.addresses, c.otherLimit
			k.look()
			near := func(a, b int64) bool { return max(a-b, b-a) < mib/2 }
			if !near(k.limit, c.limit) {
				t.Errorf("Go's limit is %d MiB, want %d", k.limit/mib, c.limit/mib)
			}
			if b := k.server.bodies; !near(2*b.most, c.budget) || !near(b.longestBody(), c.longestBody) {
				t.Errorf("requests have %d MiB and a body %d, want %d and %d", 2*b.most/mib, b.longestBody()/mib, c.budget/mib,
					c.longestBody/mib)
			}
		})
	}
}

// TestMemoryIsGivenBack checks that memory is freed once after a peak, when requests do not need it.
func TestMemoryIsGivenBack(t *testing.T) {
	k := newKeeping(t, Config{})
	looks := func(n, freed int) {
		t.Helper()
		for range n {
			k.look()
		}
		if k.freed != freed {
			t.Errorf("given back %d times, want %d", k.freed, freed)
		}
		k.freed = 0
	}
	k.held = worthFreeing / 2
	looks(5, 0)
	k.held = 100 * worthFreeing
	if err := k.server.bodies.hold("a", 0, 200<<20); err != nil {
		t.Fatal(err)
	}
	k.held = 600 << 20
	looks(5, 0) // requests have a third of it
	k.server.bodies.release("a", 200<<20)
	looks(1, 0)
	looks(1, 1)
	looks(5, 0)
}

// TestMemoryOfRequests checks that short values, long answers and tokens count toward the memory of requests. A
// request that exceeds the limit of one request must not be told to retry.
func TestMemoryOfRequests(t *testing.T) {
	const memory = 32 << 20 // one request may have half of it
	s := host(t, Config{RequestMemory: memory, MaxTokenize: 1 << 20}, fake.Config{})
	values := func(n int) string { return `{"text":"q","x":[` + strings.Repeat("1,", n) + `1]}` }
	for _, c := range []struct {
		path, body string
		status     int
		names      string
	}{
		{"/say", values(50_000), http.StatusOK, ""},
		{"/say", values(200_000), http.StatusRequestEntityTooLarge, "--request-memory"},
		{"/say", `{"text":"` + strings.Repeat("x", memory/16) + `"}`, http.StatusRequestEntityTooLarge, "--request-memory"},
		{"/say", values(wire.DefaultValues), http.StatusRequestEntityTooLarge, "--max-values"},
		{"/tokenize", `{"content":"` + strings.Repeat("x", 100_000) + `"}`, http.StatusOK, ""},
		{"/tokenize", `{"content":"` + strings.Repeat("x", 600_000) + `"}`, http.StatusRequestEntityTooLarge,
			"--request-memory"},
		{"/tokenize", `{"content":"` + strings.Repeat("x", 1<<20) + `"}`, http.StatusRequestEntityTooLarge, "--max-tokenize"},
	} {
		r := s.do(t, http.MethodPost, c.path, c.body)
		if r.StatusCode != c.status || !strings.Contains(r.body, c.names) {
			t.Errorf("%s with %d bytes: %d %.200s", c.path, len(c.body), r.StatusCode, r.body)
		}
		if r.StatusCode == http.StatusRequestEntityTooLarge && r.Header.Get("Retry-After") != "" {
			t.Errorf("%s with %d bytes is to be tried again", c.path, len(c.body))
		}
	}
	if n := s.bodies.held(); n != 0 {
		t.Errorf("%d bytes are still held", n)
	}
}
