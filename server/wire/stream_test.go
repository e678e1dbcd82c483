package wire

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// counted counts the writes to a response.
type counted struct {
	*httptest.ResponseRecorder
	writes int
}

func (c *counted) Write(b []byte) (int, error) {
	c.writes++
	return c.ResponseRecorder.Write(b)
}

func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseRecorder }

// Frames that are held back are written together, at Flush, at the end, or when there are many.
func TestHeldFrames(t *testing.T) {
	w := &counted{ResponseRecorder: httptest.NewRecorder()}
	s := NewEvents(w).Hold()
	send := func(data string) {
		t.Helper()
		if err := s.SendLine("", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	written := func(writes int, want string) {
		t.Helper()
		if got := w.Body.String(); w.writes != writes || got != want {
			t.Errorf("%d writes of %q, want %d of %q", w.writes, got, writes, want)
		}
	}
	send("1")
	send("2")
	written(0, "")
	s.Flush()
	s.Flush()
	written(1, "data: 1\n\ndata: 2\n\n")
	send("3")
	s.End()
	s.Flush()
	written(2, "data: 1\n\ndata: 2\n\ndata: 3\n\n")

	w = &counted{ResponseRecorder: httptest.NewRecorder()}
	s = NewLines(w).Hold()
	defer s.End()
	for range 3 {
		send(strings.Repeat("x", maxHeld/2))
	}
	if w.writes != 1 {
		t.Errorf("%d writes of more than is held back", w.writes)
	}
	var none *Stream
	none.Flush()
}

// Without Hold each frame is written at once.
func TestFramesAreWrittenAtOnce(t *testing.T) {
	w := &counted{ResponseRecorder: httptest.NewRecorder()}
	s := NewEvents(w)
	defer s.End()
	for i := range 3 {
		if err := s.Send("a", "b"); err != nil || w.writes != i+1 {
			t.Errorf("%d writes of %d frames, %v", w.writes, i+1, err)
		}
	}
}
