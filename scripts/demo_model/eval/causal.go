package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"runner/backend"
	"runner/chattemplate"
	"runner/reasoning"
	"runner/runner"
)

// causal changes one digit of the result that a finished analysis states and looks whether the answer follows it, and one
// digit that a column ends with, and looks whether the rest of the reasoning and the answer follow that.
func causal(ctx context.Context, e *evaluation) error {
	t, err := chattemplate.New(chattemplate.Config{Vocab: e.model.Vocab(), Tokenize: e.model.Tokenize})
	if err != nil {
		return err
	}
	fmt.Println("\n| effort | stated result changed: answer follows | every mention changed: answer follows | ones digit changed mid-way: answer follows |\n|---|---|---|---|")
	for _, effort := range e.efforts {
		list := spread(e.skill("add", "subtract"), 200)
		replies, err := e.each(ctx, list, func(q question) runner.Request {
			return runner.Request{Messages: one(q.Question), Visibility: reasoning.VisibilityFull, Effort: effort}
		})
		if err != nil {
			return err
		}
		var stated, mentioned, columns, asked, tried int
		for i, q := range list {
			if !right(q, replies[i].answer) {
				continue
			}
			asked++
			changed, want := misstate(replies[i].reasoning, q.Answer, i, false)
			got, err := e.resume(ctx, t, q, effort, changed, true)
			if err != nil {
				return err
			}
			if result(got) == want {
				stated++
			}
			changed, want = misstate(replies[i].reasoning, q.Answer, i, true)
			if got, err = e.resume(ctx, t, q, effort, changed, true); err != nil {
				return err
			}
			if result(got) == want {
				mentioned++
			}
			part, digit, ok := slip(replies[i].reasoning, i)
			if !ok {
				continue
			}
			tried++
			if got, err = e.resume(ctx, t, q, effort, part, false); err != nil {
				return err
			}
			if strings.HasSuffix(result(got), digit) && result(got) != q.Answer {
				columns++
			}
		}
		fmt.Printf("| %s | %s | %s | %s |\n", effort, percent(stated, asked), percent(mentioned, asked), percent(columns, tried))
	}
	return nil
}

// misstate changes one digit of the result where the analysis states it (its last mention after "is"), or everywhere.
func misstate(analysis, answer string, i int, everywhere bool) (changed, want string) {
	digits := []byte(answer)
	at := len(digits) - 1 - i%len(strings.TrimPrefix(answer, "-"))
	digits[at] = byte('1' + (int(digits[at]-'0')+i%8)%9)
	want = string(digits)
	if want == answer {
		digits[at] = '0' + (digits[at]-'0'+1)%10
		want = string(digits)
	}
	cut := strings.LastIndex(analysis, " is "+answer+".") + len(" is ")
	head, tail := analysis[:cut], analysis[cut+len(answer):]
	if everywhere {
		old, instead := strings.TrimPrefix(answer, "-"), strings.TrimPrefix(want, "-")
		tail = strings.NewReplacer(": "+old+"-", ": "+instead+"-", ": "+old+"+", ": "+instead+"+").Replace(tail)
	}
	return head + want + tail, want
}

// column is a column of the written sum or difference; its result's last digit is what the column ends with.
var column = regexp.MustCompile(`\d[-+]\d(?:[-+]1)?=\d+`)

// slip cuts the analysis after its first column, whose last digit it changes.
func slip(analysis string, i int) (part, digit string, ok bool) {
	found := column.FindStringIndex(analysis)
	if found == nil {
		return "", "", false
	}
	at := found[1] - 1
	digit = string('0' + (analysis[at]-'0'+byte(1+i%9))%10)
	return analysis[:at] + digit, digit, true
}

// resume lets the model go on from an analysis that was put into its mouth; a finished one is closed first.
func (e *evaluation) resume(ctx context.Context, t *chattemplate.Template, q question, effort chattemplate.Effort, analysis string, finished bool) (string, error) {
	p, err := t.Render(chattemplate.Conversation{Messages: one(q.Question), Effort: effort})
	if err != nil {
		return "", err
	}
	channel, _ := e.model.Vocab().Special("<|channel|>")
	message, _ := e.model.Vocab().Special("<|message|>")
	tokens := append(p.Tokens, channel)
	if tokens, err = e.model.Tokenize(tokens, "analysis"); err != nil {
		return "", err
	}
	tokens = append(tokens, message)
	if tokens, err = e.model.Tokenize(tokens, analysis); err != nil {
		return "", err
	}
	if finished {
		tokens = append(tokens, t.EndReasoning()...)
		tokens = append(tokens, t.OpenAnswer(chattemplate.StartTurn)...)
	}
	return e.decode(ctx, tokens)
}

// decode writes on greedily from tokens to the end and returns the text after the last <|message|>.
func (e *evaluation) decode(ctx context.Context, tokens []backend.Token) (string, error) {
	s, err := e.model.NewSequence()
	if err != nil {
		return "", err
	}
	defer s.Close()
	v, out := e.model.Vocab(), make([]backend.Output, 1)
	message, _ := v.Special("<|message|>")
	var text strings.Builder
	for range 600 {
		for len(tokens) > 512 {
			if err := e.model.Step(ctx, []backend.Input{{Sequence: s, Tokens: tokens[:512]}}, out); err != nil {
				return "", err
			}
			tokens = tokens[512:]
		}
		if err := e.model.Step(ctx, []backend.Input{{Sequence: s, Tokens: tokens, Sampling: &backend.Sampling{TopLogprobs: -1}}}, out); err != nil {
			return "", err
		}
		t := out[0].Token
		if v.EndsGeneration(t) {
			break
		}
		if t == message {
			text.Reset()
		} else {
			text.WriteString(v.Piece(t))
		}
		tokens = []backend.Token{t}
	}
	return text.String(), nil
}
