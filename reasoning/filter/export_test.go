package filter

// Quotes reports whether a Guard for the reasoning would forbid text.
func Quotes(reasoning, text string) bool { return !NewGuard(nil, reasoning).clean(text) }
