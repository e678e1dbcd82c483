package participant

import (
	"context"
	"slices"
	"strings"

	"runner/server/mew/envelope"
)

// stream carries the thoughts of one answer that the limit on thoughts held back. The protocol advises agents with long
// reasoning to ask the space for one. session.sending guards it.
type stream struct {
	of      *active
	request string
	// id is the space's name for it, and open the message that opened it. They are empty until it is open.
	id, open string
	// waiting are the thoughts that came before it was open.
	waiting [][]byte
	// ended is why it has ended; empty if it has not.
	ended string
}

// maxWaiting is the maximum number of thoughts that wait for a stream to open.
const maxWaiting = 64

// gatewayName is whom requests for streams name. Some spaces open streams by this name.
const gatewayName = "gateway"

// overflow puts a thought that may not be sent now into the stream of an answer, and asks for the stream first. A space
// that has not opened one is not asked for another on the same connection.
func (s *session) overflow(a *active, path string, step envelope.Step) {
	thought, err := envelope.Pack(step)
	if err != nil {
		return // never: all steps can be encoded
	}
	frame, err := envelope.Pack(envelope.Streamed{Context: path, Type: "thought", Value: thought})
	s.sending.Lock()
	defer s.sending.Unlock()
	if err != nil || a.ctx.Err() != nil || !s.may(&envelope.Envelope{Kind: envelope.Thought, Payload: thought}) ||
		!s.may(&envelope.Envelope{Kind: envelope.StreamClose}) {
		return
	}
	if a.stream == nil && s.unopened == nil {
		want := envelope.StreamWanted{Direction: "upload", Description: "reasoning:" + a.starts[0],
			ContentType: "application/json", Target: a.to}
		sent := s.reply(envelope.StreamRequest, []string{gatewayName}, a.starts[:1], "", want)
		if sent != nil {
			a.stream = &stream{of: a, request: sent.ID}
			s.unopened = a.stream
		}
	}
	switch st := a.stream; {
	case st == nil, st.ended != "":
	case st.id != "":
		s.write(st, frame)
	case len(st.waiting) < maxWaiting:
		st.waiting = append(st.waiting, frame)
	}
}

// write sends a frame of a stream.
func (s *session) write(st *stream, frame []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	if err := s.conn.Send(ctx, slices.Concat([]byte("#"+st.id+"#"), frame)); err != nil {
		s.stop(errLost)
	}
}

// opened handles a stream that the space has opened, perhaps after the end of the answer.
func (s *session) opened(e *envelope.Envelope) {
	s.sending.Lock()
	defer s.sending.Unlock()
	st := s.unopened
	var o envelope.StreamOpened
	if st == nil || !slices.Contains(e.Correlation, st.request) || !e.Read(&o) || !envelope.ValidID(o.ID) ||
		strings.Contains(o.ID, "#") {
		return
	}
	s.unopened = nil
	st.id, st.open = o.ID, e.ID
	if !slices.Equal(o.Target, st.of.to) { // a space that knows no targets would show it to everyone
		st.ended = "error"
	} else if st.ended == "complete" || st.ended == "" && st.of.ctx.Err() == nil {
		for _, frame := range st.waiting {
			s.write(st, frame)
		}
	}
	if st.waiting = nil; st.ended != "" {
		s.closeStream(st)
	}
}

// closed handles a stream that the space has closed.
func (s *session) closed(e *envelope.Envelope) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	a := s.active
	s.mu.Unlock()
	var o envelope.StreamOpened
	if a != nil && a.stream != nil && a.stream.id != "" && e.Read(&o) &&
		(o.ID == a.stream.id || slices.Contains(e.Correlation, a.stream.open)) {
		a.stream.ended = "closed"
	}
}

// finish ends the stream of an answer. What still waits is sent when the stream opens, if the answer is complete.
func (s *session) finish(a *active, reason string) {
	s.sending.Lock()
	defer s.sending.Unlock()
	st := a.stream
	if st == nil || st.ended != "" {
		return
	}
	if st.ended = reason; st.id != "" {
		s.closeStream(st)
	}
}

func (s *session) closeStream(st *stream) {
	s.reply(envelope.StreamClose, nil, []string{st.open}, "", envelope.StreamOpened{ID: st.id, Reason: st.ended})
}
