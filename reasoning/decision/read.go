package decision

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"

	"runner/hint"
	"runner/reasoning"
)

const (
	// maxLine is the maximum length of a line in bytes, and maxEvents the maximum number of lines.
	maxLine   = 1 << 20
	maxEvents = 100_000
)

// notTrace says which line of a text, from 1, is not a trace event, and why.
func notTrace(line int, err error) error {
	return &hint.Error{Text: fmt.Sprintf("line %d of the trace: %v", line, err), Err: err,
		Advice: "give JSON lines as run --output decisions writes them"}
}

// Read reads a trace in JSON lines and returns the debriefs of its runs, in the order in which the runs began. It reads
// traces of a [Tracer] and of Reactive Agents. What a specialist did belongs to the run that called it. Read skips
// events of unknown kinds and an incomplete last line. It skips damaged lines, too, and calls damaged with the first
// error and the number of lines. A text that is not a trace is an error with a hint. Other errors are those of the
// reader.
func Read(from io.Reader, damaged func(first error, lines int)) ([]*Debrief, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	cut := false // the line has no line feed
	lines.Split(func(data []byte, atEOF bool) (int, []byte, error) {
		advance, token, err := bufio.ScanLines(data, atEOF)
		cut = advance > 0 && data[advance-1] != '\n'
		return advance, token, err
	})
	runs := map[string]*folder{}
	var order []*Debrief
	n, skipped := 0, 0
	var first error
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		if n > maxEvents {
			return nil, notTrace(n, fmt.Errorf("there are more than %d lines", maxEvents))
		}
		e, err := parseEntry(text)
		if err != nil && cut && len(order) > 0 {
			break // the run was killed while it wrote this line
		}
		if err != nil {
			if skipped++; first == nil {
				first = notTrace(n, err)
			}
			continue
		}
		run := runs[e.Root]
		if run == nil {
			run = runs[e.RunID]
		}
		if run == nil {
			run = newFolder(e.RunID)
			runs[e.RunID] = run
			order = append(order, run.debrief)
		}
		run.push(e)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, notTrace(n+1, fmt.Errorf("it has more than %d bytes", maxLine))
	case err != nil:
		return nil, err
	case len(order) == 0 && first != nil:
		return nil, first
	case len(order) == 0:
		return nil, notTrace(1, errors.New("the trace is empty"))
	case first != nil:
		damaged(first, skipped)
	}
	for _, run := range runs {
		run.finish()
	}
	return order, nil
}

// entry is a line of a trace. Members of a wrong type are skipped.
type entry struct {
	Kind        Kind
	RunID, Root string
	Iter        number
	fields
}

type fields struct {
	Task string `json:"task"`

	CallIndex    *int                 `json:"callIndex"`
	ToolCallID   string               `json:"toolCallId"`
	ToolName     string               `json:"toolName"`
	Chosen       string               `json:"chosen"`
	Alternatives []reasoning.Rejected `json:"alternatives"`

	Assumption string `json:"assumption"`
	Action     string `json:"action"`
	TargetRef  string `json:"targetRef"`
	From       string `json:"from"`
	To         string `json:"to"`

	// Reason is the text form of Rationale. Some events of Reactive Agents have only this.
	Reason    string          `json:"reason"`
	Rationale json.RawMessage `json:"rationale"`

	Status               string          `json:"status"`
	TerminatedBy         string          `json:"terminatedBy"`
	TerminationRationale json.RawMessage `json:"terminationRationale"`

	TotalTokens      number  `json:"totalTokens"`
	DurationMS       number  `json:"durationMs"`
	RationaleMissing *number `json:"rationaleMissing"`
}

// number is a whole number. JSON may write it with a fraction.
type number int64

// UnmarshalJSON reads a number, and null as 0. It limits large numbers to the range that a float64 holds exactly.
func (n *number) UnmarshalJSON(text []byte) error {
	var x float64
	if err := json.Unmarshal(text, &x); err != nil {
		return err
	}
	const most = 1 << 53
	*n = number(math.Round(min(max(x, -most), most)))
	return nil
}

// documentedCall is ToolCallStart in the documentation of Reactive Agents, which differs from its code.
const documentedCall Kind = "ToolCallStarted"

// parseEntry reads a line.
func parseEntry(text []byte) (*entry, error) {
	var base struct {
		Kind  Kind   `json:"kind"`
		RunID string `json:"runId"`
		Root  string `json:"rootRunId"`
		Iter  number `json:"iter"`
	}
	if json.Unmarshal(text, &base) != nil {
		return nil, errors.New("not a trace event")
	}
	if base.Kind == documentedCall {
		base.Kind = ToolCallStart
	}
	if base.Kind == "" || base.RunID == "" {
		return nil, errors.New("it has no kind or no runId")
	}
	e := &entry{Kind: base.Kind, RunID: base.RunID, Root: base.Root, Iter: base.Iter}
	// Members of a wrong type are skipped, because dialects add members of their own.
	var mistyped *json.UnmarshalTypeError
	if err := json.Unmarshal(text, &e.fields); err != nil && !errors.As(err, &mistyped) {
		return nil, errors.New("not a trace event")
	}
	return e, nil
}

// rationale returns the event's rationale, or its reason in text, or nil if it has neither.
func (e *entry) rationale() *reasoning.Rationale {
	if r, ok := reasoning.ParseRationale(e.Rationale); ok {
		return &r
	}
	return stated(e.Reason)
}
