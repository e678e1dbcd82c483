package reasoning

// The prompts below are what models are told and what the bundled model is trained on. Each constant carries a version:
// a change of wording is a new constant, so that a model trained on the old one can still be driven with it.
const (
	// SummaryConciseV1 asks for the short form of the summary pass.
	SummaryConciseV1 = "Summarize the reasoning above in at most two short sentences for the person who asked. " +
		"Use your own words, keep the result, and add nothing that is not in it."

	// SummaryDetailedV1 asks for the long form of the summary pass.
	SummaryDetailedV1 = "Summarize the reasoning above in one short paragraph for the person who asked. " +
		"Use your own words, keep the steps that matter and the result, and add nothing that is not in it."

	// PosthocV1 asks for an explanation of an answer that was given without reasoning.
	PosthocV1 = "Explain in at most two short sentences how the answer above follows from the question. " +
		"Say so if it cannot be explained, and invent nothing."

	// BudgetV1 is put after the last reasoning token when the budget is spent, before the reasoning is closed.
	BudgetV1 = "\n\nThe reasoning budget is used up, so I answer now."

	// MarkersV1 is the instruction of the markers strategy.
	MarkersV1 = "First think step by step between the lines <<REASONING>> and <</REASONING>>. " +
		"After <</REASONING>> write only the answer."

	// DemoIdentityV1 is what the bundled model says it is, whenever it is asked something that it cannot do.
	DemoIdentityV1 = "I am the small demo model bundled with runner. I can only add and subtract whole numbers of up to " +
		"three digits; please ask me something like that, or load a larger model."
)
