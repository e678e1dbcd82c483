package responses

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"runner/reasoning/seal"
	"runner/server/wire"
)

var errCancelled = errors.New("the response was cancelled")

// run is a run in the background. It continues without a client.
type run struct {
	cancel context.CancelCauseFunc
	// done is closed when the run is over and its response is stored.
	done chan struct{}
	over atomic.Bool
	// log holds the events if the request asks for a stream; else it is nil.
	log *eventLog
}

// busy reports whether the run is not over. A nil run is over.
func (r *run) busy() bool { return r != nil && !r.over.Load() }

// eventLog keeps the newest events of a run for readers that come and go. It seals events that may contain reasoning.
type eventLog struct {
	keys *seal.Keyring
	// scope returns the scope with which event n is sealed. secret says that events may contain reasoning. limit is the
	// maximum size in bytes.
	scope  func(n int) seal.Scope
	secret bool
	limit  int

	mu     sync.Mutex
	frames []frame
	// first is the number of the first frame that is kept, and bytes the size of all.
	first, bytes int
	closed       bool
	// changed is closed when there is more to read; nil if nobody waits.
	changed chan struct{}
}

// frame is one event.
type frame struct {
	name string
	data []byte
	// lost says that the event could not be sealed.
	lost bool
}

// frameCost estimates the memory of a frame without its data, in bytes.
const frameCost = 64

// tell adds the last event, an error.
func (l *eventLog) tell(code, message string) {
	_ = l.append("error", lastError(l.count(), code, message))
}

// lastError returns error event n.
func lastError(n int, code, message string) *ErrorEvent {
	e := &ErrorEvent{Code: code, Message: message}
	e.is("error", n)
	return e
}

// count returns the number of events so far.
func (l *eventLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first + len(l.frames)
}

// append adds an event. Only one goroutine may call it.
func (l *eventLog) append(name string, event any) error {
	data, err := wire.Marshal(event)
	if err != nil {
		return err
	}
	f := frame{name: name, data: data}
	if l.secret {
		sealed, err := l.keys.Seal(l.scope(l.count()), string(data))
		f.data, f.lost = []byte(sealed), err != nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frames = append(l.frames, f)
	l.bytes += len(f.data) + frameCost
	for l.bytes > l.limit && len(l.frames) > 1 {
		l.bytes -= len(l.frames[0].data) + frameCost
		l.frames[0] = frame{}
		l.frames = l.frames[1:]
		l.first++
	}
	l.wake()
	return nil
}

// close says that there are no more events.
func (l *eventLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.wake()
}

func (l *eventLog) wake() {
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// size estimates the memory of the log in bytes.
func (l *eventLog) size() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// errGone says that a reader asks for an event that is no longer kept.
var errGone = errors.New("the events before these are no longer kept")

// next waits for event n. After the last event it returns an empty name.
func (l *eventLog) next(ctx context.Context, n int) (name string, data []byte, err error) {
	for {
		l.mu.Lock()
		switch at := n - l.first; {
		case at < 0:
			l.mu.Unlock()
			return "", nil, errGone
		case at < len(l.frames):
			f := l.frames[at]
			l.mu.Unlock()
			return l.open(n, f)
		case l.closed:
			l.mu.Unlock()
			return "", nil, nil
		}
		if l.changed == nil {
			l.changed = make(chan struct{})
		}
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return "", nil, ctx.Err()
		}
	}
}

func (l *eventLog) open(n int, f frame) (name string, data []byte, err error) {
	if f.lost {
		return "", nil, errGone
	}
	if !l.secret {
		return f.name, f.data, nil
	}
	text, err := l.keys.Open(l.scope(n), string(f.data))
	if err != nil {
		return "", nil, errGone
	}
	return f.name, []byte(text), nil
}

// follow sends the events from n on until the last one, or until ctx ends or the client has gone.
func (l *eventLog) follow(ctx context.Context, n int, to *wire.Stream) {
	for ; ; n++ {
		name, data, err := l.next(ctx, n)
		switch {
		case errors.Is(err, errGone):
			_ = to.Send("error", lastError(n, "events_gone", errGone.Error()+"; GET the response for what came of it"))
			return
		case err != nil || name == "":
			return
		}
		if to.SendLine(name, data) != nil {
			return
		}
	}
}
