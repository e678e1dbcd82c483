package backendtest

import (
	"bytes"
	"context"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// rounds numbers the calls of Goroutines.
var rounds atomic.Int64

// Goroutines runs f and fails the test if goroutines go on that it started, or that these started. They may take some
// seconds to end. Other tests may run meanwhile.
func Goroutines(t testing.TB, f func()) {
	t.Helper()
	const label = "backendtest"
	round := "round " + strconv.FormatInt(rounds.Add(1), 10)
	pprof.Do(context.Background(), pprof.Labels(label, round), func(context.Context) { f() })
	var left []string
	for began := time.Now(); time.Since(began) < 10*time.Second; time.Sleep(10 * time.Millisecond) {
		var all bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
			t.Fatal(err)
		}
		left = slices.DeleteFunc(strings.Split(all.String(), "\n\n"), func(s string) bool {
			return !strings.Contains(s, `{"`+label+`":"`+round+`"}`)
		})
		if len(left) == 0 {
			return
		}
	}
	t.Errorf("goroutines go on:\n%s", strings.Join(left, "\n\n"))
}
