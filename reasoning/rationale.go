package reasoning

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxWhy is the maximum length of a reason in characters.
const maxWhy = 280

// Rationale is the reason for a decision, as stated by the one that made it. Its JSON form is {why, refs,
// alternatives, confidence}, without empty fields.
type Rationale struct {
	// Why has 1 to 280 characters.
	Why string `json:"why"`
	// Refs names the facts behind the decision.
	Refs         []string   `json:"refs,omitempty"`
	Alternatives []Rejected `json:"alternatives,omitempty"`
	// Confidence is from 0 to 1, or nil if none was given.
	Confidence *float64 `json:"confidence,omitempty"`
}

// Rejected is an option that was not taken.
type Rejected struct {
	Option  string `json:"option"`
	Because string `json:"rejectedBecause"`
}

// Validate reports the first field that is out of its range.
func (r *Rationale) Validate() error {
	switch n := utf8.RuneCountInString(r.Why); {
	case strings.TrimSpace(r.Why) == "":
		return errors.New("why is empty")
	case n > maxWhy:
		return fmt.Errorf("why has %d characters; 1 to %d are allowed", n, maxWhy)
	}
	for i, ref := range r.Refs {
		if strings.TrimSpace(ref) == "" {
			return fmt.Errorf("refs[%d] is empty", i)
		}
	}
	for i, a := range r.Alternatives {
		if strings.TrimSpace(a.Option) == "" || strings.TrimSpace(a.Because) == "" {
			return fmt.Errorf("alternatives[%d] needs an option and why it was rejected", i)
		}
	}
	if c := r.Confidence; c != nil && !(*c >= 0 && *c <= 1) {
		return fmt.Errorf("confidence %g is not from 0 to 1", *c)
	}
	return nil
}

// ParseRationale parses a rationale that a model wrote. It returns false if the text is not an object with a reason. A
// reason that is too long is cut. Optional fields are kept only if they are valid.
func ParseRationale(text []byte) (Rationale, bool) {
	var fields map[string]json.RawMessage
	var r Rationale
	if json.Unmarshal(text, &fields) != nil || json.Unmarshal(fields["why"], &r.Why) != nil {
		return Rationale{}, false
	}
	if r.Why = strings.TrimSpace(r.Why); r.Why == "" {
		return Rationale{}, false
	}
	r.Why = strings.TrimSpace(firstRunes(r.Why, maxWhy))
	for _, item := range items(fields["refs"]) {
		var ref string
		if json.Unmarshal(item, &ref) == nil && strings.TrimSpace(ref) != "" {
			r.Refs = append(r.Refs, ref)
		}
	}
	for _, item := range items(fields["alternatives"]) {
		var a Rejected
		if json.Unmarshal(item, &a) == nil && strings.TrimSpace(a.Option) != "" && strings.TrimSpace(a.Because) != "" {
			r.Alternatives = append(r.Alternatives, a)
		}
	}
	var confidence *float64
	if json.Unmarshal(fields["confidence"], &confidence) == nil && confidence != nil && *confidence >= 0 &&
		*confidence <= 1 {
		r.Confidence = confidence
	}
	return r, true
}

// NewRationale returns a rationale with a reason, cut to the maximum length. An empty reason means that none was
// stated.
func NewRationale(why string) Rationale {
	return Rationale{Why: strings.TrimSpace(firstRunes(strings.TrimSpace(why), maxWhy))}
}

// items returns the members of a JSON array, or nil for any other text.
func items(array json.RawMessage) []json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(array, &list) != nil {
		return nil
	}
	return list
}

// firstRunes returns the first n characters of a text.
func firstRunes(text string, n int) string {
	for i := range text {
		if n == 0 {
			return text[:i]
		}
		n--
	}
	return text
}

// DecisionToolSelection is the decision to call a tool.
const DecisionToolSelection = "tool-selection"

// endings explains each detail and finish reason.
var endings = map[string]string{
	string(FinishStop):      "the model came to the end of its answer",
	string(FinishLength):    "the limit on generated tokens was reached",
	string(FinishToolCalls): "the model called tools and waits for their results",
	DetailReasoningBudget:   "the reasoning budget was spent, and the model answered with what it had",
	DetailAnswerReserve:     "the reasoning was closed to leave room for the answer",
	DetailContextFull:       "the context was full",
	DetailStopString:        "a stop string came in the answer",
}

// Ending returns the result's detail, or its finish reason if it has no detail, and an explanation.
func (r *Result) Ending() (reason, why string) {
	if reason = r.Detail; reason == "" {
		reason = string(r.Finish)
	}
	return reason, endings[reason]
}

// DecisionLog collects the decisions of a run: the model's and the runner's. It needs a traced run under visibility
// full. The zero value is ready.
type DecisionLog struct {
	info      Info
	decisions []Decision
}

// Push takes the next event.
func (l *DecisionLog) Push(e *Event) {
	if l.info.Iteration > 0 && l.info.Visibility == VisibilityFull {
		if e.Kind == Decided && e.Decision != nil {
			l.decisions = append(l.decisions, *e.Decision)
		} else if decision, rationale, ok := decisionOf(e, l.info.Strategy); ok {
			d := Decision{Iteration: l.info.Iteration, Decision: decision, Rationale: rationale}
			l.decisions = append(l.decisions, d)
		}
	}
	if e.Info != nil {
		l.info = *e.Info
	}
}

// Decisions returns the decisions so far, or nil.
func (l *DecisionLog) Decisions() []Decision { return l.decisions }

// The actions of a curator.
const (
	CuratorDropped    = "dropped"
	CuratorCompressed = "compressed"
)

// Curation splits the code of a Curated event into what was done and what it was done to.
func Curation(code string) (action, target string) {
	for _, c := range []struct{ suffix, action string }{
		{"-dropped", CuratorDropped}, {"-deleted", CuratorDropped}, {"-truncated", CuratorDropped},
		{"-squashed", CuratorCompressed}, {"-clipped", CuratorCompressed},
	} {
		if target, ok := strings.CutSuffix(code, c.suffix); ok {
			return c.action, target
		}
	}
	return CuratorDropped, code
}

// decisionOf returns the runner's decision that an event reports, if it reports one. from is the strategy so far.
func decisionOf(e *Event, from Strategy) (decision string, r Rationale, ok bool) {
	switch {
	case e.Kind == StrategySwitched && e.Info != nil:
		return "strategy-switch:" + string(from) + "->" + string(e.Info.Strategy), Rationale{Why: e.Text}, true
	case e.Kind == Curated:
		action, target := Curation(e.Code)
		return "curator-" + action, Rationale{Why: e.Text, Refs: []string{target}}, true
	case e.Kind == Done && e.Result != nil:
		reason, why := e.Result.Ending()
		return "termination:" + reason, Rationale{Why: why}, true
	}
	return "", Rationale{}, false
}

// Decision is a decision of a run and its reason. The model gives reasons for its calls, the runner for what it does
// itself.
type Decision struct {
	// Iteration counts the turns since the user's last message, from 1.
	Iteration int `json:"iteration"`
	// Decision is "tool-selection", "curator-<action>", "strategy-switch:<from>-><to>" or "termination:<reason>".
	Decision string `json:"decision"`
	// ToolName is the called function of a tool selection.
	ToolName  string    `json:"toolName,omitempty"`
	Rationale Rationale `json:"rationale"`
}

// Assumption is something that the model says it assumes.
type Assumption struct {
	Text string `json:"assumption"`
	// Because is empty if the model gives no reason.
	Because string `json:"because,omitempty"`
}

// RationaleCount counts the calls for which the model gave a reason, and those without one.
type RationaleCount struct {
	Stated  int `json:"stated"`
	Missing int `json:"missing"`
}
