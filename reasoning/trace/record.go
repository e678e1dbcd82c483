package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"runner/reasoning"
)

// ErrConsent says that a trace was to begin without anybody having asked for it.
var ErrConsent = errors.New("sealed trace: who asked for it, and when, is missing")

// Record is one record of a run's trace. One of Begin, Event and End is set; Begin comes first, End last.
type Record struct {
	// MS is how many milliseconds after Begin.Time it was.
	MS    int64            `json:"ms"`
	Begin *Begin           `json:"begin,omitempty"`
	Event *reasoning.Event `json:"event,omitempty"`
	End   *End             `json:"end,omitempty"`
}

// Begin is what a run starts from.
type Begin struct {
	Time    time.Time `json:"time"`
	Consent Consent   `json:"consent"`
	// Run names the run elsewhere: in its decision trace, or as the id of the answer that it came to.
	Run string `json:"run,omitempty"`
	// Principal is whose run it is: the API key's id, or "local".
	Principal string `json:"principal,omitempty"`
	// Model is the model's name and ModelDigest the digest of its files.
	Model       string `json:"model"`
	ModelDigest string `json:"model_digest,omitempty"`
	// Prompt, Tools and Sampling are the conversation, the functions and how tokens were chosen, in the form that
	// the writer chose.
	Prompt   json.RawMessage `json:"prompt"`
	Tools    json.RawMessage `json:"tools,omitempty"`
	Sampling json.RawMessage `json:"sampling,omitempty"`
}

// Consent is who asked for the trace, when, and by what means.
type Consent struct {
	By string    `json:"by"`
	At time.Time `json:"at"`
	// How names the flag or field, for instance "--trace" or "reasoning_encrypt".
	How string `json:"how"`
}

// End is how the run ended: with its Done event, cancelled, or with an error, of which Error is the text.
type End struct {
	Status string `json:"status"`
	Error  string `json:"error,omitempty"`
}

// The ways a run ends.
const (
	StatusDone      = "done"
	StatusCancelled = "cancelled"
	StatusFailed    = "failed"
)

// Sink takes records: a Writer, or what stands before one.
type Sink interface {
	Append(record []byte) error
	Flush() error
}

// maxMerged is how much text of deltas becomes one record.
const maxMerged = 4 << 10

// Recorder writes a run as records. Deltas of one segment that follow one another become one record, so that a
// token does not cost a record. It must be given the events before the visibility policy has filtered them, or the
// trace is not the full one. It is for one goroutine at a time.
type Recorder struct {
	to    Sink
	clock func() time.Time
	began time.Time
	// held is a delta that more text may be added to, and text what it has so far.
	held   *reasoning.Event
	heldMS int64
	text   []byte
}

// NewRecorder writes the first record and flushes it, so that the prompt is sealed before anything is generated.
// Begin.Time may be zero, it is then clock's. Errors: ErrConsent, those of to.
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

// Event records an event. A segment that ends is flushed.
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

// Flush has everything so far sealed. Called every second or so, it bounds what a crash loses by time as well.
func (r *Recorder) Flush() error {
	if err := r.release(); err != nil {
		return err
	}
	return r.to.Flush()
}

// End writes the last record. Closing what is under the Recorder is the caller's.
func (r *Recorder) End(e End) error {
	if err := r.release(); err != nil {
		return err
	}
	return r.write(Record{MS: r.clock().Sub(r.began).Milliseconds(), End: &e})
}

// release writes the delta that was held back.
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

// errUnencodable stands for an encoder's error, which may quote what it could not encode.
var errUnencodable = errors.New("a record cannot be written as JSON")
