package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runner/reasoning"
)

// ErrConsent means that a trace would begin without a record of who asked for it.
var ErrConsent = errors.New("sealed trace: it must say who asked for it, when and how")

// Record is one record of a run's trace. One of Begin, Event and End is set; Begin comes first, End last.
type Record struct {
	// MS is the time of the record in milliseconds after Begin.Time.
	MS    int64            `json:"ms"`
	Begin *Begin           `json:"begin,omitempty"`
	Event *reasoning.Event `json:"event,omitempty"`
	End   *End             `json:"end,omitempty"`
}

// Begin is the state in which a run starts.
type Begin struct {
	Time    time.Time `json:"time"`
	Consent Consent   `json:"consent"`
	// Run is the run's name elsewhere: in its decision trace, or as the id of its answer.
	Run string `json:"run,omitempty"`
	// Principal is the owner of the run: the API key's id, or "local".
	Principal string `json:"principal,omitempty"`
	// Model is the model's name. ModelKey identifies its files on the disk, and ModelDigest is the digest of what they
	// hold, if it is known by then. Before there was a ModelKey, it was a digest of their headers.
	Model       string `json:"model"`
	ModelKey    string `json:"model_key,omitempty"`
	ModelDigest string `json:"model_digest,omitempty"`
	// Prompt, Tools and Sampling are the conversation, the functions and the sampling settings, in a form that the
	// writer chooses.
	Prompt   json.RawMessage `json:"prompt"`
	Tools    json.RawMessage `json:"tools,omitempty"`
	Sampling json.RawMessage `json:"sampling,omitempty"`
}

// Consent says who asked for the trace, when and how.
type Consent struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
	// How names the flag or field, for instance "--trace" or "reasoning_encrypt".
	How string `json:"how"`
}

// End says how the run ended: with its Done event, by cancellation, or with an error, whose text is Error.
type End struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
	// ModelDigest is the digest of what the model's files hold. ModelUnknown says that it is not known yet.
	ModelDigest  string `json:"model_digest,omitempty"`
	ModelUnknown bool   `json:"model_unknown,omitempty"`
}

// The statuses of a run's end.
const (
	StatusDone      = "done"
	StatusCancelled = "cancelled"
	StatusFailed    = "failed"
)

// Sink takes records. A Writer is one.
type Sink interface {
	Append(record []byte) error
	Flush() error
}

// maxMerged is the maximum text in bytes of deltas that are merged into one record.
const maxMerged = 4 << 10

// Recorder writes a run as records. It merges successive deltas of a segment, so that there is not one record for each
// token. Give it the events before the visibility policy filters them, or the trace is not complete. It is for one
// goroutine at a time.
type Recorder struct {
	to    Sink
	clock func() time.Time
	began time.Time
	// held is a delta that is not written yet, and text is its text so far.
	held   *reasoning.Event
	heldMS int64
	text   []byte
}

// NewRecorder writes the first record and flushes it, so that the prompt is sealed before anything is generated. If
// Begin.Time is zero, it is set from clock. Errors: ErrConsent, and those of to.
func NewRecorder(to Sink, b Begin, clock func() time.Time) (*Recorder, error) {
	if b.Consent.By == "" || b.Consent.At.IsZero() || b.Consent.How == "" {
		return nil, ErrConsent
	}
	if b.Time.IsZero() {
		b.Time = clock()
	}
	r := &Recorder{to: to, clock: clock, began: b.Time}
	if err := r.write(Record{Begin: &b}); err != nil {
		return nil, err
	}
	return r, to.Flush()
}

// Event records an event. The end of a segment is flushed.
func (r *Recorder) Event(e reasoning.Event) error {
	ms := r.clock().Sub(r.began).Milliseconds()
	if e.Kind == reasoning.SegmentDelta && len(e.Logprobs) == 0 {
		if r.held != nil && r.held.Segment == e.Segment && r.held.Call == e.Call && len(r.text)+len(e.Text) <= maxMerged {
			r.text = append(r.text, e.Text...)
			return nil
		}
		if err := r.release(); err != nil {
			return err
		}
		r.held, r.heldMS, r.text = &e, ms, append(r.text, e.Text...)
		return nil
	}
	if err := r.release(); err != nil {
		return err
	}
	if err := r.write(Record{MS: ms, Event: &e}); err != nil {
		return err
	}
	if e.Kind == reasoning.SegmentEnd {
		return r.to.Flush()
	}
	return nil
}

// Flush seals everything so far. Calling it every second or so bounds what a crash can lose.
func (r *Recorder) Flush() error {
	if err := r.release(); err != nil {
		return err
	}
	return r.to.Flush()
}

// End writes the last record. The caller closes the Sink.
func (r *Recorder) End(e End) error {
	if err := r.release(); err != nil {
		return err
	}
	return r.write(Record{MS: r.clock().Sub(r.began).Milliseconds(), End: &e})
}

// release writes the held delta.
func (r *Recorder) release() error {
	if r.held == nil {
		return nil
	}
	e := *r.held
	e.Text = string(r.text)
	r.held, r.text = nil, r.text[:0]
	return r.write(Record{MS: r.heldMS, Event: &e})
}

func (r *Recorder) write(rec Record) error {
	line, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("sealed trace: %w", errUnencodable)
	}
	return r.to.Append(line)
}

// errUnencodable replaces the encoder's error, which may quote the record.
var errUnencodable = errors.New("a record cannot be written as JSON")
