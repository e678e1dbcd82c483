package reasoning

import "fmt"

// Shows reports whether an event may leave the process under v. It is asked once for every event, before any encoder.
//
// Under none, neither the reasoning nor its summary passes. Under summary, only the summary passes. Under full,
// everything passes. Decisions, assumptions and the prompts of specialists are reasoning.
//
// Answers, preambles and tool calls always pass. They contain no reasoning, because text of an unknown kind is never
// put into them. Warnings always pass too: they contain only positions and counts. The number of reasoning tokens is
// in every result. It is the only thing about hidden reasoning that shows.
func (v Visibility) Shows(e *Event) bool {
	switch e.Kind {
	case SegmentStart, SegmentDelta, SegmentEnd:
	case Decided, Assumed, Instructed:
		return v == VisibilityFull
	default:
		return true
	}
	if e.Logprobs != nil && e.Segment != Answer {
		return false
	}
	switch e.Segment {
	case Answer, Preamble, ToolCall:
		return true
	case Summary:
		return v == VisibilitySummary || v == VisibilityFull
	case Reasoning:
		return v == VisibilityFull
	}
	return false
}

// Marks reports whether an event begins or ends reasoning that v hides. Such an event contains no text.
func (v Visibility) Marks(e *Event) bool {
	return e.Segment == Reasoning && (e.Kind == SegmentStart || e.Kind == SegmentEnd) && !v.Shows(e)
}

// Cap returns a *VisibilityError if v shows more than most does. A request is refused or granted as it is; it is never
// reduced.
func (v Visibility) Cap(most Visibility) error {
	if v <= most {
		return nil
	}
	return &VisibilityError{Asked: v, Allowed: most}
}

// VisibilityError says that a request asked for more reasoning than is allowed.
type VisibilityError struct{ Asked, Allowed Visibility }

// Permission returns the missing permission, for instance "reasoning:full".
func (e *VisibilityError) Permission() string { return "reasoning:" + e.Asked.String() }

func (e *VisibilityError) Error() string {
	return fmt.Sprintf("visibility %s needs the permission %s; %s is allowed", e.Asked, e.Permission(), e.Allowed)
}

// Hint tells the user what to do next.
func (e *VisibilityError) Hint() string {
	return fmt.Sprintf("ask for visibility %s, or use a key with the permission %s", e.Allowed, e.Permission())
}
