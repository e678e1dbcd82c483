package render

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Spinner shows on a terminal that the program is working. A nil Spinner shows nothing. Its methods may be called
// from any goroutine.
type Spinner struct {
	w io.Writer

	mu    sync.Mutex
	text  string
	since time.Time
	stop  chan struct{}
	done  chan struct{}
}

// NewSpinner returns a spinner on the terminal w.
func NewSpinner(w io.Writer) *Spinner { return &Spinner{w: w} }

const (
	// spinnerDelay is the longest wait that shows no spinner.
	spinnerDelay = 200 * time.Millisecond
	spinnerStep  = 100 * time.Millisecond
)

// Set shows a few words about the current work. It starts the spinner if it is not running.
func (s *Spinner) Set(text string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
	if s.stop == nil {
		s.since = time.Now()
		s.stop, s.done = make(chan struct{}), make(chan struct{})
		go s.run(s.stop, s.done)
	}
}

// Stop removes the spinner from the terminal. Nothing is written after it returns.
func (s *Spinner) Stop() {
	if s == nil {
		return
	}
	s.mu.Lock()
	stop, done := s.stop, s.done
	s.stop, s.done = nil, nil
	s.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
}

func (s *Spinner) run(stop, done chan struct{}) {
	defer close(done)
	tick := time.NewTicker(spinnerStep)
	defer tick.Stop()
	drawn := false
	for i := 0; ; i++ {
		select {
		case <-stop:
			if drawn {
				fmt.Fprint(s.w, "\r\x1b[K")
			}
			return
		case <-tick.C:
		}
		s.mu.Lock()
		text, waited := s.text, time.Since(s.since)
		s.mu.Unlock()
		if waited < spinnerDelay {
			continue
		}
		drawn = true
		line := fmt.Sprintf("\r%c %s", `|/-\`[i%4], text)
		if waited >= 3*time.Second {
			line += fmt.Sprintf(" (%d s)", int(waited.Seconds()))
		}
		fmt.Fprint(s.w, line+"\x1b[K")
	}
}
