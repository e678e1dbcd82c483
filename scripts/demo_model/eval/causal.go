package main

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// corrupted lets a run continue its own analysis after one digit of a step was changed, at the lower efforts in
// turn. The answer must follow from that digit. Questions that were answered wrongly before the change are left
// out.
func corrupted(ctx context.Context, e *evaluation, i int, q *question) (verdict, error) {
	f, effort := q.request(), []string{"low", "medium"}[i%2]
	f["reasoning_effort"] = effort
	c, err := e.server.chat(ctx, f)
	if err != nil {
		return verdict{}, err
	}
	m, content := first(c)
	places := slices.DeleteFunc(slips(q, m.Reasoning), func(s slip) bool { return s.of != ofStep })
	if content != q.Expect.Answer || len(places) == 0 {
		return verdict{skip: true}, nil
	}
	place := places[i/2%len(places)]
	slip := place.change(m.Reasoning, i)
	p, err := e.server.prompt(ctx, f)
	if err != nil {
		return verdict{}, err
	}
	thoughts, answer, err := e.server.proceed(ctx, p.Prompt+opening+slip.text)
	return verdict{
		right: answer == slip.answer, kind: fmt.Sprintf("%s, %s", q.Kind, effort),
		said: fmt.Sprintf("%q for %q\n    after %q + %q", answer, slip.answer, slip.text, thoughts),
	}, err
}

// slip is a digit of an analysis that can be changed.
type slip struct {
	at int
	// digits are the possible replacements, and answer is the answer that then follows.
	digits string
	answer func(digit int) string
	// of says what the digit belongs to.
	of string
}

// What a digit can belong to.
const (
	ofStep   = "a step"
	ofResult = "what the steps spell"
)

// changed is an analysis up to a changed digit, and the answer that follows from it.
type changed struct{ text, answer string }

// change puts the n-th possible replacement in place of the digit.
func (s slip) change(analysis string, n int) changed {
	d := s.digits[n%len(s.digits)]
	return changed{analysis[:s.at] + string(d), s.answer(int(d - '0'))}
}

// The notation of scripts/demo_model/skills/columns.py.
var (
	operation = regexp.MustCompile(`\d+([-+*])\d+: `)
	told      = regexp.MustCompile(`(=|, so |, with a zero |, with the minus -)(\d+)`)
	quotient  = regexp.MustCompile(`(\d+)/(\d): ((?:\d+/\d=\d rest \d, )+)so `)
	rest      = regexp.MustCompile(` rest (\d)`)
)

// slips finds the digits of an analysis whose change determines another answer.
func slips(q *question, analysis string) []slip {
	if q.Kind == "divide" {
		return rests(q, analysis)
	}
	return columns(q, analysis)
}

// columns finds digits in sums, differences and products: the last digit of each column, and the digits of the
// result. Each adds its place value to the result.
func columns(q *question, analysis string) (list []slip) {
	result, err := strconv.Atoi(strings.TrimPrefix(q.Expect.Result, "-"))
	if err != nil {
		return nil
	}
	chains := operation.FindAllStringSubmatchIndex(analysis, -1)
	for n, chain := range chains {
		end := len(analysis)
		if n+1 < len(chains) {
			end = chains[n+1][0]
		}
		worth, column := 1, 1
		if n == 1 && analysis[chain[2]:chain[3]] == "*" {
			worth = 10 // the product with the tens
		}
		for _, m := range told.FindAllStringSubmatchIndex(analysis[chain[1]:end], -1) {
			from, to := chain[1]+m[4], chain[1]+m[5]
			switch mark := analysis[chain[1]+m[2] : chain[1]+m[3]]; mark {
			case "=":
				list = append(list, q.place(analysis, to-1, others(analysis[to-1], false), result, worth*column, ofStep))
				column *= 10
				continue
			case ", with a zero ":
				worth = 1
			}
			for at, place := to-1, worth; at >= from; at, place = at-1, place*10 {
				list = append(list, q.place(analysis, at, others(analysis[at], at == from && to-from > 1), result, place, ofResult))
			}
		}
	}
	return list
}

// place is the slip of a digit with this place value in the result.
func (q *question) place(analysis string, at int, digits string, result, worth int, of string) slip {
	old := int(analysis[at] - '0')
	return slip{at, digits, func(digit int) string {
		n := result + (digit-old)*worth
		if strings.HasPrefix(q.Expect.Result, "-") {
			n = -n
		}
		return q.with(strconv.Itoa(n))
	}, of}
}

// with returns the question's answer with another result.
func (q *question) with(result string) string {
	before, _, _ := strings.Cut(q.Expect.Answer, "= ")
	return before + "= " + result + "."
}

// others are all digits but one, without zero if it would lead a number.
func others(digit byte, leads bool) string {
	all := strings.Replace("0123456789", string(digit), "", 1)
	if leads {
		all = strings.TrimPrefix(all, "0")
	}
	return all
}

// rests finds the remainders of a division. The next dividend begins with the previous remainder.
func rests(q *question, analysis string) (list []slip) {
	m := quotient.FindStringSubmatchIndex(analysis)
	if m == nil {
		return nil
	}
	dividend, divisor := analysis[m[2]:m[3]], int(analysis[m[4]]-'0')
	for i, r := range rest.FindAllStringSubmatchIndex(analysis[m[6]:m[7]], -1) {
		at := m[6] + r[2]
		digits := strings.Replace("0123456789"[:divisor], analysis[at:at+1], "", 1)
		if digits != "" {
			list = append(list, slip{at, digits, func(digit int) string { return q.with(divide(dividend, divisor, i, digit)) },
				ofStep})
		}
	}
	return list
}

// divide divides digit by digit, with another remainder after one of the steps, and returns quotient and remainder
// as an answer states them.
func divide(dividend string, divisor, step, instead int) string {
	whole, left := 0, 0
	for i := range dividend {
		head := left*10 + int(dividend[i]-'0')
		whole, left = whole*10+head/divisor, head%divisor
		if i == step {
			left = instead
		}
	}
	if left == 0 {
		return strconv.Itoa(whole)
	}
	return fmt.Sprintf("%d remainder %d", whole, left)
}
