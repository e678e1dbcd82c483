package generation

// CodeFormViolated warns that an answer breaks its form although the form was enforced.
const CodeFormViolated = "form_violated"

// CodeFormCut warns that a stop string ended an answer before it matched its form. For GBNF it may have matched.
const CodeFormCut = "form_cut"

// CodeStrictIgnored warns that this model's format cannot enforce the parameters of strict tools.
const CodeStrictIgnored = "strict_ignored"

// CodeNotTraced warns that the requested trace is not stored.
const CodeNotTraced = "trace_not_stored"

// CodePlainReasoning warns that reasoning which the caller sent as plain text was left out: the caller may not see
// reasoning, or it belongs to an earlier turn.
const CodePlainReasoning = "plain_reasoning_dropped"

// CodePromptMoved warns that a system prompt after the user's first message is shown as marked text of the user,
// because the model's template takes one at the start only.
const CodePromptMoved = "system_prompt_moved"

// CodeResultDropped warns that results of calls were left out, because their calls are not in the conversation.
const CodeResultDropped = "result_dropped"

// CodeSamplingWithheld warns that bias and penalties do not act on all of the output that the caller sees.
const CodeSamplingWithheld = "sampling_withheld"

// CodeSummaryUnavailable warns that there is no summary, or that it is incomplete.
const CodeSummaryUnavailable = "summary_unavailable"

// CodeSummaryCut warns that the summary reached its limit of tokens and was cut off.
const CodeSummaryCut = "summary_cut"

// CodeReasoningUnavailable warns that reasoning was requested and the model gave none.
const CodeReasoningUnavailable = "reasoning_unavailable"

// CodeAnswerForced warns that the model ended its turn inside its reasoning, so that an answer was forced.
const CodeAnswerForced = "answer_forced"

// CodeReportUnanswered warns that the model's format does not allow a result for the call of report_reasoning.
const CodeReportUnanswered = "report_unanswered"

// CodeNotSealed warns that the reasoning could not be sealed, so the next turn continues without it.
const CodeNotSealed = "not_sealed"

// Warnings of runs that delegate.
const (
	// CodeDelegationUnavailable: the model cannot delegate.
	CodeDelegationUnavailable = "delegation_unavailable"
	// CodeDelegationRefused: the model's call to delegate or to return was refused. The model was told why.
	CodeDelegationRefused = "delegation_refused"
	// CodeDelegationLimit: the limit on steps was reached, so the original prompt is active again.
	CodeDelegationLimit = "delegation_limit"
	// CodeDelegationNotSquashed: the specialist's work could not be summed up in one message, so all of it was kept.
	CodeDelegationNotSquashed = "delegation_not_squashed"
	// CodeCallIgnored: the turn called a function to delegate together with other functions. Only the other calls count.
	CodeCallIgnored = "delegation_call_ignored"
)
