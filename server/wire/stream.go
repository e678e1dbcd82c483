package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"
)

// The times of a stream.
const (
	// keepAlive is how long a stream of server-sent events may be silent, so that no proxy closes it as dead.
	keepAlive = 15 * time.Second
	// writeTimeout is how long a client may take to receive one frame or one part of an answer.
	// It is renewed at most once a second.
	writeTimeout = 2 * time.Minute
)

// Stream writes frames to a client, each as a whole and at once. It writes nothing else, so what the client has
// received is well formed wherever the stream ends. A client that does not read delays only its own stream.
//
// Its methods may be called by one goroutine at a time.
type Stream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	lines   bool

	mu  sync.Mutex
	buf bytes.Buffer
	// json writes to buf.
	json *json.Encoder
	err  error
	// held says that frames stay in buf until Flush.
	held bool
	// idle fires some time after the last frame, which was written at last. deadline is that of the connection.
	idle           *time.Timer
	last, deadline time.Time
	ended          bool
}

// NewEvents begins a stream of server-sent events (WHATWG HTML, section 9.2).
func NewEvents(w http.ResponseWriter) *Stream {
	s := newStream(w, "text/event-stream; charset=utf-8")
	s.mu.Lock() // comment reads idle
	defer s.mu.Unlock()
	s.idle = time.AfterFunc(keepAlive, s.comment)
	return s
}

// NewLines begins a stream of JSON values, one on each line (application/x-ndjson).
func NewLines(w http.ResponseWriter) *Stream {
	s := newStream(w, "application/x-ndjson")
	s.lines = true
	return s
}

func newStream(w http.ResponseWriter, kind string) *Stream {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	s := &Stream{w: w, control: http.NewResponseController(w), last: time.Now()}
	s.json = NewJSON(&s.buf)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flush()
	return s
}

// maxHeld is how many bytes of frames are held back at most.
const maxHeld = 16 << 10

// Hold keeps frames back until Flush or End, so that frames that come together are written together.
// It returns the stream.
func (s *Stream) Hold() *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
	return s
}

// Flush writes the frames that are held back. On a nil stream it does nothing. Send returns its error.
func (s *Stream) Flush() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write()
}

// Send writes one frame with a value as JSON. event is the event's name and may be empty. After an error of the
// connection, all later calls return that error. A value that JSON cannot represent is an error, and nothing is
// written.
func (s *Stream) Send(event string, v any) error {
	return s.frame(event, func() error { return s.json.Encode(v) })
}

// SendLine is Send for data that is sent as it is: one line.
func (s *Stream) SendLine(event string, data []byte) error {
	return s.frame(event, func() error {
		s.buf.Write(data)
		return s.buf.WriteByte('\n')
	})
}

// frame writes one frame. data appends its data and a line end to the buffer.
func (s *Stream) frame(event string, data func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.ended {
		return s.err
	}
	before := s.buf.Len()
	if !s.lines {
		if event != "" {
			s.buf.WriteString("event: ")
			s.buf.WriteString(event)
			s.buf.WriteByte('\n')
		}
		s.buf.WriteString("data: ")
	}
	if err := data(); err != nil {
		s.buf.Truncate(before)
		return err
	}
	if !s.lines {
		s.buf.WriteByte('\n')
	}
	if !s.held || s.buf.Len() >= maxHeld {
		s.write()
	}
	return s.err
}

// End ends the stream; nothing is sent after it. On a nil stream it does nothing. A handler must call End in a deferred
// function: a stream that outlives its handler after a panic would write to a closed connection, and net/http would
// panic.
func (s *Stream) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write()
	s.ended = true
	if s.idle != nil {
		s.idle.Stop()
	}
}

// comment keeps a silent stream alive.
func (s *Stream) comment() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	if left := keepAlive - time.Since(s.last); left > 0 {
		s.idle.Reset(left)
		return
	}
	s.buf.WriteString(": still here\n\n")
	s.write()
	s.idle.Reset(keepAlive)
}

// write sends the frames in buf.
func (s *Stream) write() {
	if s.err != nil || s.ended || s.buf.Len() == 0 {
		return
	}
	s.last = time.Now()
	if s.deadline.Sub(s.last) < writeTimeout-time.Second {
		s.deadline = s.last.Add(writeTimeout)
		_ = s.control.SetWriteDeadline(s.deadline) // writers in tests have no deadlines
	}
	_, err := s.w.Write(s.buf.Bytes())
	if s.buf.Reset(); err != nil {
		s.err = err
		return
	}
	s.flush()
}

func (s *Stream) flush() {
	if err := s.control.Flush(); err != nil && s.err == nil {
		s.err = err
	}
}
