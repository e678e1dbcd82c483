package runner

import (
	"sync"

	"runner/reasoning"
)

// ledger adds up the usage of a job's turns. It reports the sum once: when no more turns come and all turns have
// ended. If no turn was begun, it reports nothing.
type ledger struct {
	tell func(reasoning.Usage) // nil once the sum was told

	mu    sync.Mutex
	total reasoning.Usage
	open  int
	// over says that no more turns come. begun says that a turn was begun.
	over, begun bool
}

// begin adds a turn.
func (l *ledger) begin() { l.note(func() { l.open++ }) }

// end adds the usage of a turn that has ended, nil if it was not begun.
func (l *ledger) end(used *reasoning.Usage) {
	l.note(func() {
		if l.open--; used != nil {
			l.begun = true
			l.total.Add(used)
		}
	})
}

// close says that no more turns come.
func (l *ledger) close() { l.note(func() { l.over = true }) }

// note makes a change and then reports the sum if it is time.
func (l *ledger) note(change func()) {
	l.mu.Lock()
	change()
	tell, total := l.tell, l.total
	due := tell != nil && l.over && l.begun && l.open == 0
	if due {
		l.tell = nil
	}
	l.mu.Unlock()
	if due {
		tell(total)
	}
}
