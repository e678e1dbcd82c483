package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"runner/server/openai"
)

var number = regexp.MustCompile(`\d+`)

// summaries asks for both lengths at all efforts in turn, and compares each summary with the reasoning.
func summaries(ctx context.Context, e *evaluation, i int, q *question) (verdict, error) {
	f := q.request()
	effort, length := e.efforts[i%len(e.efforts)], []string{"concise", "detailed"}[i/len(e.efforts)%2]
	f["reasoning_effort"] = effort
	s, err := e.summarized(ctx, f, length)
	if err != nil {
		return verdict{}, err
	}
	thoughts := s.message.Reasoning
	return verdict{
		right: holds(s.summary, q.resultIn(s.content)) &&
			100*utf8.RuneCountInString(s.summary) <= 40*utf8.RuneCountInString(thoughts) && known(s.summary, thoughts, q),
		kind: length + ", " + effort,
		said: fmt.Sprintf("%q\n    of %s", s.summary, said(s.message, s.content)),
	}, nil
}

// summariesAround is summaries for the summary of a call and of the answer after its result. If the model makes the
// wrong call or none, there is nothing to compare with.
func summariesAround(ctx context.Context, e *evaluation, i int, q *question) (verdict, error) {
	f := q.request()
	effort, length := e.efforts[i%len(e.efforts)], []string{"concise", "detailed"}[i/len(e.efforts)%2]
	f["reasoning_effort"] = effort
	before, err := e.summarized(ctx, f, length)
	if err != nil || !q.matches(before.message) {
		return verdict{skip: true}, err
	}
	f["messages"] = append(f["messages"].([]any), q.after(before.message)...)
	after, err := e.summarized(ctx, f, length)
	if err != nil {
		return verdict{}, err
	}
	told := strings.Contains(before.summary, "function") && known(before.summary, before.message.Reasoning, q)
	gave := (holds(after.summary, q.Expect.Result) || q.failed() && strings.Contains(after.summary, "failed")) &&
		known(after.summary, after.message.Reasoning+"\n"+q.ToolResult, q)
	return verdict{right: told && gave, kind: length + ", " + effort, said: fmt.Sprintf("%q and %q", before.summary,
		after.summary)}, nil
}

// failed reports whether the function returns an error. A summary need not repeat its words.
func (q *question) failed() bool { return strings.HasPrefix(q.ToolResult, `{"error":`) }

// summarized is an answer with all of its reasoning and its summary.
type summarized struct {
	message *openai.AnswerMessage
	content string
	summary string
}

// summarized makes a request twice, for the reasoning and for the summary. At temperature 0 the reasoning is the
// same.
func (e *evaluation) summarized(ctx context.Context, f fields, length string) (s summarized, err error) {
	c, err := e.server.chat(ctx, f)
	if err != nil {
		return s, err
	}
	s.message, s.content = first(c)
	f = maps.Clone(f)
	delete(f, "include_reasoning")
	f["reasoning"] = fields{"summary": length}
	if c, err = e.server.chat(ctx, f); err != nil {
		return s, err
	}
	m, _ := first(c)
	s.summary = m.ReasoningSummary
	return s, nil
}

// resultIn returns the result that an answer states: the right one if present, otherwise its last number.
func (q *question) resultIn(answer string) string {
	all := number.FindAllString(answer, -1)
	if holds(answer, q.Expect.Result) || len(all) == 0 {
		return q.Expect.Result
	}
	return all[len(all)-1]
}

// known reports whether all numbers of a summary occur in the reasoning or in the conversation.
func known(summary, thoughts string, q *question) bool {
	from := thoughts
	for _, m := range q.Messages {
		from += "\n" + m.Content
	}
	all := number.FindAllString(from, -1)
	return !slices.ContainsFunc(number.FindAllString(summary, -1), func(n string) bool { return !slices.Contains(all, n) })
}

// level is the result at one effort.
type level struct {
	effort string
	// median is the median length of the reasoning, in tokens.
	median int
	tally
	// answered reports for each question whether the answer was right.
	answered []bool
}

// against counts the questions that are right at this effort but not at another, and the opposite.
func (l *level) against(other *level) (gained, lost int) {
	for i, right := range l.answered {
		switch {
		case right && !other.answered[i]:
			gained++
		case !right && other.answered[i]:
			lost++
		}
	}
	return gained, lost
}

// chance is how likely more questions are lost than gained by this much if either is as likely as the other: the
// sign test, one-sided (Dixon and Mood, "The Statistical Sign Test", 1946).
func chance(gained, lost int) float64 {
	n := gained + lost
	sum, term := 0.0, -float64(n)*math.Ln2 // the logarithm of (n choose k) / 2^n, from k = n downwards
	for k := n; k >= lost; k-- {
		sum += math.Exp(term)
		term += math.Log(float64(k) / float64(n-k+1))
	}
	return sum
}

// falling is the chance below which a share is considered to fall.
const falling = 0.05

// compareEfforts asks the same questions at each effort.
func (e *evaluation) compareEfforts(ctx context.Context, skill string) ([]level, error) {
	list := e.pool(skill)
	var levels []level
	for _, effort := range e.efforts {
		lengths, answered := make([]int, len(list)), make([]bool, len(list))
		t, err := e.tally(ctx, skill, list, func(ctx context.Context, e *evaluation, i int, q *question) (verdict, error) {
			f := q.request()
			f["reasoning_effort"] = effort
			c, err := e.server.chat(ctx, f)
			if err != nil {
				return verdict{}, err
			}
			m, content := first(c)
			lengths[i] = c.Usage.CompletionTokensDetails.ReasoningTokens
			answered[i] = q.answered(content)
			return verdict{right: answered[i], kind: effort, said: said(m, content)}, nil
		})
		if err != nil {
			return nil, err
		}
		levels = append(levels, level{effort, median(lengths), t, answered})
	}
	return levels, nil
}

// efforts compares lengths and shares of right answers at the efforts.
func efforts(ctx context.Context, e *evaluation, s *skill) (outcome, error) {
	levels, err := e.compareEfforts(ctx, s.name)
	if err != nil {
		return outcome{}, err
	}
	var figures []string
	holds := apart(levels)
	for i := range levels {
		l := &levels[i]
		figures = append(figures, fmt.Sprintf("%s %d (%.2f), %.1f%%", l.effort, l.median,
			float64(l.median)/float64(max(1, levels[0].median)), 100*l.share()))
		for j := range levels[:i] {
			gained, lost := l.against(&levels[j])
			holds = holds && chance(gained, lost) >= falling
			e.kinds = append(e.kinds, kind{s.name, fmt.Sprintf("%s after %s: now right of those that differ", l.effort,
				levels[j].effort), tally{asked: gained + lost, right: gained}})
		}
	}
	return outcome{questions: levels[0].asked, figure: strings.Join(figures, "; "), holds: holds}, nil
}

// atLeast is the minimum ratio of the reasoning's length to that at the lowest effort.
var atLeast = map[string]float64{"low": 1, "medium": 1.5, "high": 2.5}

// apart reports whether the medians of the efforts differ enough.
func apart(levels []level) bool {
	low := levels[0]
	return low.median > 0 && !slices.ContainsFunc(levels, func(l level) bool {
		return float64(l.median)*atLeast[low.effort] < atLeast[l.effort]*float64(low.median)
	})
}

func median[T cmp.Ordered](list []T) (m T) {
	if len(list) == 0 {
		return m
	}
	return slices.Sorted(slices.Values(list))[len(list)/2]
}

const (
	// pastTokens is the length of the conversation before the question, and pasts the number of such conversations.
	pastTokens = 4000
	pasts      = 4
)

// earlier are the skills of earlier turns. They differ from those of the questions, because an answer could
// otherwise be copied.
var earlier = []string{"ordering", "measures"}

// history puts earlier turns in front of questions.
func history(ctx context.Context, e *evaluation, s *skill) (outcome, error) {
	list := e.pool(s.name)
	var from []question
	for _, name := range earlier {
		from = append(from, e.of(name)...)
	}
	if len(from) == 0 {
		return outcome{}, fmt.Errorf("%s: there are no questions about %s for earlier turns", s.name,
			strings.Join(earlier, " or "))
	}
	talks := make([][]message, pasts)
	err := together(pasts, func(i int) (err error) {
		talks[i], err = e.past(ctx, from, i)
		return err
	})
	if err != nil {
		return outcome{}, err
	}
	for i := range list {
		list[i].Messages = append(slices.Clone(talks[i%pasts]), list[i].Messages...)
		list[i].Kind = list[i].Skill
	}
	t, err := e.tally(ctx, s.name, list, answers)
	return s.outcome(t), err
}

// past builds earlier turns of pastTokens tokens or a little more from questions and their right answers.
func (e *evaluation) past(ctx context.Context, from []question, offset int) ([]message, error) {
	var talk []message
	for i := offset; ; i += 10 {
		for j := range 10 {
			q := from[(i+j)*7%len(from)]
			talk = append(talk, message{"user", q.asked()}, message{"assistant", q.Expect.Answer})
		}
		p, err := e.server.prompt(ctx, fields{"messages": talk})
		if err != nil || p.Tokens >= pastTokens {
			return talk, err
		}
	}
}

// minSpeed is the bar for speed, in tokens per second.
const minSpeed = 200

// speed asks one question at a time at the highest effort.
func speed(ctx context.Context, e *evaluation, s *skill) (outcome, error) {
	rate, questions, err := e.rate(ctx, s)
	return outcome{questions: questions, figure: fmt.Sprintf("%.0f (median)", rate), holds: rate >= s.bar}, err
}

// rate returns the median of decoded tokens per second over some questions, and the number of questions.
func (e *evaluation) rate(ctx context.Context, s *skill) (float64, int, error) {
	list := spread(e.pool(s.name), 20)
	var rates []float64
	for i := range list {
		f := list[i].request()
		f["reasoning_effort"] = e.efforts[len(e.efforts)-1]
		c, err := e.server.chat(ctx, f)
		if err != nil {
			return 0, 0, err
		}
		rates = append(rates, c.Timings.PredictedPerSecond)
	}
	return median(rates), len(list), nil
}
