package generation

// CodeFormViolated warns that an answer came that breaks its form although it was held to it.
const CodeFormViolated = "form_violated"

// CodeFormCut warns that a stop string ended an answer before it had its form, or, for GBNF, perhaps before.
const CodeFormCut = "form_cut"

// CodeStrictIgnored warns that strict tools are not held to their parameters by this model's format.
const CodeStrictIgnored = "strict_ignored"

// CodeNotTraced warns that the trace that was asked for is not stored.
const CodeNotTraced = "trace_not_stored"

// CodeSamplingWithheld warns that bias and penalties do not act on all of what the caller sees.
const CodeSamplingWithheld = "sampling_withheld"

// CodeSummaryUnavailable warns that no summary comes, or no more of it.
const CodeSummaryUnavailable = "summary_unavailable"

// CodeNotSealed warns that the reasoning could not be sealed, so that the next turn goes on without it.
const CodeNotSealed = "not_sealed"

// Warnings of runs that delegate.
const (
	// CodeDelegationUnavailable: the model cannot delegate by itself.
	CodeDelegationUnavailable = "delegation_unavailable"
	// CodeDelegationRefused: the model's call to delegate or to return was refused, and told why.
	CodeDelegationRefused = "delegation_refused"
	// CodeDelegationLimit: the steps were used up, so that the original prompt is back.
	CodeDelegationLimit = "delegation_limit"
	// CodeDelegationNotSquashed: no message could be made of the specialist's work, so that all of it was kept.
	CodeDelegationNotSquashed = "delegation_not_squashed"
	// CodeCallIgnored: the turn called a function to delegate beside others, which come first.
	CodeCallIgnored = "delegation_call_ignored"
)
