// Package ledger knows how much memory the loaded models were promised.
//
// A system counts memory as free that a process has reserved and not used yet, such as most of a new cache, and the
// pages of mapped files. A model that is planned by the free memory alone counts on memory that other models will
// take. So every model has an entry here, whether its engine runs in this process or in a child, and is planned with
// the sum of all other entries.
//
// A child has a ledger of its own, which is empty. Its model is planned with the sum that the parent sends it
// (backend.Config.Reserved).
package ledger

import (
	"os"
	"sync"

	"runner/backend"
)

// Models is the ledger of the models that this process has loaded.
var Models Ledger

// Ledger is a list of entries. The zero value is empty and ready for use by several goroutines.
type Ledger struct {
	planning sync.Mutex // held while a model is planned
	mu       sync.Mutex // guards entries
	entries  map[*Entry]bool
	// touched replaces the function of the same name in tests.
	touched func(process int) int64
}

// Entry is the share of one model.
type Entry struct {
	ledger  *Ledger
	process func() int
	memory  backend.Memory
}

// Plan calls plan with what the models of the ledger were promised, and enters what it returns. Plans are made one
// after the other, so none of them counts on memory that another one takes. An error of plan makes no entry.
//
// process returns the number of the process that takes the memory, or 0 if it does not run now. Nil means this process.
func (l *Ledger) Plan(process func() int, plan func(others backend.Memory) (backend.Memory, error)) (*Entry, error) {
	if process == nil {
		process = os.Getpid
	}
	l.planning.Lock()
	defer l.planning.Unlock()
	takes, err := plan(l.Others(nil))
	if err != nil {
		return nil, err
	}
	e := &Entry{l, process, takes}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.entries == nil {
		l.entries = map[*Entry]bool{}
	}
	l.entries[e] = true
	return e, nil
}

// Others returns the sum of all entries except own, which may be nil.
func (l *Ledger) Others(own *Entry) backend.Memory {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum backend.Memory
	private := map[int]int64{} // by process: one measure covers all its models
	for e := range l.entries {
		if e == own {
			continue
		}
		sum.Mapped += e.memory.Mapped
		sum.Private += e.memory.Private
		private[e.process()] += e.memory.Private
	}
	for process, promised := range private {
		sum.Untouched += max(promised-l.touch(process), 0)
	}
	return sum
}

func (l *Ledger) touch(process int) int64 {
	switch {
	case process == 0:
		return 0
	case l.touched != nil:
		return l.touched(process)
	}
	return touched(process)
}

// Remove removes the entry. Removing it twice, or one that is nil, is harmless.
func (e *Entry) Remove() {
	if e == nil {
		return
	}
	e.ledger.mu.Lock()
	defer e.ledger.mu.Unlock()
	delete(e.ledger.entries, e)
}
