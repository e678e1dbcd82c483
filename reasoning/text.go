package reasoning

import (
	"fmt"
	"slices"
	"strings"

	"runner/hint"
)

var segmentNames = []string{"header", "reasoning", "summary", "preamble", "tool_call", "answer"}

var kindNames = []string{
	"started", "segment_start", "segment_delta", "segment_end", "warning", "strategy_switched", "done", "decision",
	"assumption", "curated",
	"delegation_start", "delegation_end", "instructed", "prompt_scored", "sealed", "summary_settled",
}

var visibilityNames = []string{"none", "summary", "full"}

// String returns the segment's name in snake case.
func (s Segment) String() string { return nameOf(segmentNames, int(s)) }

// MarshalText writes the segment's name.
func (s Segment) MarshalText() ([]byte, error) { return marshalName(segmentNames, int(s), "segment") }

// UnmarshalText reads a segment's name.
func (s *Segment) UnmarshalText(b []byte) error {
	i, err := parseName(segmentNames, string(b), "segment")
	*s = Segment(i)
	return err
}

// String returns the kind's name in snake case.
func (k Kind) String() string { return nameOf(kindNames, int(k)) }

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return marshalName(kindNames, int(k), "kind of event") }

// UnmarshalText reads a kind's name.
func (k *Kind) UnmarshalText(b []byte) error {
	i, err := parseName(kindNames, string(b), "kind of event")
	*k = Kind(i)
	return err
}

// String returns none, summary or full.
func (v Visibility) String() string { return nameOf(visibilityNames, int(v)) }

// MarshalText writes none, summary or full.
func (v Visibility) MarshalText() ([]byte, error) {
	return marshalName(visibilityNames, int(v), "visibility")
}

// UnmarshalText reads what ParseVisibility reads.
func (v *Visibility) UnmarshalText(b []byte) error {
	p, err := ParseVisibility(string(b))
	if err == nil {
		*v = p
	}
	return err
}

// ParseVisibility reads none, summary or full. The error lists the allowed values.
func ParseVisibility(s string) (Visibility, error) {
	i, err := parseName(visibilityNames, s, "visibility")
	return Visibility(i), err
}

var efforts = []string{
	string(EffortNone), string(EffortMinimal), string(EffortLow),
	string(EffortMedium), string(EffortHigh),
}

// ParseEffort reads none, minimal, low, medium or high. It reads xhigh and max, which some clients send, as high. The
// empty string is the model's own default. The error lists the allowed values.
func ParseEffort(s string) (Effort, error) {
	switch s {
	case "":
		return EffortDefault, nil
	case "xhigh", "max":
		return EffortHigh, nil
	}
	if _, err := parseName(efforts, s, "effort"); err != nil {
		return "", err
	}
	return Effort(s), nil
}

var strategies = []string{
	string(StrategyAuto), string(StrategyNative), string(StrategyJSON), string(StrategyTool), string(StrategyMarkers),
	string(StrategyPosthoc),
}

// ParseStrategy reads a strategy's name. The empty string is auto. The error lists the allowed values.
func ParseStrategy(s string) (Strategy, error) {
	if s == "" {
		return StrategyAuto, nil
	}
	if _, err := parseName(strategies, s, "strategy"); err != nil {
		return "", err
	}
	return Strategy(s), nil
}

// UnmarshalText reads what ParseStrategy reads.
func (s *Strategy) UnmarshalText(b []byte) error {
	p, err := ParseStrategy(string(b))
	if err == nil {
		*s = p
	}
	return err
}

// unknown is the error of a text that is not a value of an enumeration with a name, for instance "visibility".
func unknown(what, value string, names []string) error {
	allowed := strings.Join(names, ", ")
	return &hint.Error{Text: fmt.Sprintf("%s %q is not one of %s", what, value, allowed),
		Advice: hint.Advice("use one of " + allowed)}
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%d", i)
}

func marshalName(names []string, i int, what string) ([]byte, error) {
	if i >= len(names) {
		return nil, unknown(what, fmt.Sprint(i), names)
	}
	return []byte(names[i]), nil
}

func parseName(names []string, s, what string) (int, error) {
	i := slices.Index(names, s)
	if i < 0 {
		const most = 40
		if len(s) > most {
			s = strings.ToValidUTF8(s[:most], "") + "…"
		}
		return 0, unknown(what, s, names)
	}
	return i, nil
}
