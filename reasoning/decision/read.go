package decision

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"runner/reasoning"
)

const (
	// maxLine is the most bytes of a line of a trace, and maxEvents the most lines.
	maxLine   = 1 << 20
	maxEvents = 100_000
)

// TraceError says where a text is not a trace.
type TraceError struct {
	// Line counts from 1.
	Line int
	Err  error
}

func (e *TraceError) Error() string { return fmt.Sprintf("line %d of the trace: %v", e.Line, e.Err) }

// Unwrap returns the cause.
func (e *TraceError) Unwrap() error { return e.Err }

// Hint tells the user what to do next.
func (e *TraceError) Hint() string { return "give JSON lines as run --output trace writes them" }

// Read reads a trace in JSON lines and returns the debriefs of its runs, in the order in which they began. It reads
// the traces that a [Tracer] makes, those of this program's earlier versions and those of Reactive Agents. Events
// of unknown kinds are skipped, and so is a last line that broke off. A text that is not a trace is a *TraceError;
// other errors are those of reading.
func Read(from io.Reader) ([]*Debrief, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	cut := false // the line has no end
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		advance, token, err := bufio.ScanLines(data, atEOF)
		cut = advance > 0 && data[advance-1] != '\n'
		return advance, token, err
	})
	runs := map[string]*folder{}
	var order []*Debrief
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		e, err := parseEntry(text)
		if err == nil && n > maxEvents {
			err = fmt.Errorf("there are more than %d lines", maxEvents)
		}
		if err != nil && cut && len(order) > 0 {
			break // the run was ended while it wrote this line
		}
		if err != nil {
			return nil, &TraceError{n, err}
		}
		run := runs[e.RunID]
		if run == nil {
			run = newFolder(e.RunID)
			runs[e.RunID] = run
			order = append(order, run.debrief)
		}
		run.push(e)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, &TraceError{n + 1, fmt.Errorf("it has more than %d bytes", maxLine)}
	case err != nil:
		return nil, err
	case len(order) == 0:
		return nil, &TraceError{1, errors.New("there is nothing")}
	}
	for _, run := range runs {
		run.finish()
	}
	return order, nil
}

// entry is a line of a trace as it is read. Fields that two dialects spell differently are here twice, and members
// are read as far as they have the right type.
type entry struct {
	Kind  Kind
	RunID string
	Iter  number
	fields
}

type fields struct {
	Task string `json:"task"`
	// Goal is what earlier versions wrote for Task.
	Goal string `json:"goal"`

	CallIndex    *int                 `json:"callIndex"`
	ToolCallID   string               `json:"toolCallId"`
	ToolName     string               `json:"toolName"`
	Chosen       string               `json:"chosen"`
	Alternatives []reasoning.Rejected `json:"alternatives"`

	Assumption string `json:"assumption"`
	// Because is what earlier versions wrote for an assumption's rationale.
	Because   string `json:"because"`
	Action    string `json:"action"`
	TargetRef string `json:"targetRef"`
	From      string `json:"from"`
	To        string `json:"to"`

	// Reason is the text form of Rationale. Earlier versions wrote only that for what the runner decided.
	Reason    string          `json:"reason"`
	Rationale json.RawMessage `json:"rationale"`

	Status               string          `json:"status"`
	TerminatedBy         string          `json:"terminatedBy"`
	TerminationRationale json.RawMessage `json:"terminationRationale"`

	TotalTokens      number  `json:"totalTokens"`
	DurationMS       number  `json:"durationMs"`
	RationaleMissing *number `json:"rationaleMissing"`
}

// number is a whole number that may be written with a fraction.
type number int64

// UnmarshalJSON reads a number, null as 0. What is too large is cut to what a double holds exactly.
func (n *number) UnmarshalJSON(text []byte) error {
	var x float64
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	const most = 1 << 53
	*n = number(math.Round(min(max(x, -most), most)))
	return nil
}

// documentedCall is how the documentation of Reactive Agents names the kind that its packages write as ToolCallStart.
const documentedCall Kind = "ToolCallStarted"

// parseEntry reads a line.
func parseEntry(text []byte) (*entry, error) {
	var base struct {
		Kind  Kind   `json:"kind"`
		Type  Kind   `json:"type"` // what earlier versions wrote for kind
		RunID string `json:"runId"`
		Iter  number `json:"iter"`
	}
	if json.Unmarshal(text, &base) != nil {
		return nil, errors.New("it is not a trace event")
	}
	if base.Kind == "" {
		base.Kind = base.Type
	}
	if base.Kind == documentedCall {
		base.Kind = ToolCallStart
	}
	if base.Kind == "" || base.RunID == "" {
		return nil, errors.New("it has no kind or no runId")
	}
	e := &entry{Kind: base.Kind, RunID: base.RunID, Iter: base.Iter}
	// A member of another type is left as it is, because dialects add members of their own.
	var mistyped *json.UnmarshalTypeError
	if err := json.Unmarshal(text, &e.fields); err != nil && !errors.As(err, &mistyped) {
		return nil, errors.New("it is not a trace event")
	}
	return e, nil
}

// task is what the user asked for.
func (e *entry) task() string { return first(e.Task, e.Goal) }

// rationale is the event's own rationale, or else its reason in text; nil where there is neither.
func (e *entry) rationale() *reasoning.Rationale {
	if r, ok := reasoning.ParseRationale(e.Rationale); ok {
		return &r
	}
	return stated(first(e.Because, e.Reason))
}

// termination is why the run ended: an object, or a text in earlier versions.
func (e *entry) termination() *reasoning.Rationale {
	if r, ok := reasoning.ParseRationale(e.TerminationRationale); ok {
		return &r
	}
	var why string
	if json.Unmarshal(e.TerminationRationale, &why) != nil {
		return nil
	}
	return stated(why)
}

// curation is what a curator did and to what. Earlier versions wrote both in one code.
func (e *entry) curation() (action, target string) {
	if e.TargetRef != "" {
		return e.Action, e.TargetRef
	}
	return reasoning.Curation(e.Action)
}

// status is how a run ended.
func (e *entry) status() string {
	switch e.Status {
	case "completed": // an earlier version's word, like the next
		return StatusSuccess
	case "failed":
		return StatusFailure
	}
	return e.Status
}

// first returns the first of several texts that is not empty.
func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
