package main

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"runner/backend"
	"runner/chattemplate"
	"runner/reasoning"
	"runner/runner"
)

// evaluation is what the tables measure on.
type evaluation struct {
	runner    *runner.Runner
	model     backend.Model // another instance than the runner's
	questions []question
	efforts   []chattemplate.Effort
	verbose   bool
}

// tables are the measurements, in the order in which they are made and printed.
var tables = []struct {
	name    string
	measure func(context.Context, *evaluation) error
}{
	{"accuracy", accuracy}, {"summary", summaries}, {"causal", causal}, {"history", history}, {"none", withoutReasoning},
	{"budget", budgets}, {"posthoc", posthoc}, {"speed", speed},
}

func tableNames() (names []string) {
	for _, t := range tables {
		names = append(names, t.name)
	}
	return names
}

var efforts = []chattemplate.Effort{chattemplate.EffortLow, chattemplate.EffortMedium, chattemplate.EffortHigh}

// reply is what one run said.
type reply struct {
	reasoning, answer, summary string
	tokens                     int // of the reasoning
	summaryTokens              int
}

func (e *evaluation) skill(names ...string) (list []question) {
	for _, q := range e.questions {
		if slices.Contains(names, q.Skill) {
			list = append(list, q)
		}
	}
	return list
}

// each runs one request for every question, several at once, and hands the replies over in order.
func (e *evaluation) each(ctx context.Context, list []question, request func(question) runner.Request) ([]reply, error) {
	replies, errs := make([]reply, len(list)), make([]error, len(list))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(list); i = int(next.Add(1)) - 1 {
				replies[i], errs[i] = e.ask(ctx, request(list[i]))
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, fmt.Errorf("question %d: %w", i, err)
		}
	}
	return replies, nil
}

func (e *evaluation) ask(ctx context.Context, req runner.Request) (reply, error) {
	var r reply
	if req.MaxTokens == 0 {
		req.MaxTokens = 600
	}
	for ev, err := range e.runner.Generate(ctx, req) {
		if err != nil {
			return r, err
		}
		switch {
		case ev.Kind == reasoning.SegmentDelta && ev.Segment == reasoning.Reasoning:
			r.reasoning += ev.Text
		case ev.Kind == reasoning.SegmentDelta && ev.Segment == reasoning.Answer:
			r.answer += ev.Text
		case ev.Kind == reasoning.SegmentDelta && ev.Segment == reasoning.Summary:
			r.summary += ev.Text
		case ev.Kind == reasoning.Done:
			r.tokens, r.summaryTokens = ev.Result.Usage.Reasoning, ev.Result.Usage.Summary
		}
	}
	return r, nil
}

func one(text string) []chattemplate.Message {
	return []chattemplate.Message{{Role: chattemplate.User, Content: text}}
}

var integer = regexp.MustCompile(`-?\d+`)

// result is the last whole number of a text.
func result(text string) string {
	all := integer.FindAllString(text, -1)
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

// right says whether an answer is exact: the sum or difference asked for, with its operands (a sum's in either order), or the
// sentence that says what the model is.
func right(q question, answer string) bool {
	switch q.Skill {
	case "add":
		return answer == fmt.Sprintf("%d + %d = %s.", q.A, q.B, q.Answer) || answer == fmt.Sprintf("%d + %d = %s.", q.B, q.A, q.Answer)
	case "subtract":
		return answer == fmt.Sprintf("%d - %d = %s.", q.A, q.B, q.Answer)
	}
	return answer == reasoning.DemoIdentityV1
}

func (e *evaluation) wrong(table string, q question, r reply) {
	if e.verbose {
		fmt.Printf("  wrong (%s): %q expects %q, got %q\n    reasoning: %q\n", table, q.Question, q.Answer, r.answer, r.reasoning)
	}
}

func percent(n, of int) string {
	return fmt.Sprintf("%.1f%% (%d of %d)", 100*float64(n)/float64(max(of, 1)), n, of)
}

func median(x []int) int {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return x[len(x)/2]
}

// accuracy asks every question at every effort and compares answers and lengths.
func accuracy(ctx context.Context, e *evaluation) error {
	fmt.Println("\n| effort | addition | subtraction | anything else | median reasoning tokens: all, addition, subtraction, else |\n|---|---|---|---|---|")
	for _, effort := range e.efforts {
		var cells []string
		var lengths []int
		medians := ""
		for _, skill := range []string{"add", "subtract", "other"} {
			list, good := e.skill(skill), 0
			var own []int
			replies, err := e.each(ctx, list, func(q question) runner.Request {
				return runner.Request{Messages: one(q.Question), Visibility: reasoning.VisibilityFull, Effort: effort}
			})
			if err != nil {
				return err
			}
			for i, r := range replies {
				if right(list[i], r.answer) {
					good++
				} else {
					e.wrong(string(effort), list[i], r)
				}
				own = append(own, r.tokens)
			}
			if skill != "other" {
				lengths = append(lengths, own...)
			}
			cells, medians = append(cells, percent(good, len(list))), medians+fmt.Sprintf(", %d", median(own))
		}
		fmt.Printf("| %s | %s | %d%s |\n", effort, strings.Join(cells, " | "), median(lengths), medians)
	}
	return nil
}

// summaries asks for both forms and holds them against the reasoning of the same run.
func summaries(ctx context.Context, e *evaluation) error {
	fmt.Println("\n| effort | form | holds the result | at most 40% of the reasoning (characters) | no run of more than 12 words | median share |\n|---|---|---|---|---|---|")
	list := append(first(e.skill("add"), 100), append(first(e.skill("subtract"), 100), first(e.skill("other"), 50)...)...)
	for _, effort := range e.efforts {
		full, err := e.each(ctx, list, func(q question) runner.Request {
			return runner.Request{Messages: one(q.Question), Visibility: reasoning.VisibilityFull, Effort: effort}
		})
		if err != nil {
			return err
		}
		for _, detailed := range []bool{false, true} {
			short, err := e.each(ctx, list, func(q question) runner.Request {
				return runner.Request{Messages: one(q.Question), Visibility: reasoning.VisibilitySummary, DetailedSummary: detailed, Effort: effort}
			})
			if err != nil {
				return err
			}
			holds, fits, own, asked := 0, 0, 0, 0
			var shares []int
			for i, r := range short {
				if list[i].Skill != "other" {
					asked++
					if slices.Contains(integer.FindAllString(r.summary, -1), result(full[i].answer)) {
						holds++
					} else {
						e.wrong("summary "+r.summary, list[i], full[i])
					}
				}
				share := 100 * len(r.summary) / max(1, len(full[i].reasoning))
				shares = append(shares, share)
				if share <= 40 && r.summary != "" {
					fits++
				}
				if !repeats(full[i].reasoning, r.summary, 12) {
					own++
				}
			}
			form := map[bool]string{false: "concise", true: "detailed"}[detailed]
			fmt.Printf("| %s | %s | %s | %s | %s | %d%% |\n", effort, form, percent(holds, asked), percent(fits, len(list)), percent(own, len(list)), median(shares))
		}
	}
	return nil
}

func first(list []question, n int) []question { return slices.Clone(list[:min(n, len(list))]) }

// repeats says whether text holds more than n consecutive words of source.
func repeats(source, text string, n int) bool {
	words := strings.Fields(text)
	source = " " + strings.Join(strings.Fields(source), " ") + " "
	for i := 0; i+n < len(words); i++ {
		if strings.Contains(source, " "+strings.Join(words[i:i+n+1], " ")+" ") {
			return true
		}
	}
	return false
}

// history puts earlier turns in front of the question.
func history(ctx context.Context, e *evaluation) error {
	fmt.Println("\n| tokens of earlier turns | addition and subtraction | anything else |\n|---|---|---|")
	tasks, others := e.skill("add", "subtract"), e.skill("other")
	for _, n := range []int{200, 1000, 2000, 3000} {
		var cells []string
		for _, list := range [][]question{spread(tasks, 100), spread(others, 40)} {
			replies, err := e.each(ctx, list, func(q question) runner.Request {
				messages := past(e.model, append(spread(tasks, 211), others...), n, len(q.Question))
				return runner.Request{Messages: append(messages, one(q.Question)...), Visibility: reasoning.VisibilityFull}
			})
			if err != nil {
				return err
			}
			good := 0
			for i, r := range replies {
				if right(list[i], r.answer) {
					good++
				} else {
					e.wrong(fmt.Sprint("history ", n), list[i], r)
				}
			}
			cells = append(cells, percent(good, len(list)))
		}
		fmt.Printf("| %d | %s |\n", n, strings.Join(cells, " | "))
	}
	return nil
}

// spread takes n questions evenly from all of them.
func spread(list []question, n int) (out []question) {
	n = min(n, len(list))
	for i := range n {
		out = append(out, list[i*len(list)/n])
	}
	return out
}

// past makes up earlier turns of about n tokens out of questions and their right answers.
func past(m backend.Model, from []question, n, offset int) (messages []chattemplate.Message) {
	for i := offset; n > 0; i++ {
		q := from[i*7%len(from)]
		answer := reasoning.DemoIdentityV1
		if q.Skill != "other" {
			answer = q.Answer
		}
		text, _ := m.Tokenize(nil, q.Question+answer)
		n -= len(text) + 10
		messages = append(messages, chattemplate.Message{Role: chattemplate.User, Content: q.Question},
			chattemplate.Message{Role: chattemplate.Assistant, Content: answer})
	}
	return messages
}

func withoutReasoning(ctx context.Context, e *evaluation) error {
	return e.plain(ctx, "effort none", func(q question) runner.Request {
		return runner.Request{Messages: one(q.Question), Effort: chattemplate.EffortNone}
	})
}

func budgets(ctx context.Context, e *evaluation) error {
	for _, n := range []int{10, 40} {
		err := e.plain(ctx, fmt.Sprintf("budget of %d tokens", n), func(q question) runner.Request {
			return runner.Request{Messages: one(q.Question), Budget: n}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// plain reports how many answers are exact and how many at least have the right form, for requests with no bar.
func (e *evaluation) plain(ctx context.Context, name string, request func(question) runner.Request) error {
	list := append(spread(e.skill("add", "subtract"), 200), spread(e.skill("other"), 100)...)
	replies, err := e.each(ctx, list, request)
	if err != nil {
		return err
	}
	exact, formed, said, asked := 0, 0, 0, 0
	for i, r := range replies {
		q := list[i]
		switch {
		case q.Skill == "other":
			if right(q, r.answer) {
				said++
			}
			continue
		case right(q, r.answer):
			exact++
		}
		asked++
		if result(r.answer) != "" && strings.Contains(r.answer, fmt.Sprint(q.A)) && strings.Contains(r.answer, fmt.Sprint(q.B)) {
			formed++
		}
	}
	fmt.Printf("\n%s: exact %s, well-formed answer %s, anything else %s\n", name, percent(exact, asked), percent(formed, asked),
		percent(said, len(list)-asked))
	return nil
}

// posthoc asks for an explanation of answers given without reasoning.
func posthoc(ctx context.Context, e *evaluation) error {
	list := spread(e.skill("add", "subtract"), 60)
	replies, err := e.each(ctx, list, func(q question) runner.Request {
		return runner.Request{Messages: one(q.Question), Visibility: reasoning.VisibilitySummary, Effort: chattemplate.EffortNone}
	})
	if err != nil {
		return err
	}
	good := 0
	for _, r := range replies {
		if r.summary != "" && result(r.summary) == result(r.answer) {
			good++
		}
	}
	fmt.Printf("\npost-hoc explanation names the answer's result: %s\n", percent(good, len(list)))
	return nil
}

// speed measures decoding alone: one run at a time, on the threads in effect.
func speed(ctx context.Context, e *evaluation) error {
	tokens, began := 0, time.Now()
	for _, q := range first(e.skill("add"), 40) {
		r, err := e.ask(ctx, runner.Request{Messages: one(q.Question), Effort: chattemplate.EffortHigh, Visibility: reasoning.VisibilityFull})
		if err != nil {
			return err
		}
		tokens += r.tokens
	}
	rate := float64(tokens) / time.Since(began).Seconds()
	fmt.Printf("\nspeed: %.0f reasoning tokens a second, prefill and answer's time included, one run at a time (%d threads of %d processors)\n",
		rate, e.model.Info().Threads, runtime.NumCPU())
	return nil
}
