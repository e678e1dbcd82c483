package runner

import (
	"sync"

	"runner/chattemplate"
	"runner/generation/delegation"
	"runner/reasoning"
)

// stage is what a run of several turns says to each of them. The run shows their events itself, so a turn with a
// stage shows all of them. A nil stage is that of a turn that is alone.
type stage struct {
	// later says that the run is under way, so that the turn waits for no other run.
	later bool
	// called says that a turn under the original prompt has called something.
	called bool
	// specialist says that the turn is a specialist's, which has to leave room for the main agent's.
	specialist bool
	// shown says that the caller sees the run's reasoning, and hidden that the turn's text is reasoning.
	shown, hidden bool
	// thoughts is what was thought in the turns before.
	thoughts string
	// before is the last message that the client sent; nil for none.
	before *chattemplate.Message
}

// answers reports whether the run answers calls of a function by itself.
func (s *stage) answers(name string) bool { return s != nil && delegation.IsTool(name) }

// sees reports whether the caller sees the reasoning, of a turn that is alone with its own visibility.
func (s *stage) sees(v reasoning.Visibility) bool {
	if s != nil {
		return s.shown
	}
	return v == reasoning.VisibilityFull
}

// hides reports whether the turn's text is reasoning.
func (s *stage) hides() bool { return s != nil && s.hidden }

func (s *stage) isLater() bool { return s != nil && s.later }

func (s *stage) thought() string {
	if s == nil {
		return ""
	}
	return s.thoughts
}

// asked returns the client's message before the turn's reply, of a turn that is alone the last of its messages.
func (s *stage) asked(messages []chattemplate.Message) *chattemplate.Message {
	if s != nil {
		return s.before
	}
	return lastOf(messages)
}

// share is how many of the tokens that the context has left the turn may generate.
func (s *stage) share(left int) int {
	if s != nil && s.specialist {
		return max(1, left/2)
	}
	return left
}

// ledger adds up what the turns of a run use, and tells it once when the run is over and every turn that was begun
// has told its part.
type ledger struct {
	tell func(reasoning.Usage)

	mu    sync.Mutex
	total reasoning.Usage
	open  int
	over  bool
}

// begin notes a turn, and returns what it tells its part to.
func (l *ledger) begin() func(reasoning.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open++
	return func(u reasoning.Usage) {
		l.mu.Lock()
		l.open--
		addUsage(&l.total, &u)
		l.mu.Unlock()
		l.settle()
	}
}

// end says that no more turns come.
func (l *ledger) end() {
	l.mu.Lock()
	l.over = true
	l.mu.Unlock()
	l.settle()
}

// settle tells the total when there is nothing left to wait for.
func (l *ledger) settle() {
	l.mu.Lock()
	tell, total := l.tell, l.total
	done := l.over && l.open == 0
	if done {
		l.tell = nil
	}
	l.mu.Unlock()
	if done && tell != nil {
		tell(total)
	}
}

func addUsage(to, u *reasoning.Usage) {
	to.Prompt += u.Prompt
	to.Cached += u.Cached
	to.Completion += u.Completion
	to.Reasoning += u.Reasoning
	to.Summary += u.Summary
	to.Answer += u.Answer
}
