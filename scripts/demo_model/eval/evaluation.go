package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// evaluation is the input of a measurement.
type evaluation struct {
	server    *server
	questions []question
	// count is the number of questions for a skill that has none of its own.
	count   int
	efforts []string
	verbose bool

	out   io.Writer
	kinds []kind
}

// kind is the result for one kind of a skill's questions.
type kind struct {
	skill, name string
	tally
}

// tally counts questions.
type tally struct{ right, asked int }

func (t *tally) add(u tally) { t.right, t.asked = t.right+u.right, t.asked+u.asked }

func (t tally) share() float64 { return float64(t.right) / float64(max(t.asked, 1)) }

func (t tally) String() string {
	return fmt.Sprintf("%.1f%% (%d of %d)", 100*t.share(), t.right, t.asked)
}

// verdict is the result of a question.
type verdict struct {
	right bool
	// formed reports that the answer has the form that the skill requires, right or wrong. Only some skills set it.
	formed bool
	// skip reports that the question was not asked.
	skip bool
	// kind is the row in the table of kinds; empty for the question's own kind.
	kind string
	// said is what the model said, for people who look for mistakes.
	said string
}

// check asks a question and judges the answer.
type check func(ctx context.Context, e *evaluation, i int, q *question) (verdict, error)

// of returns the questions of a skill.
func (e *evaluation) of(skill string) []question {
	var list []question
	for _, q := range e.questions {
		if q.Skill == skill {
			list = append(list, q)
		}
	}
	return list
}

// spread takes n questions evenly from a list.
func spread(list []question, n int) []question {
	n = min(n, len(list))
	out := make([]question, n)
	for i := range out {
		out[i] = list[i*len(list)/n]
	}
	return out
}

// tally checks questions, several at once, and counts the results under a skill's name.
func (e *evaluation) tally(ctx context.Context, skill string, list []question, ask check) (tally, error) {
	verdicts := make([]verdict, len(list))
	err := together(len(list), func(i int) (err error) {
		verdicts[i], err = ask(ctx, e, i, &list[i])
		return err
	})
	if err != nil {
		return tally{}, fmt.Errorf("%s: %w", skill, err)
	}
	var all, formed tally
	kinds := map[string]tally{}
	for i, v := range verdicts {
		if v.skip {
			continue
		}
		name := cmp.Or(v.kind, list[i].Kind)
		t := kinds[name]
		all.asked, t.asked, formed.asked = all.asked+1, t.asked+1, formed.asked+1
		if v.formed {
			formed.right++
		}
		if v.right {
			all.right, t.right = all.right+1, t.right+1
		} else if e.verbose {
			fmt.Fprintf(e.out, "  wrong (%s, %s): %q\n    expected %s\n    got %s\n", skill, name, list[i].asked(),
				list[i].Expect, v.said)
		}
		kinds[name] = t
	}
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		e.kinds = append(e.kinds, kind{skill, name, kinds[name]})
	}
	if formed.right > 0 {
		e.kinds = append(e.kinds, kind{skill, "all: as it should come about, right or wrong", formed})
	}
	return all, nil
}

// together calls a function for each of n numbers, as many at once as the server allows, and returns the first
// error.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	var group sync.WaitGroup
	for range parallel {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !failed.Load(); i = int(next.Add(1)) - 1 {
				if errs[i] = do(i); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("question %d: %w", i+1, err)
		}
	}
	return nil
}
