package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// skill is a row of the table: what a model must be able to do, and how often.
type skill struct {
	name, text string
	// bar is the share of questions that it must get right; 0 is no bar.
	bar     float64
	measure func(ctx context.Context, e *evaluation, s *skill) (outcome, error)
}

// outcome is the result of a measurement.
type outcome struct {
	questions int
	figure    string
	// holds reports that the skill reaches its bar.
	holds bool
	// tally is the count of a measurement that counts.
	tally tally
}

func (s *skill) outcome(t tally) outcome {
	return outcome{t.asked, t.String(), t.share() >= s.bar, t}
}

// skills are the rows, in order.
var skills = []skill{
	{"arithmetic", "addition, subtraction to three digits; multiplication to two digits by two; division with " +
		"remainder by one digit", 0.95, share(answers)},
	{"chains", "three numbers with two operations, as a formula or in words", 0, share(answers)},
	{"ordering", "comparison, sorting and largest/smallest of up to six numbers", 0.95, share(answers)},
	{"stories", "word problems of one and two steps, with unseen names and objects", 0.90, share(answers)},
	{"measures", "time, money and unit arithmetic", 0.90, share(answers)},
	{"followups", "follow-ups over two and three turns", 0.90, share(answers)},
	{"json", "answer in JSON by `# Response Formats`, without a grammar: valid and right", 0.90, share(freeJSON)},
	{"held", "the same with a grammar: valid", 1, share(heldJSON)},
	{"tools", "call an offered tool, with unseen names of tools and parameters, and use the result", 0.90, share(calls)},
	{"rationale", "one rationale before each call when decision tracing asks for it", 0.90, share(rationales)},
	{"report", "reasoning by `report_reasoning`", 0.90, share(reported)},
	{"markers", "reasoning between markers", 0.90, share(reported)},
	{"object", "reasoning in the object of strategy json, with how sure it is", 0.90, share(reported)},
	{"summaries", "summary: at most 40% of the reasoning's length, holds the result, no invented number", 0.95,
		share(summaries)},
	{"around", "summaries of the reasoning before and after a call: the first says that a function is called, the " +
		"second what it gave or that it failed, no invented number", 0.90, share(summariesAround)},
	{"efforts", "reasoning tokens at the three efforts (medians); share right, not falling", 0, efforts},
	{"delegation", "delegation to a specialist prompt and return", 0.90, share(delegations)},
	{"identity", "anything else: says what it is and what it can do", 0.95, share(answers)},
	{"near", "the same for messages drawn like training's, of which two in five are about numbers", 0, share(answers)},
	{"causal", "a corrupted intermediate result changes the final answer accordingly", 0.90, share(corrupted)},
	{"history", "right answers with 4,000 tokens of earlier turns in front", 0.90, history},
	{"wordings", "the same tasks in wordings that training has not seen", 0, share(answers)},
	{"warm", "sums, stories and anything else at temperature 0.8, which `runner run` has where nothing is said", 0,
		share(warm)},
	{"speed", "decoded tokens a second, one run at a time", minSpeed, speed},
}

func names() []string {
	var list []string
	for _, s := range skills {
		list = append(list, s.name)
	}
	return list
}

// pools names the skills whose questions are used for a skill without its own.
var pools = map[string][]string{
	"held":      {"json"},
	"summaries": {"arithmetic", "ordering", "stories", "measures", "followups"},
	"around":    {"tools"},
	"efforts":   {"arithmetic", "ordering", "stories", "measures", "followups"},
	"causal":    {"arithmetic"},
	"history":   {"arithmetic", "stories", "identity"},
	"warm":      {"arithmetic", "stories", "identity"},
	"speed":     {"arithmetic"},
}

// pool returns the questions for a skill: its own, or some from each of several others.
func (e *evaluation) pool(skill string) []question {
	from, ok := pools[skill]
	if !ok {
		return e.of(skill)
	}
	var list []question
	for _, name := range from {
		list = append(list, spread(e.of(name), e.count/len(from)+1)...)
	}
	return spread(list, e.count)
}

// share measures the share of questions that pass a check.
func share(ask check) func(context.Context, *evaluation, *skill) (outcome, error) {
	return func(ctx context.Context, e *evaluation, s *skill) (outcome, error) {
		t, err := e.tally(ctx, s.name, e.pool(s.name), ask)
		return s.outcome(t), err
	}
}

// print measures skills, reports each on standard error when it is done, and prints the tables. Skills below their
// bars are an error.
func (e *evaluation) print(ctx context.Context, out io.Writer, wanted []string) error {
	e.out = out
	var rows, under []string
	for i := range skills {
		s := &skills[i]
		if !slices.Contains(wanted, s.name) {
			continue
		}
		got, err := s.measure(ctx, e, s)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: %s\n", s.name, got.figure)
		bar := s.barText()
		rows = append(rows, fmt.Sprintf("| %s | %d | %s | %s |", s.text, got.questions, got.figure, bar))
		if !got.holds {
			under = append(under, fmt.Sprintf("- %s: %s, the bar is %s", s.name, got.figure, bar))
		}
	}
	fmt.Fprintf(out, "\n| skill | questions | right | bar |\n|---|---|---|---|\n%s\n", strings.Join(rows, "\n"))
	if len(under) > 0 {
		fmt.Fprintf(out, "\nUnder their bar:\n\n%s\n", strings.Join(under, "\n"))
	}
	fmt.Fprint(out, "\n| skill | right, by kind |\n|---|---|\n")
	for _, row := range e.byKind() {
		fmt.Fprintln(out, row)
	}
	if len(under) > 0 {
		return fmt.Errorf("under their bar: %d of %d skills", len(under), len(rows))
	}
	return nil
}

// byKind returns a row for each skill, with the results for all kinds of its questions.
func (e *evaluation) byKind() []string {
	var rows []string
	for i, k := range e.kinds {
		if i > 0 && k.skill == e.kinds[i-1].skill {
			last := &rows[len(rows)-1]
			*last = fmt.Sprintf("%s; %s: %s |", strings.TrimSuffix(*last, " |"), k.name, k.tally)
			continue
		}
		rows = append(rows, fmt.Sprintf("| %s | %s: %s |", k.skill, k.name, k.tally))
	}
	return rows
}

func (s *skill) barText() string {
	switch {
	case s.name == "efforts":
		return "at least 1 : 1.5 : 2.5"
	case s.bar > 1:
		return fmt.Sprintf("%.0f", s.bar)
	case s.bar == 0:
		return "none"
	}
	return fmt.Sprintf("%.0f%%", 100*s.bar)
}
