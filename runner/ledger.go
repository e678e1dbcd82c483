package runner

import (
	"sync"

	"runner/reasoning"
)

// ledger adds up what the turns of a run use. It tells the sum once, when no more turns come and every turn that was
// begun has ended. A run of which no turn was begun has used nothing, and nothing is told.
type ledger struct {
	tell func(reasoning.Usage) // nil where nobody asked

	mu    sync.Mutex
	total reasoning.Usage
	open  int
	// over says that no more turns come, and begun that there is something to tell.
	over, begun bool
}

// begin notes a turn.
func (l *ledger) begin() { l.note(func() { l.open++ }) }

// end adds what a turn has used, nil if it was not begun after all.
func (l *ledger) end(used *reasoning.Usage) {
	l.note(func() {
		if l.open--; used != nil {
			l.begun = true
			addUsage(&l.total, used)
		}
	})
}

// close says that no more turns come.
func (l *ledger) close() { l.note(func() { l.over = true }) }

// note makes a change and tells the sum if that is due with it.
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

// generated is how many tokens the turns so far have generated.
func (l *ledger) generated() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total.Completion + l.total.Summary
}

func addUsage(to, u *reasoning.Usage) {
	to.Prompt += u.Prompt
	to.Cached += u.Cached
	to.Completion += u.Completion
	to.Reasoning += u.Reasoning
	to.Summary += u.Summary
	to.Answer += u.Answer
}
