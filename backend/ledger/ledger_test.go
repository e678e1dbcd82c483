package ledger

import (
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"runner/backend"
)

// machine is memory that processes use. A process that is not there uses none.
type machine struct {
	total int64
	used  map[int]int64
}

func (m *machine) free() int64 {
	n := m.total
	for _, used := range m.used {
		n -= used
	}
	return n
}

// TestNoTwoModelsCountOnTheSameMemory loads and unloads models at random, in this process and in others, and lets them
// touch some of what they were promised. What all were promised is never more than the machine has. A model gets all
// that is left if it asks for it.
func TestNoTwoModelsCountOnTheSameMemory(t *testing.T) {
	type model struct {
		entry   *Entry
		process int
		takes   int64
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := machine{1 << 20, map[int]int64{}}
		var models []model
		l := Ledger{touched: func(process int) int64 { return m.used[process] }}
		promised := func(process int) (sum int64) {
			for _, x := range models {
				if process == 0 || x.process == process {
					sum += x.takes
				}
			}
			return sum
		}
		for range 200 {
			switch action := r.IntN(4); {
			case action == 0 && len(models) > 0: // a model is unloaded
				i := r.IntN(len(models))
				x := models[i]
				models = append(models[:i], models[i+1:]...)
				x.entry.Remove()
				m.used[x.process] = min(m.used[x.process], promised(x.process))
			case action == 1 && len(models) > 0: // a process is started again
				m.used[models[r.IntN(len(models))].process] = 0
			case action == 2 && len(models) > 0: // a process uses more
				p := models[r.IntN(len(models))].process
				m.used[p] += r.Int64N(promised(p) - m.used[p] + 1)
			default:
				process, wish := 1+r.IntN(4), r.Int64N(m.total/2)
				var takes int64
				e, err := l.Plan(func() int { return process }, func(others backend.Memory) (backend.Memory, error) {
					left := m.free() - others.Untouched
					if want := m.total - promised(0); left != want {
						t.Fatalf("seed %d: %d bytes are left, want %d", seed, left, want)
					}
					if takes = min(wish, left); takes == 0 {
						return backend.Memory{}, errors.New("no room")
					}
					return backend.Memory{Private: takes, Mapped: 1}, nil
				})
				if err == nil {
					models = append(models, model{e, process, takes})
				}
			}
			if sum := l.Others(nil); sum.Private != promised(0) || sum.Private > m.total || sum.Mapped != int64(len(models)) {
				t.Fatalf("seed %d: %+v for %d models that were promised %d bytes", seed, sum, len(models), promised(0))
			}
		}
	}
}

// TestOthersLeaveOutOwn: a model that is started again does not count its own share.
func TestOthersLeaveOutOwn(t *testing.T) {
	var l Ledger
	add := func(n int64) *Entry {
		e, err := l.Plan(func() int { return 0 }, func(backend.Memory) (backend.Memory, error) {
			return backend.Memory{Mapped: n, Private: 10 * n}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	own := add(1)
	add(2)
	if got := l.Others(own); got != (backend.Memory{Mapped: 2, Private: 20, Untouched: 20}) {
		t.Errorf("others %+v", got)
	}
	own.Remove()
	own.Remove()
	if got := l.Others(nil); got.Mapped != 2 {
		t.Errorf("after removing: %+v", got)
	}
}

// TestTouchedMemoryIsSeen: memory that this process has used does not count as untouched.
func TestTouchedMemoryIsSeen(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the memory that processes have used is read on Linux only")
	}
	debug.FreeOSMemory() // the test needs new memory, not what Go keeps from an earlier run
	before := touched(os.Getpid())
	used := make([]byte, 64<<20)
	for i := range used {
		used[i] = 1
	}
	if after := touched(os.Getpid()); after-before < 48<<20 {
		t.Errorf("%d bytes were touched, then %d", before, after)
	}
	runtime.KeepAlive(used)
	if n := touched(1 << 30); n != 0 {
		t.Errorf("a process that does not exist has touched %d bytes", n)
	}
}
