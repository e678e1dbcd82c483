package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"runner/backend"
	"runner/backend/fake"
	"runner/chattemplate"
	"runner/generation"
	"runner/generation/delegation"
	"runner/generation/slots"
	"runner/grammar"
	"runner/reasoning"
	"runner/reasoning/decision"
	"runner/reasoning/prompts"
	"runner/runner/delegate"
)

const (
	// asSpecialist is in every specialist's prompt and in no other.
	asSpecialist = "What you write is internal"
	canary       = "canaries-sing"
	reported     = "<return-control>Returning to main agent</return-control><|end|>" + again
	engaged      = "</delegate-reasoning><|end|>" + again
)

// call is a turn that reasons and calls a function.
func call(thought, name, arguments string) string {
	return "<|channel|>analysis<|message|>" + thought + "<|end|>" + again + "<|channel|>commentary to=functions." + name +
		" <|constrain|>json<|message|>" + arguments + "<|call|>"
}

// delegates is a script in which the model delegates once.
func delegates() []fake.Reply {
	return []fake.Reply{
		{Prompt: asSpecialist, After: engaged, Say: think(canary+" thinks", canary+" works: 2 and 2 is 4")},
		{After: reported, Say: think("so be it", "It is 4.")},
		{After: ask("2+2?"), Say: call(canary+" wonders", delegation.DelegateName, `{"agent_prompt":"`+canary+` adds."}`)},
		summaryReply(prompts.SummaryConciseV1, "Somebody added."),
	}
}

// eventsOf runs a request and returns its events and its error.
func eventsOf(ctx context.Context, r *Runner, req generation.Request,
	by ...generation.Observer) (events []reasoning.Event, err error) {
	for e, err := range r.Generate(ctx, req, observer(by)) {
		if err != nil {
			return events, err
		}
		events = append(events, e)
	}
	return events, nil
}

// outcomes returns how the delegations of a run ended. It checks that they begin before they end, have unique ids and
// do not overlap.
func outcomes(t *testing.T, events []reasoning.Event) (list []reasoning.DelegationOutcome) {
	t.Helper()
	seen, open := map[string]bool{}, ""
	for _, e := range events {
		switch e.Kind {
		case reasoning.DelegationStart:
			if open != "" || seen[e.Delegation.ID] || e.Delegation.ID == "" {
				t.Errorf("delegation %q begins inside of %q, or again", e.Delegation.ID, open)
			}
			open, seen[e.Delegation.ID] = e.Delegation.ID, true
		case reasoning.DelegationEnd:
			if e.Delegation.ID != open {
				t.Errorf("delegation %q ends, and %q is open", e.Delegation.ID, open)
			}
			open, list = "", append(list, e.Delegation.Outcome)
		case reasoning.SegmentStart, reasoning.SegmentDelta, reasoning.SegmentEnd:
			if e.Specialist != "" && e.Specialist != open {
				t.Errorf("%v of %q, and %q is open", e.Kind, e.Specialist, open)
			}
		}
	}
	if open != "" {
		t.Errorf("delegation %q never ends", open)
	}
	return list
}

// allText returns all text in the events: the deltas' texts in order, and every event as JSON.
func allText(events []reasoning.Event) string {
	var texts, lines strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			return err.Error()
		}
		texts.WriteString(e.Text)
		lines.Write(line)
	}
	return texts.String() + lines.String()
}

func byModel(text string) generation.Request {
	req := user(text)
	req.Delegation.Model = true
	return req
}

func TestTheModelDelegates(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{}, delegates()...)
	for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilitySummary,
		reasoning.VisibilityFull} {
		req := byModel("2+2?")
		req.Visibility = v
		g := f.must(t, req)
		g.want(t, reasoning.Answer, "It is 4.")
		thoughts, summary := "", ""
		switch v {
		case reasoning.VisibilityFull:
			thoughts = canary + " wonders\n\n" + canary + " thinks\n\n" + canary + " works: 2 and 2 is 4\n\nso be it"
		case reasoning.VisibilitySummary:
			summary = "Somebody added."
		}
		g.want(t, reasoning.Reasoning, thoughts)
		g.want(t, reasoning.Summary, summary)
		if len(g.calls) > 0 || len(g.codes) > 0 || g.result.Finish != reasoning.FinishStop || g.result.ReasoningUnavailable ||
			g.info.Visibility != v {
			t.Errorf("%v: %+v %v %v", v, g.result, g.calls, g.codes)
		}
		if u := g.result.Usage; u.Reasoning < 2*u.Answer || u.Answer == 0 || u.Completion <= u.Reasoning+u.Answer {
			t.Errorf("usage %+v", u)
		}
		events, err := eventsOf(t.Context(), f.Runner, req)
		if err != nil {
			t.Fatal(err)
		}
		if list := outcomes(t, events); len(list) != 1 || list[0] != reasoning.DelegationReturned {
			t.Errorf("%v: outcomes %v", v, list)
		}
		if text := allText(events); strings.Contains(text, canary) != (v == reasoning.VisibilityFull) {
			t.Errorf("%v: the canary shows, or is lost: %s", v, text)
		}
	}
}

// TestSpecialistsPrompt checks that it is below the operator's prompt, replaces the developer's, and is there only
// while the specialist is active.
func TestSpecialistsPrompt(t *testing.T) {
	v := fake.Harmony()
	script, text := fake.Replies(v, delegates()...), ""
	f := start(t, fake.Config{ContextSize: 4096, Vocab: v, Script: func(tokens []backend.Token) backend.Token {
		if now := fake.Decode(v, tokens); strings.Contains(now, asSpecialist) {
			text = now
		}
		return script(tokens)
	}}, Config{})
	req := byModel("2+2?")
	req.Messages = append([]chattemplate.Message{
		{Role: chattemplate.System, Content: "OPERATOR."},
		{Role: chattemplate.Developer, Content: "AGENT. <fixed>SAFETY.</fixed>"},
	}, req.Messages...)
	f.must(t, req).want(t, reasoning.Answer, "It is 4.")
	special := text
	operator, safety, prompt := strings.Index(special, "OPERATOR."), strings.Index(special, "SAFETY."),
		strings.Index(special, canary+" adds.")
	if operator < 0 || safety < operator || prompt < safety || strings.Contains(special[operator:prompt], "AGENT.") {
		t.Errorf("the specialist was given\n%s", special)
	}
	if p, err := f.Prompt(t.Context(), "", req); err != nil || !strings.Contains(p.Text, "AGENT.") ||
		strings.Contains(p.Text, asSpecialist) {
		t.Errorf("afterwards the prompt is %q, %v", p.Text, err)
	}
}

func instructedBy(text string, d delegation.Delegate) generation.Request {
	req := user(text)
	req.Delegation.Specialist = &d
	return req
}

func TestTheUserDelegates(t *testing.T) {
	report := "<intermediate>Internal reasoning</intermediate>\n" + canary +
		" works\n<return-control>Returning to main agent</return-control>\n\n"
	f := start(t, fake.Config{ContextSize: 4096}, Config{},
		fake.Reply{Prompt: asSpecialist, After: ask("2+2?"), Say: think(canary, canary+" works")},
		fake.Reply{After: report + ask("2+2?"), Say: think("hm", "It is 4.")},
		fake.Reply{After: ask("2+2?"), Say: think("hm", "From nothing.")})
	req := instructedBy("2+2?", delegation.Delegate{Prompt: "Add."})
	g := f.must(t, req)
	g.want(t, reasoning.Answer, "It is 4.")
	g.want(t, reasoning.Preamble, "")
	req.Visibility = reasoning.VisibilityFull
	g = f.must(t, req)
	g.want(t, reasoning.Reasoning, canary+"\n\n"+canary+" works\n\nhm")
	req = instructedBy("2+2?", delegation.Delegate{Prompt: "Add.", Shown: true})
	g = f.must(t, req)
	g.want(t, reasoning.Preamble, canary+" works")
	g.want(t, reasoning.Reasoning, "")
	req.Delegation.Work = generation.WorkDelete
	g = f.must(t, req)
	g.want(t, reasoning.Answer, "From nothing.")
}

func TestASquashedReport(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{},
		fake.Reply{Prompt: asSpecialist, After: ask("2+2?"), Say: think("", "long, long work")},
		fake.Reply{Prompt: asSpecialist, After: ask(delegation.SquashV1), Say: think("", "Four.")},
		fake.Reply{Prompt: "</intermediate>\nFour.\n<return", After: ask("2+2?"), Say: think("", "It is 4.")},
		fake.Reply{After: ask("2+2?"), Say: think("", "All of it.")})
	req := instructedBy("2+2?", delegation.Delegate{Prompt: "Add."})
	req.Delegation.Work, req.Visibility = generation.WorkSquash, reasoning.VisibilityFull
	events, err := eventsOf(t.Context(), f.Runner, req)
	if err != nil {
		t.Fatal(err)
	}
	var run generation.Collector
	var codes []string
	for _, e := range events {
		run.Push(e)
		if e.Kind == reasoning.Curated {
			codes = append(codes, e.Code)
		}
	}
	if r := run.Reply(); r.Answer != "It is 4." || r.Reasoning != "long, long work\n\nFour." || fmt.Sprint(codes) != "["+
		delegate.CuratedSquashed+"]" {
		t.Errorf("%q, %q, %v", r.Answer, r.Reasoning, codes)
	}
}

// TestASquashedMessageCountsAsReasoning checks the usage of a specialist that is shown: the squashed message is not.
func TestASquashedMessageCountsAsReasoning(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{},
		fake.Reply{Prompt: asSpecialist, After: ask("2+2?"), Say: think("", "long, long work")},
		fake.Reply{Prompt: asSpecialist, After: ask(delegation.SquashV1), Say: think("", "Four.")},
		fake.Reply{After: ask("2+2?"), Say: think("", "It is 4.")})
	req := instructedBy("2+2?", delegation.Delegate{Prompt: "Add.", Shown: true})
	req.Delegation.Work = generation.WorkSquash
	g := f.must(t, req)
	g.want(t, reasoning.Preamble, "long, long work")
	shown := len(fake.Encode(f.model.Vocab(), "long, long work")) + len(fake.Encode(f.model.Vocab(), "It is 4."))
	if u := g.result.Usage; u.Answer != shown+2 { // each ends with a token of the format
		t.Errorf("usage %+v, want %d tokens of the answer and the preamble", u, shown+2)
	}
}

// TestIntermediateMessagesOfEarlierTurns checks that they are marked for the model, or left out of the conversation
// with an event.
func TestIntermediateMessagesOfEarlierTurns(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{},
		fake.Reply{Prompt: "<intermediate>Internal reasoning</intermediate>\nold work", After: ask("2+2?"),
			Say: think("", "Marked.")},
		fake.Reply{Prompt: "old work", After: ask("2+2?"), Say: think("", "Unmarked.")},
		fake.Reply{After: ask("2+2?"), Say: think("", "Without.")})
	for work, want := range map[generation.Work]struct{ answer, told string }{
		generation.WorkKeep: {"Marked.", ""}, generation.WorkDelete: {"Without.",
			"intermediate messages of earlier turns: 1"},
	} {
		req := user("2+2?")
		req.Messages = append([]chattemplate.Message{
			{Role: chattemplate.User, Content: "1+1?"}, {Role: chattemplate.Assistant, Content: "old work"},
			{Role: chattemplate.Assistant, Content: "It is 2."},
		}, req.Messages...)
		req.Delegation = generation.Delegation{Work: work,
			Instructions: map[int][]delegation.Instruction{1: {delegation.Intermediate{}}}}
		events, err := eventsOf(t.Context(), f.Runner, req)
		if err != nil {
			t.Fatal(err)
		}
		var run generation.Collector
		told := ""
		for _, e := range events {
			run.Push(e)
			if e.Kind == reasoning.Curated && e.Code == delegate.CuratedDeleted {
				told += e.Text
			}
		}
		if answer := run.Reply().Answer; answer != want.answer || told != want.told {
			t.Errorf("%s: %q, told %q", work, answer, told)
		}
	}
}

func TestModelIsToldOfNestingAndOtherErrors(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{},
		fake.Reply{After: "call return_control first.<|end|>" + again, Say: call("then back", delegation.ReturnName, "{}")},
		fake.Reply{Prompt: asSpecialist, After: engaged, Say: call("deeper", delegation.DelegateName,
			`{"agent_prompt":"Deeper."}`)},
		fake.Reply{After: reported, Say: call("back again", delegation.ReturnName, "{}")},
		fake.Reply{After: "answer the user.<|end|>" + again, Say: call("nobody", delegation.DelegateName,
			`{"agent_prompt":"  "}`)},
		fake.Reply{After: "what the specialist is to do.<|end|>" + again, Say: think("", "Well, 4.")},
		fake.Reply{After: ask("2+2?"), Say: call("help", delegation.DelegateName, `{"agent_prompt":"Add."}`)})
	events, err := eventsOf(t.Context(), f.Runner, byModel("2+2?"))
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	var run generation.Collector
	for _, e := range events {
		run.Push(e)
		if e.Code == generation.CodeDelegationRefused {
			refused++
		}
	}
	if list := outcomes(t, events); run.Reply().Answer != "Well, 4." || refused != 3 || len(list) != 1 ||
		list[0] != reasoning.DelegationReturned {
		t.Errorf("%q, %d refused, %v", run.Reply().Answer, refused, list)
	}
}

func TestStepsAreLimited(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 1 << 15}, Config{},
		fake.Reply{After: "call return_control first.<|end|>" + again,
			Say: call("", delegation.DelegateName, `{"agent_prompt":"Deeper."}`)},
		fake.Reply{Prompt: asSpecialist, After: engaged,
			Say: call("", delegation.DelegateName, `{"agent_prompt":"Deeper."}`)},
		fake.Reply{After: reported, Say: think("", "Enough.")},
		fake.Reply{After: ask("2+2?"), Say: call("help", delegation.DelegateName, `{"agent_prompt":"Add."}`)})
	g := f.must(t, byModel("2+2?"))
	g.want(t, reasoning.Answer, "Enough.")
	refused, limits := 0, 0
	for _, c := range g.codes {
		switch c {
		case generation.CodeDelegationRefused:
			refused++
		case generation.CodeDelegationLimit:
			limits++
		}
	}
	if refused != 50-2 || limits != 1 { // all but the first step, which delegates, and the last, which answers
		t.Errorf("%d refused, %d limits: %v", refused, limits, g.codes)
	}
}

// TestStepsCountAcrossCalls checks that the client's answers to a specialist's calls do not restart the count of
// steps.
func TestStepsCountAcrossCalls(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 1 << 15}, Config{CallMemory: NewCallMemory(8, 0)},
		fake.Reply{Prompt: asSpecialist, After: "tool says<|end|>" + again, Say: call("", "add", `{"a":2}`)},
		fake.Reply{Prompt: asSpecialist, After: engaged, Say: call("", "add", `{"a":2}`)},
		fake.Reply{After: reported, Say: think("", "Enough.")},
		fake.Reply{After: ask("2+2?"), Say: call("", delegation.DelegateName, `{"agent_prompt":"Add."}`)})
	req := byModel("2+2?")
	req.Tools = addTool
	for step := 2; ; step++ { // the first step delegates
		g := f.must(t, req)
		if len(g.calls) == 0 {
			if g.want(t, reasoning.Answer, "Enough."); step != 50 || fmt.Sprint(g.codes) != "["+generation.CodeDelegationLimit+
				"]" {
				t.Errorf("step %d: warnings %v", step, g.codes)
			}
			return
		}
		if step >= 50 {
			t.Fatalf("a call in step %d", step)
		}
		req.Messages = append(req.Messages,
			chattemplate.Message{Role: chattemplate.Assistant,
				ToolCalls: []chattemplate.ToolCall{{ID: g.calls[0].ID, Name: "add", Arguments: `{"a":2}`}}},
			chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: g.calls[0].ID, ToolName: "add", Content: "tool says"})
	}
}

// TestSpecialistCallsTheClientsTools checks that the run ends in the specialist's call, and that the next run
// continues with the specialist. If the model delegated, the runner remembers it. If the user did, the instruction
// says so.
func TestSpecialistCallsTheClientsTools(t *testing.T) {
	replies := []fake.Reply{
		{Prompt: asSpecialist, After: engaged, Say: call("use it", "add", `{"a":2}`)},
		{Prompt: asSpecialist, After: ask("3+3?"), Say: call("use it", "add", `{"a":3}`)},
		{Prompt: asSpecialist, After: "tool says<|end|>" + again, Say: think("", "worked out")},
		{After: "tool says<|end|>" + again, Say: think("", "All forgotten.")},
		{After: "</intermediate>\nworked out\n" + reported, Say: think("", "It is done.")},
		{Prompt: "</intermediate>\nworked out\n<return", After: ask("3+3?"), Say: think("", "It is done.")},
		{After: ask("2+2?"), Say: call("help", delegation.DelegateName, `{"agent_prompt":"Add."}`)},
	}
	next := func(req generation.Request, g got) generation.Request {
		req.Messages = append(req.Messages,
			chattemplate.Message{Role: chattemplate.Assistant,
				ToolCalls: []chattemplate.ToolCall{{ID: g.calls[0].ID, Name: "add", Arguments: g.text[reasoning.ToolCall]}}},
			chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: g.calls[0].ID, ToolName: "add", Content: "tool says"})
		return req
	}
	for _, c := range []struct {
		name   string
		memory int
		req    generation.Request
		answer string
	}{
		{"remembered", 8, byModel("2+2?"), "It is done."},
		{"forgotten", 0, byModel("2+2?"), "All forgotten."},
		{"instructed", 0, instructedBy("3+3?", delegation.Delegate{Prompt: "Add."}), "It is done."},
		{"instructed and remembered", 8, instructedBy("3+3?", delegation.Delegate{Prompt: "Add."}), "It is done."},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := start(t, fake.Config{ContextSize: 4096}, Config{CallMemory: NewCallMemory(c.memory, 0)}, replies...)
			c.req.Tools, c.req.Visibility = addTool, reasoning.VisibilityFull
			g := f.must(t, c.req)
			if len(g.calls) != 1 || g.calls[0].Name != "add" || g.calls[0].Index != 0 || !g.result.Specialist ||
				g.result.Finish != reasoning.FinishToolCalls {
				t.Fatalf("%+v %v", g.result, g.calls)
			}
			req := next(c.req, g)
			events, err := eventsOf(t.Context(), f.Runner, req)
			if err != nil {
				t.Fatal(err)
			}
			var run generation.Collector
			for _, e := range events {
				run.Push(e)
			}
			if r := run.Reply(); r.Answer != c.answer {
				t.Errorf("%q; %q", r.Answer, r.Reasoning)
			}
			if list := outcomes(t, events); (len(list) == 1) != (c.answer == "It is done.") {
				t.Errorf("outcomes %v", list)
			}
		})
	}
}

func TestLimitsAreTheRuns(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{},
		fake.Reply{Prompt: asSpecialist, After: ask("2+2?"), Say: think("hm", strings.Repeat("on and ", 200))},
		fake.Reply{After: ask("2+2?"), Say: think("", "It is 4.")},
		fake.Reply{After: prompts.BudgetV1 + "<|end|>" + again + finalTag, Say: "cut off"})
	for _, limit := range []func(*generation.Request){
		func(r *generation.Request) { r.MaxTokens = 120 },
		func(r *generation.Request) { r.Budget = 40 },
	} {
		req := instructedBy("2+2?", delegation.Delegate{Prompt: "Add."})
		limit(&req)
		var used reasoning.Usage
		told := 0
		by := &observes{account: func(u reasoning.Usage) { used, told = u, told+1 }}
		events, err := eventsOf(t.Context(), f.Runner, req, by)
		if err != nil {
			t.Fatal(err)
		}
		if list := outcomes(t, events); len(list) != 1 || list[0] != reasoning.DelegationLimit {
			t.Errorf("outcomes %v", list)
		}
		u := events[len(events)-1].Result.Usage
		if req.MaxTokens > 0 && u.Completion > req.MaxTokens || req.Budget > 0 && u.Reasoning > req.Budget {
			t.Errorf("%+v for %d tokens, %d of them reasoning", u, req.MaxTokens, req.Budget)
		}
		if told != 1 || used.Completion != u.Completion {
			t.Errorf("accounted %d times for %+v, used %+v", told, used, u)
		}
	}
}

func TestDelegationsThatAreRefused(t *testing.T) {
	f := start(t, fake.Config{}, Config{})
	long := delegation.Delegate{Prompt: strings.Repeat("x", delegation.MaxPrompt+1)}
	for name, req := range map[string]generation.Request{
		"long":  instructedBy("q", long),
		"blank": instructedBy("q", delegation.Delegate{Prompt: " \u00a0\n"}),
		"nested": {Messages: user("q").Messages, Delegation: generation.Delegation{
			Specialist:   &delegation.Delegate{Prompt: "a"},
			Instructions: map[int][]delegation.Instruction{0: {delegation.Delegate{Prompt: "b"}}},
		}},
		"work": {Messages: user("q").Messages, Delegation: generation.Delegation{Model: true, Work: "burn"}},
		"place": {Messages: user("q").Messages,
			Delegation: generation.Delegation{Instructions: map[int][]delegation.Instruction{3: {delegation.Return{}}}}},
		"names": {Messages: user("q").Messages, Delegation: generation.Delegation{Model: true},
			Tools: []chattemplate.Tool{{Name: delegation.ReturnName}}},
	} {
		by := &observes{account: func(u reasoning.Usage) { t.Errorf("%s: accounted %+v", name, u) }}
		g := collect(t.Context(), f.Runner, req, by)
		var refused *generation.RequestError
		if !errors.As(g.err, &refused) || len(g.order) > 0 {
			t.Errorf("%s: %v after %d events", name, g.err, len(g.order))
		}
	}
}

func TestAModelWithoutCallsDoesNotDelegate(t *testing.T) {
	f := start(t, fake.Config{Vocab: fake.Think(), ChatTemplate: fake.ThinkTemplate}, Config{},
		fake.Reply{After: "q<|im_end|>\n<|im_start|>assistant\n", Say: "<think>\nhm\n</think>\n\nfour<|im_end|>"})
	if f.Abilities().Calls {
		t.Fatal("the fake format has learned to call; this test needs one that cannot")
	}
	g := f.must(t, byModel("q"))
	g.want(t, reasoning.Answer, "four")
	if fmt.Sprint(g.codes) != "["+generation.CodeDelegationUnavailable+"]" {
		t.Errorf("warnings %v", g.codes)
	}
	demand := byModel("q")
	demand.ToolChoice = generation.ToolChoiceRequired
	var refused *generation.RequestError
	if g := collect(t.Context(), f.Runner, demand); !errors.As(g.err, &refused) || refused.Field != "ToolChoice" {
		t.Errorf("a call that cannot be made: %v", g.err)
	}
}

// TestHiddenSpecialistsAreTracedAndSealed checks that the trace and the sealed value contain a hidden specialist's
// work. The trace contains its prompt too, and work that was deleted.
func TestHiddenSpecialistsAreTracedAndSealed(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{},
		append(delegates(), fake.Reply{After: "is 4\n" + reported, Say: think("", "never")})...)
	req := byModel("2+2?")
	req.Delegation.Work = generation.WorkDelete
	var tape notebook
	var thoughts string
	req.Seal = true
	g := f.must(t, req, &observes{traced: &tape,
		seal: func(text string) (string, error) { thoughts += text; return "sealed", nil }})
	if g.result.Trace != "the id" || len(g.sealed) < 2 || len(tape.ends) != 1 || tape.ends[0] != nil ||
		len(tape.run.Request.Tools) != 2 || !tape.run.Request.Delegation.Model {
		t.Errorf("%+v, %v, %+v", g.result, tape.ends, tape.run.Request.Tools)
	}
	if !strings.Contains(thoughts, canary+" wonders") || !strings.Contains(thoughts, canary+" works") {
		t.Errorf("sealed is %q", thoughts)
	}
	if list := outcomes(t, tape.events); len(list) != 1 {
		t.Errorf("%v", list)
	}
	text := allText(tape.events)
	for _, want := range []string{canary + " wonders", canary + " works", canary + " adds.", delegate.CuratedDeleted} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in the trace", want)
		}
	}
	for _, e := range tape.events {
		if e.Kind == reasoning.Instructed {
			if _, err := delegation.Parse([]byte(e.Text)); err != nil {
				t.Errorf("%s: %v", e.Text, err)
			}
		}
	}
}

// TestSpecialistWithoutRoom checks that the main agent answers alone if the specialist's prompt or report does not
// fit.
func TestSpecialistWithoutRoom(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 1500}, Config{},
		fake.Reply{Prompt: asSpecialist, After: ask("report"), Say: think("", strings.Repeat("word ", 60)+"end")},
		fake.Reply{After: ask("report"), Say: think("", "Without.")},
		fake.Reply{After: reported, Say: think("", "Without.")},
		fake.Reply{After: ask("prompt"), Say: call("", delegation.DelegateName,
			`{"agent_prompt":"`+strings.Repeat("s", 500)+`"}`)})
	report := instructedBy("report", delegation.Delegate{Prompt: "S."})
	report.ResponseFormat = &chattemplate.ResponseFormat{Name: "answer",
		Schema: []byte(`{"description":"` + strings.Repeat("d", 900) + `"}`)}
	for _, c := range []struct {
		req     generation.Request
		outcome reasoning.DelegationOutcome
		curated string
	}{
		{report, reasoning.DelegationReturned, delegate.CuratedDeleted},
		{byModel("prompt"), reasoning.DelegationFailed, ""},
	} {
		events, err := eventsOf(t.Context(), f.Runner, c.req)
		if err != nil {
			t.Errorf("%s: %v", c.outcome, err)
			continue
		}
		var run generation.Collector
		kept := ""
		for _, e := range events {
			run.Push(e)
			if e.Kind == reasoning.Curated {
				kept = e.Code
			}
		}
		if list := outcomes(t, events); len(list) != 1 || list[0] != c.outcome || run.Reply().Answer != "Without." ||
			kept != c.curated {
			t.Errorf("%v, %q, %q, prompt of %d", list, run.Reply().Answer, kept, events[0].Info.Prompt)
		}
	}
}

// TestReaderThatPanics checks that the run and its trace end, as for a reader that leaves.
func TestReaderThatPanics(t *testing.T) {
	slow := func(int) time.Duration { return 5 * time.Millisecond } // the reader must panic before the run ends
	f := start(t, fake.Config{ContextSize: 4096, Delay: slow}, Config{},
		append(delegates(), fake.Reply{After: ask("q"), Say: think(thought, "four")})...)
	for _, req := range []generation.Request{byModel("2+2?"), user("q")} {
		var tape notebook
		panicked := func() (p any) {
			defer func() { p = recover() }()
			for range f.Generate(t.Context(), req, &tape) {
				panic("the reader's")
			}
			return nil
		}()
		if panicked != "the reader's" || len(tape.ends) != 1 || !errors.Is(tape.ends[0], context.Canceled) {
			t.Errorf("%v: the trace ends with %v", panicked, tape.ends)
		}
	}
}

func TestLeavingADelegatedRun(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{}, delegates()...)
	req := byModel("2+2?")
	req.Visibility = reasoning.VisibilityFull
	whole, err := eventsOf(t.Context(), f.Runner, req)
	if err != nil {
		t.Fatal(err)
	}
	for leave := 1; leave < len(whole); leave += 7 {
		var tape notebook
		n := 0
		for range f.Generate(t.Context(), req, &tape) {
			if n++; n == leave {
				break
			}
		}
		if len(tape.ends) != 1 || !errors.Is(tape.ends[0], context.Canceled) {
			t.Errorf("after %d events: the trace ends with %v", leave, tape.ends)
		}
		for _, e := range tape.events {
			if e.Kind == reasoning.Done {
				t.Errorf("after %d events: done", leave)
			}
		}
	}
}

// TestModelsOfEveryStyleDelegate checks that models without channels delegate with calls in their templates' styles.
func TestModelsOfEveryStyleDelegate(t *testing.T) {
	for _, s := range stylesUnderTest() {
		t.Run(s.Name, func(t *testing.T) {
			const turn = "<|im_end|>\n<|im_start|>assistant\n"
			vocab := styleVocab(t, s, backend.UserDefined, false)
			var script fake.Script
			f := styled(t, s, false, vocab, func(tokens []backend.Token) backend.Token { return script(tokens) })
			p, err := f.family.Render(chattemplate.Conversation{NoGenerationPrompt: true, Messages: []chattemplate.Message{
				{Role: chattemplate.User, Content: "q"},
				{Role: chattemplate.Assistant, ToolCalls: []chattemplate.ToolCall{{ID: "1", Name: delegation.DelegateName,
					Arguments: `{"agent_prompt":"` + canary + `"}`}}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			_, written, _ := strings.Cut(p.Text, "assistant\n")
			script = fake.Replies(vocab,
				fake.Reply{After: "</delegate-reasoning>" + turn, Say: canary + " works<|im_end|>"},
				fake.Reply{After: "</return-control>" + turn, Say: "four<|im_end|>"},
				fake.Reply{After: "q" + turn, Say: written})
			req := byModel("q")
			for _, v := range []reasoning.Visibility{reasoning.VisibilityNone, reasoning.VisibilityFull} {
				req.Visibility = v
				events, err := eventsOf(t.Context(), f.Runner, req)
				if err != nil {
					t.Fatal(err)
				}
				var run generation.Collector
				for _, e := range events {
					run.Push(e)
				}
				if list := outcomes(t, events); len(list) != 1 || list[0] != reasoning.DelegationReturned ||
					strings.TrimSpace(run.Reply().Answer) != "four" {
					t.Errorf("%v: %v, %q, from %q", v, list, run.Reply().Answer, written)
				}
				if text := allText(events); strings.Contains(text, canary) != (v == reasoning.VisibilityFull) {
					t.Errorf("%v: the canary shows, or is lost: %s", v, text)
				}
			}
		})
	}
}

// TestMainAgentCallsAfterASpecialist checks that a specialist of the user stays inactive when the results of the main
// agent's calls arrive. The main agent gets them together with the report.
func TestMainAgentCallsAfterASpecialist(t *testing.T) {
	f := start(t, fake.Config{ContextSize: 4096}, Config{CallMemory: NewCallMemory(8, 0)},
		fake.Reply{Prompt: asSpecialist, After: ask("3+3?"), Say: think("", "worked out")},
		fake.Reply{Prompt: asSpecialist, After: "says<|end|>" + again, Say: think("", "once more")},
		fake.Reply{After: "two says<|end|>" + again, Say: think("", "It is done.")},
		fake.Reply{After: "one says<|end|>" + again, Say: call("again", "add", `{"a":3}`)},
		fake.Reply{After: ask("3+3?"), Say: call("use it", "add", `{"a":3}`)})
	for _, work := range []generation.Work{generation.WorkKeep, generation.WorkDelete} {
		req := instructedBy("3+3?", delegation.Delegate{Prompt: "Add."})
		req.Tools, req.Delegation.Work = addTool, work
		for i, says := range []string{"one says", "two says"} {
			events, err := eventsOf(t.Context(), f.Runner, req)
			if err != nil {
				t.Fatal(err)
			}
			var run generation.Collector
			for _, e := range events {
				run.Push(e)
			}
			if r := run.Reply(); len(r.Calls) != 1 || r.Result.Specialist || len(outcomes(t, events)) != 1-i {
				t.Fatalf("%s: %+v, %v", work, r, outcomes(t, events))
			}
			c := run.Reply().Calls[0]
			req.Messages = append(req.Messages,
				chattemplate.Message{Role: chattemplate.Assistant,
					ToolCalls: []chattemplate.ToolCall{{ID: c.ID, Name: "add", Arguments: c.Arguments}}},
				chattemplate.Message{Role: chattemplate.ToolRole, ToolCallID: c.ID, ToolName: "add", Content: says})
			p, err := f.Prompt(t.Context(), "", req)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(p.Text, asSpecialist) || strings.Count(p.Text, " says<|end|>") != i+1 ||
				strings.Contains(p.Text, "worked out") != (work == generation.WorkKeep) {
				t.Errorf("%s: the prompt after %q is %s", work, says, p.Text)
			}
		}
		g := f.must(t, req)
		g.want(t, reasoning.Answer, "It is done.")
	}
}

// TestDelegationTakesASlot checks that a run that delegates waits for a slot before it is prepared, as any run does.
func TestDelegationTakesASlot(t *testing.T) {
	const n = 2
	f := start(t, fake.Config{}, Config{Slots: slots.New(n)})
	for i := range n {
		slot, err := f.slots.Take(t.Context(), fmt.Sprint("other ", i)) // no principal may hold all slots
		if err != nil {
			t.Fatal(err)
		}
		defer slot.Give()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	req := byModel("q")
	req.Form = grammar.JSONSchema([]byte(`{"type":"nonsense"}`))
	if g := collect(ctx, f.Runner, req); !errors.Is(g.err, context.DeadlineExceeded) {
		t.Errorf("without a slot: %v", g.err)
	}
}

// TestRunThatEndsBetweenTurnsIsAccounted checks that the usage includes the turns that were made.
func TestRunThatEndsBetweenTurnsIsAccounted(t *testing.T) {
	var cancel context.CancelFunc
	drawn := 0
	f := start(t, fake.Config{ContextSize: 4096}, Config{Seed: func() uint64 {
		if drawn++; drawn == 4 { // the run's, its seed, the first turn's, the second turn's
			cancel()
		}
		return 1 << 20
	}}, delegates()...)
	for range 30 {
		req := byModel("2+2?")
		told := make(chan reasoning.Usage, 2)
		by := &observes{account: func(u reasoning.Usage) { told <- u }}
		ctx, stop := context.WithCancel(t.Context())
		drawn, cancel = 0, stop
		_, err := eventsOf(ctx, f.Runner, req, by)
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("%v after %d seeds", err, drawn)
		}
		select {
		case used := <-told:
			if used.Completion == 0 {
				t.Fatalf("accounted %+v", used)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("nothing was accounted")
		}
	}
}

// TestReasonsOfARunThatDelegates checks that the reason for delegating is not mixed up with the reasons for the
// client's calls, which have places of their own.
func TestReasonsOfARunThatDelegates(t *testing.T) {
	why := func(n int, text string) string {
		return fmt.Sprintf(`<rationale call="%d">{"why":%q}</rationale>`, n, text)
	}
	f := start(t, fake.Config{ContextSize: 4096}, Config{},
		fake.Reply{Prompt: asSpecialist, After: engaged, Say: think("", "worked out")},
		// in a turn of its own, so it is the first there too
		fake.Reply{After: reported, Say: call(why(1, "it adds"), "add", `{"a":3}`)},
		fake.Reply{After: ask("q"), Say: call(why(1, "somebody knows"), delegation.DelegateName, `{"agent_prompt":"Add."}`)})
	req := byModel("q")
	req.Tools, req.Visibility, req.Rationale = addTool, reasoning.VisibilityFull, true
	events, err := eventsOf(t.Context(), f.Runner, req)
	if err != nil {
		t.Fatal(err)
	}
	var traced []decision.Event
	tracer := decision.NewTracer(decision.Config{RunID: "r"}, func(e decision.Event) { traced = append(traced, e) })
	for _, e := range events {
		tracer.Push(e)
	}
	d := decision.New(traced)
	if len(d.Path) != 1 || d.Path[0].Action != "tool:add" || d.Path[0].Rationale == nil ||
		d.Path[0].Rationale.Why != "it adds" {
		t.Errorf("path %+v", d.Path)
	}
	for _, e := range traced {
		if e.Kind == decision.ToolCallStart && (e.Rationale == nil || e.Rationale.Why != "it adds") {
			t.Errorf("the call begins because %+v", e.Rationale)
		}
	}
}
