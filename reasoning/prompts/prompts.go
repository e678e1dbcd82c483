package prompts

import "runner/reasoning"

// The bundled model is trained on all of these texts but PlanStrictV1 and ObjectV1. Each constant has a version: a new
// wording is a new constant. The texts that runs use keep their names as long as models that were trained on them are
// in use. The bundled model's identity is replaced together with the model.
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

	// BudgetV1 is inserted when the reasoning budget is spent, before the reasoning is closed.
	BudgetV1 = "\n\nThe reasoning budget is used up, so I answer now."

	// MarkersV1 is the instruction of the markers strategy.
	MarkersV1 = "First think step by step between the lines <<REASONING>> and <</REASONING>>. " +
		"After <</REASONING>> write only the answer."

	// RationaleV1 asks for the reason of each call.
	RationaleV1 = `Give the reason for each function call, before you make it, in one block: ` +
		`<rationale call="N">{"why": "..."}</rationale>. ` +
		`N counts your calls in this turn from 1. "why" says in at most 280 characters why you make this call. ` +
		`Where they apply, add "refs": the list of facts that it rests on; ` +
		`"alternatives": a list of {"option": "...", "rejectedBecause": "..."}; "confidence": a number from 0 to 1. ` +
		`The blocks are not shown to the person who asked. ` +
		`If you take something for granted, say so as "I assume ... because ...".`

	// PlanV1 asks for a plan. The functions follow it, as JSON.
	PlanV1 = `Do not do what you are asked, and call nothing. ` +
		`Write a plan for it: one JSON object {"steps": [...]} and nothing else. ` +
		`A step that calls a function is {"tool": "its name", "purpose": "what for", ` +
		`"rationale": {"why": "why this function, in at most 280 characters"}}; ` +
		`its rationale may also have "refs", a list of facts that it rests on, ` +
		`"alternatives", a list of {"option": "...", "rejectedBecause": "..."}, and "confidence", from 0 to 1. ` +
		`Any other step is {"purpose": "..."}. The functions are:`

	// PlanStrictV1 is added after a plan that came without reasons.
	PlanStrictV1 = `Each step that calls a function must say why in its rationale. A plan without that is of no use.`

	// DemoIdentityV2 is the bundled model's answer to anything that it cannot do.
	DemoIdentityV2 = "I am the small demo model bundled with runner. I can calculate with small whole numbers, " +
		"compare and sort them, solve short word problems, and work with time, money and units; " +
		"please ask me something like that, or load a larger model."
)

// The texts of the strategies in which the model writes its reasoning in a form that the runner defines.
const (
	// JSONV1 is the instruction of strategy json.
	JSONV1 = "Reply with one JSON object and nothing else, in this form: " +
		`{"reasoning": "...", "answer": "..."}` +
		". Write \"reasoning\" first and think the problem through in it, step by step. " +
		"Then write in \"answer\" what you want to tell the person who asked, complete in itself, " +
		"because the reasoning may not be shown."

	// JSONSchemaV1 is JSONV1 for requests that have a schema.
	JSONSchemaV1 = "Reply with one JSON object and nothing else, in this form: " +
		`{"reasoning": "...", "answer": ...}` +
		". Write \"reasoning\" first and think the problem through in it, step by step. " +
		"Then write in \"answer\" the JSON value that was asked for, exactly as its schema says."

	// ObjectV1 asks for an answer that is a JSON object of any form. Without it a model that is made to write an object
	// does not know which.
	ObjectV1 = "Write the answer as one JSON object and nothing else."

	// JSONScoreV1 is added to either text if a score is requested.
	JSONScoreV1 = `After "answer" add "score": a number from 0 to 1 that says how sure you are that the answer is right.`

	// ReportV1 is the instruction of strategy tool.
	ReportV1 = "Before you do anything else, call the function " + reasoning.ReportReasoningName +
		" once, with your step-by-step thinking as its argument. " +
		"It returns nothing. Then go on: call other functions if you need them, " +
		"or write only the answer, complete in itself, because the reasoning may not be shown."

	// ReportDescriptionV1 describes the function of strategy tool, and ReportParametersV1 is its schema.
	ReportDescriptionV1 = "Reports how you reason. Call it before you answer and before you call any other function."
	ReportParametersV1  = `{"type": "object", "properties": {"reasoning": {"type": "string", ` +
		`"description": "Your thinking, step by step, from the question to the result."}}, ` +
		`"required": ["reasoning"], "additionalProperties": false}`
)
