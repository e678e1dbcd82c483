package wiretest

import (
	"context"
	"fmt"
	"slices"

	"runner/reasoning"
	"runner/reasoning/filter"
)

// errBroke is a possible error of an engine that quotes its input.
var errBroke = fmt.Errorf("decoding failed near %q", Canary)

// think is reasoning with the canary in one delta.
func think(more ...string) []reasoning.Event {
	return Segment(reasoning.Reasoning, append([]string{"I think of ", Canary, "."}, more...)...)
}

// say is an answer, and told a preamble.
func say(texts ...string) []reasoning.Event  { return Segment(reasoning.Answer, texts...) }
func told(texts ...string) []reasoning.Event { return Segment(reasoning.Preamble, texts...) }

// sum is a summary.
func sum() []reasoning.Event { return Segment(reasoning.Summary, "It was ", SummaryCanary, ".") }

func warn(code string) []reasoning.Event {
	return []reasoning.Event{{Kind: reasoning.Warning, Code: code, Text: "something was odd at token 5"}}
}

// why is the reason for a call. It is between the call's header and its arguments, or after it.
func why(index int) []reasoning.Event {
	sure := 0.5
	return []reasoning.Event{{
		Kind: reasoning.Decided, Call: reasoning.Call{Index: index, ID: fmt.Sprintf("call_%d", index), Name: "look"},
		Decision: &reasoning.Decision{Iteration: 1, Decision: reasoning.DecisionToolSelection, ToolName: "look",
			Rationale: reasoning.Rationale{
				Why: "Because of " + Canary, Refs: []string{Canary},
				Alternatives: []reasoning.Rejected{{Option: Canary, Because: Canary}}, Confidence: &sure,
			}},
	}}
}

func assume() []reasoning.Event {
	return []reasoning.Event{{Kind: reasoning.Assumed, Assumption: &reasoning.Assumption{Text: Canary + " holds",
		Because: Canary}}}
}

// specialist returns a delegation with the events inside it, which are intermediate. It begins with the instruction
// that asked for it.
func specialist(id, caller string, outcome reasoning.DelegationOutcome, parts ...[]reasoning.Event) []reasoning.Event {
	about := reasoning.Delegation{ID: id, By: caller, Length: 40}
	end := about
	end.Steps, end.Outcome = 1, outcome
	events := []reasoning.Event{
		{Kind: reasoning.Instructed, Code: "delegate_reasoning:40:hidden",
			Text: `{"type":"delegate_reasoning","agentPrompt":"You know ` + Canary + `."}`},
		{Kind: reasoning.DelegationStart, Delegation: &about},
	}
	for _, p := range parts {
		events = append(events, by(id, p)...)
	}
	return append(events, reasoning.Event{Kind: reasoning.DelegationEnd, Delegation: &end})
}

// token returns a token with its log probability and its alternatives.
func token(text, other string) []reasoning.TokenLogprobs {
	t := reasoning.TokenLogprobs{Text: text, Top: []reasoning.Alternative{{Text: other}}}
	t.Logprob, t.Top[0].Logprob = -0.5, -2
	return []reasoning.TokenLogprobs{t}
}

func result(finish reasoning.FinishReason, detail string) reasoning.Result {
	return reasoning.Result{Finish: finish, Detail: detail, Usage: Usage}
}

// Recordings returns runs with which every encoder is tested. Each call returns new ones.
func Recordings() []Recording {
	return slices.Concat(answers(), calling(), breaking(), limited(), summaries(), delegations(), particulars())
}

func record(name string, r reasoning.Result, parts ...[]reasoning.Event) Recording {
	return Recording{Name: name, Events: slices.Concat(parts...), Result: r}
}

func failed(name string, err error, parts ...[]reasoning.Event) Recording {
	return Recording{Name: name, Events: slices.Concat(parts...), Err: err}
}

// answers are runs that only have an answer, with or without reasoning.
func answers() []Recording {
	stop := result(reasoning.FinishStop, "")
	return []Recording{
		record("answer alone", stop, say("It is 4.")),
		record("reasoning, then the answer", stop, think(), say("It is ", "4.")),
		record("reasoning in two stretches", stop, think(), think(" Again."), say("It is 4.")),
		record("clusters of characters split across tokens", stop, think(" e", "\u0301 👩", "\u200d", "👧"),
			say("e", "\u0301 👩", "\u200d", "👧 \u2028", "é")),
		record("answer that looks like the end of a stream", stop, think("\n\ndata: [DONE]\n\n"),
			say("\n\ndata: [DONE]\n\n", "event: error\r\ndata: {}\n\n")),
		record("answer that looks like JSON and a tag", stop, think(), say(`{"reasoning":"none`, `","answer":4}`,
			"</think><|end|>")),
		record("answer with control characters", stop, think(), say("a\x00b\x1b[31m", "c\u202ed\tf")),
		record("empty answer", stop, think()),
		record("nothing at all", stop),
		record("answer of white space", stop, think(), say(" ", "\n")),
		record("reasoning after the answer", stop, say("It is 4."), think()),
	}
}

// calling are runs that end in calls of functions.
func calling() []Recording {
	calls := result(reasoning.FinishToolCalls, "")
	return []Recording{
		record("one call", calls, CallSegment(0, "look", `{"q":"a"}`)),
		record("call without arguments", calls, think(), CallSegment(0, "look")),
		record("call with arguments in many parts", calls, think(), CallSegment(0, "look", `{`, `"q"`, `:`, `"é`, `\"`,
			`"`, `}`)),
		record("call with malformed arguments", calls, think(), CallSegment(0, "look", `{"q":`)),
		record("call with arguments that are no object", calls, think(), CallSegment(0, "look", `[1]`)),
		record("word before a call", calls, think(), told("One moment", "."), CallSegment(0, "look", `{"q":"a"}`)),
		record("two calls", calls, think(), CallSegment(0, "look", `{"q":"a"}`), CallSegment(1, "find", `{"q":"b"}`)),
		record("three calls of one function, with reasoning between", calls, think(), CallSegment(0, "look", `{"q":"a"}`),
			think(), CallSegment(1, "look", `{"q":"b"}`),
			think(), CallSegment(2, "look", `{"q":"c"}`)),
		record("reasoning after a call", calls, CallSegment(0, "look", `{"q":"a"}`), think()),
		record("answer before a call", calls, think(), say("It is 4."), CallSegment(0, "look", `{"q":"a"}`)),
	}
}

// breaking are runs that fail or are cancelled.
func breaking() []Recording {
	refused := failed("error before the run starts", errBroke)
	refused.Refused = true
	gone := failed("cancelled before the run starts", context.Canceled)
	gone.Refused = true
	return []Recording{
		refused, gone,
		failed("error at the start", errBroke),
		failed("error in the reasoning", errBroke, opened(think())),
		failed("error between reasoning and answer", errBroke, think()),
		failed("error in the answer", errBroke, think(), opened(say("It is "))),
		failed("error between answer and end", errBroke, think(), say("It is 4.")),
		failed("error in a call", errBroke, think(), opened(CallSegment(0, "look", `{"q":`))),
		failed("error between two calls", errBroke, think(), CallSegment(0, "look", `{"q":"a"}`)),
		failed("error in the summary", errBroke, think(), opened(sum())),
		failed("error in a specialist's reasoning", errBroke, specialist("d1", "user", reasoning.DelegationFailed,
			opened(think()))),
		failed("error between a specialist's reasoning and its end", errBroke,
			specialist("d1", "user", reasoning.DelegationFailed, think())),
		failed("cancelled while the prompt is read", context.Canceled),
		failed("cancelled in the reasoning", context.Canceled, opened(think())),
		failed("cancelled in the summary, beside the answer", context.Canceled, think(), opened(sum()),
			opened(say("It is "))),
		failed("cancelled in the answer", context.Canceled, think(), opened(say("It is "))),
		failed("cancelled in what is said before a call", context.Canceled, think(), opened(told("One "))),
		failed("cancelled in a call", context.Canceled, think(), opened(CallSegment(0, "look", `{"q":`))),
		failed("cancelled in a specialist's reasoning", context.Canceled, specialist("d1", "user", reasoning.DelegationFailed,
			opened(think()))),
		failed("out of time in the answer", context.DeadlineExceeded, think(), opened(say("It is "))),
	}
}

// limited are runs that end at a limit or keep to one.
func limited() []Recording {
	stopped := result(reasoning.FinishStop, reasoning.DetailStopString)
	stopped.StopString = "END"
	return []Recording{
		record("budget spent", result(reasoning.FinishStop, reasoning.DetailReasoningBudget), think(), say("It is 4.")),
		record("room kept for the answer", result(reasoning.FinishStop, reasoning.DetailAnswerReserve), think(),
			say("It is 4.")),
		record("most tokens reached in the reasoning", result(reasoning.FinishLength, ""), think()),
		record("most tokens reached in the answer", result(reasoning.FinishLength, ""), think(), say("It is")),
		record("most tokens reached in a call", result(reasoning.FinishLength, ""), think(), CallSegment(0, "look", `{"q":`)),
		record("context full", result(reasoning.FinishLength, reasoning.DetailContextFull), think(), say("It is")),
		record("stop string in the answer", stopped, think(), say("It is 4. ")),
		record("stop string before any answer", stopped, think()),
	}
}

// summaries are runs with reasoning to summarize, or without any.
func summaries() []Recording {
	with := func(source string) reasoning.Result {
		r := result(reasoning.FinishStop, "")
		r.SummarySource, r.Usage.Summary = source, 6
		return r
	}
	withCalls := with("reasoning")
	withCalls.Finish = reasoning.FinishToolCalls
	without := result(reasoning.FinishStop, "")
	without.ReasoningUnavailable = true
	beside := slices.Concat(sum()[:2], say("It ")[:2], sum()[2:],
		[]reasoning.Event{{Kind: reasoning.SegmentDelta, Segment: reasoning.Answer, Text: "is 4."},
			{Kind: reasoning.SegmentEnd, Segment: reasoning.Answer}})
	longer := slices.Concat(sum()[:2], say("It is 4."), sum()[2:])
	return []Recording{
		record("summary before the answer", with("reasoning"), think(), sum(), say("It is 4.")),
		record("summary beside the answer", with("reasoning"), think(), beside),
		record("summary that ends after the answer", with("reasoning"), think(), longer),
		record("summary beside a call", withCalls, think(), slices.Concat(sum()[:2], CallSegment(0, "look", `{"q":"a"}`),
			sum()[2:])),
		record("summary after the answer, of what no reasoning explains", with("posthoc"), say("It is 4."),
			[]reasoning.Event{{Kind: reasoning.StrategySwitched, Text: "the model gave no reasoning",
				Info: &reasoning.Info{Strategy: reasoning.StrategyPosthoc}}}, sum(), warn("reasoning_unavailable")),
		record("summary refused", result(reasoning.FinishStop, ""), think(), warn("summary_failed"), say("It is 4.")),
		record("no reasoning where some was asked for", without, say("It is 4."), warn("reasoning_unavailable")),
		record("reasoning from markers, after the format's own failed", result(reasoning.FinishStop, ""),
			[]reasoning.Event{{Kind: reasoning.StrategySwitched, Text: "the model wrote no object",
				Info: &reasoning.Info{Strategy: reasoning.StrategyMarkers}}}, think(), say("It is 4.")),
	}
}

// delegations are runs with specialists.
func delegations() []Recording {
	stop, pending := result(reasoning.FinishStop, ""), result(reasoning.FinishToolCalls, "")
	pending.Specialist = true
	shown := specialist("d1", "user", reasoning.DelegationReturned, think(), told("I know ", "sums."))
	for i := range shown {
		if d := shown[i].Delegation; d != nil {
			d.Shown = true
		}
	}
	return []Recording{
		record("specialist of the user", stop, specialist("d1", "user", reasoning.DelegationReturned, think()),
			say("It is 4.")),
		record("specialist of the model", stop, think(), specialist("d1", "model", reasoning.DelegationReturned, think()),
			say("It is 4.")),
		record("specialist that is shown", stop, shown, say("It is 4.")),
		record("two specialists, one after the other", stop, specialist("d1", "user", reasoning.DelegationReturned, think()),
			specialist("d2", "model", reasoning.DelegationReturned, think()), say("It is 4.")),
		record("specialist inside of a specialist, refused", stop, specialist("d1", "model", reasoning.DelegationReturned,
			think(), warn("delegation_refused"), think()), say("It is 4.")),
		record("specialist whose steps are spent", stop, specialist("d1", "model", reasoning.DelegationLimit, think()),
			warn("delegation_limit"), say("It is 4.")),
		record("specialist that fails, and an answer all the same", stop,
			specialist("d1", "model", reasoning.DelegationFailed, think()), say("It is 4.")),
		record("specialist that waits for a call", pending, specialist("d1", "user", reasoning.DelegationPending, think(),
			CallSegment(0, "look", `{"q":"a"}`))),
		record("specialist without a word", stop, specialist("d1", "user", reasoning.DelegationReturned), say("It is 4.")),
	}
}

// particulars are runs with rare features.
func particulars() []Recording {
	stop, calls := result(reasoning.FinishStop, ""), result(reasoning.FinishToolCalls, "")
	reasons := calls
	reasons.Rationale = &reasoning.RationaleCount{Stated: 1, Missing: 1}
	sure := stop
	score := 0.75
	sure.Score = &score
	probable := say("It ", "is")
	for i, text := range []string{"It ", "is"} {
		probable[i+1].Logprobs = token(text, "\xff")
	}
	secret := think()
	secret[2].Logprobs = token(Canary, Canary)
	var many [][]reasoning.Event
	for range 40 {
		many = append(many, warn("stray_tag"))
	}
	return []Recording{
		record("reason for one of two calls", reasons, think(), CallSegment(0, "look", `{"q":"a"}`),
			CallSegment(1, "look", `{"q":"b"}`), why(0)),
		record("reason that could not be read", calls, think(), warn(filter.CodeMalformedRationale),
			CallSegment(0, "look", `{"q":"a"}`)),
		record("assumptions in reasoning and answer", stop, think(), assume(), say("I assume that it is 4."), assume()),
		record("score", sure, think(), say("It is 4.")),
		record("history kept from the model", stop,
			[]reasoning.Event{{Kind: reasoning.Curated, Code: filter.CuratedHistory, Text: "reasoning of earlier turns: 2"}},
			think(), say("It is 4.")),
		record("warning before anything is said", stop, warn("template_variable_ignored"), think(), say("It is 4.")),
		record("more warnings than anybody reads", stop, slices.Concat(many...), think(), say("It is 4.")),
		record("log probabilities, of hidden tokens too", stop, secret, probable),
	}
}
