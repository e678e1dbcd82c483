package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"runner/chattemplate"
	"runner/cmd/runner/conversation"
	"runner/cmd/runner/render"
	"runner/generation"
	"runner/reasoning"
)

// question is a turn that the model works on.
type question struct {
	// before are the messages before the turn.
	before []chattemplate.Message
	turn   conversation.Turn
	seed   *uint64
	// whole is set if a part of an answer is not worth keeping. lost says what becomes of the turn without an answer.
	whole bool
	lost  string
}

// newQuestion returns a turn with the user's message.
func newQuestion(before []chattemplate.Message, message chattemplate.Message) *question {
	q := &question{before: before, lost: "the turn is forgotten"}
	q.turn.Messages = []chattemplate.Message{message}
	q.turn.Show(conversation.HeadingUser, message.Content)
	return q
}

func (q *question) add(m chattemplate.Message) { q.turn.Messages = append(q.turn.Messages, m) }

// turn sends a message and shows the answer. It returns only errors that end the chat.
func (c *chat) turn(ctx context.Context, text string) error {
	if c.gen == nil {
		c.app.Complain(errorLine(errNoModel))
		return nil
	}
	q := newQuestion(c.talk.Messages(), chattemplate.Message{Role: chattemplate.User, Content: c.withAttached(text)})
	q.seed = c.options.request.Seed
	kept, err := c.answer(ctx, q)
	if kept {
		c.attached, c.again, c.changed = nil, 0, true
	} else {
		q.turn.Messages = nil
	}
	c.talk.Turns = append(c.talk.Turns, q.turn)
	return err
}

// regenerate answers the last message again. The earlier answer stays if there is no whole new one.
func (c *chat) regenerate(ctx context.Context, _ string) error {
	last := c.talk.Last()
	switch {
	case c.gen == nil:
		return errNoModel
	case last < 0:
		return Input("there is no message to answer again").Hint("send one first")
	}
	before := conversation.Conversation{System: c.talk.System, Turns: c.talk.Turns[:last]}
	q := newQuestion(before.Messages(), c.talk.Turns[last].Messages[0])
	q.whole, q.lost = true, "the earlier answer stays"
	c.again++
	if c.options.seeded {
		seed := c.options.seed + c.again
		q.seed = &seed
		c.say("Answering again, with the seed %d.", seed)
	}
	if c.options.request.Sampling.Temperature == 0 {
		c.say("With --temperature 0, the same settings give the same answer.")
	}
	kept, err := c.answer(ctx, q)
	if kept {
		c.talk.Turns = append(c.talk.Turns[:last], q.turn)
		c.changed = true
	}
	return err
}

// undo takes back the last message and its answer.
func (c *chat) undo(context.Context, string) error {
	if !c.talk.Undo() {
		return Input("there is nothing to take back").Hint("send a message first")
	}
	c.again, c.changed = 0, true
	c.say("The last message and its answer are taken back; %s.", left(c.said()))
	return nil
}

func left(messages int) string {
	if messages == 0 {
		return "no message is left"
	}
	return Count(messages, "message is left", "messages are left")
}

func (c *chat) clear(context.Context, string) error {
	c.changed = c.changed || c.said() > 0
	c.talk.Turns, c.stats, c.again = nil, stats{}, 0
	c.say("The conversation is forgotten.")
	return nil
}

// answer shows the answer to a question and adds it to the turn. It asks the user for the results of tool calls until
// the model makes no more calls. It returns false if the turn has no answer, and only errors that end the chat.
func (c *chat) answer(ctx context.Context, q *question) (kept bool, err error) {
	for {
		out, err := c.generate(ctx, q)
		showReply(&q.turn, out)
		if errors.Is(err, ErrInterrupted) {
			kept := c.stopped(q, out)
			if c.interrupted {
				return kept, ErrInterrupted
			}
			c.interrupted = true
			return kept, nil
		}
		if isBrokenPipe(err) {
			return false, err
		}
		if err != nil {
			c.app.Complain(errorLine(err))
			return false, nil
		}
		message := chattemplate.Message{Role: chattemplate.Assistant, Content: out.Answer, Preamble: out.Preamble,
			Reasoning: out.Reasoning, ToolCalls: out.Calls}
		q.add(message)
		c.app.afterwords(out)
		if c.options.verbose {
			writeTimings(c.app.Stderr(), c.loaded, c.info, out.Info, out.Result)
		}
		fmt.Fprintln(c.app.out)
		if len(message.ToolCalls) == 0 {
			return true, nil
		}
		if _, _, short := render.Shortfall(out); short {
			c.say("The call is cut off and cannot be answered, so %s.", q.lost)
			return false, nil
		}
		if err := c.askResults(ctx, q, message.ToolCalls); err != nil {
			c.interrupted = errors.Is(err, ErrInterrupted)
			c.say("The call was not answered, so %s.", q.lost)
			return false, nil
		}
	}
}

// stopped keeps the answer that was written before the user stopped a turn, if it is worth keeping.
func (c *chat) stopped(q *question, out generation.Reply) (kept bool) {
	fmt.Fprintln(c.app.out) // ends the line in which the terminal shows ^C
	if out.Answer == "" || len(out.Calls) > 0 || q.whole {
		c.say("Stopped; %s. Ctrl-C again leaves.", q.lost)
		return false
	}
	q.add(chattemplate.Message{Role: chattemplate.Assistant, Content: out.Answer})
	c.say("Stopped. Ctrl-C again leaves.")
	return true
}

// generate runs one request. The first Ctrl-C stops it. A second one before it has stopped sets c.interrupted.
func (c *chat) generate(ctx context.Context, q *question) (out generation.Reply, err error) {
	req := c.options.request
	req.Messages, req.Seed = slices.Concat(q.before, q.turn.Messages), q.seed
	if len(q.turn.Messages) > 1 && req.ToolChoice == generation.ToolChoiceRequired {
		req.ToolChoice = generation.ToolChoiceAuto // the required call was made; do not require another one
	}
	presses := c.interruptibly(ctx, func(ctx context.Context) {
		out, err = generate(ctx, c.gen, req, c.options.observer(newRunID()),
			outputNamed(outputText).New(c.app.streams(c.options, c.spinner), Asked{}), c.spinner)
	})
	c.interrupted = presses > 1
	c.options.record.Tell(out.Result, func(line string) { c.say("%s", line) })
	c.stats.add(out, c.info, c.loaded)
	return out, err
}

// askResults asks for the result of every call. It returns an error if the user declines.
func (c *chat) askResults(ctx context.Context, q *question, calls []chattemplate.ToolCall) error {
	for _, call := range calls {
		result, err := c.editor.ask(ctx, fmt.Sprintf("result of %s: ", render.CleanLine(call.Name)))
		if err != nil {
			return err
		}
		q.add(chattemplate.Message{
			Role: chattemplate.ToolRole, Content: result, ToolCallID: call.ID, ToolName: call.Name,
		})
		q.turn.Show(conversation.HeadingResult+call.Name, result)
	}
	return nil
}

// showReply adds what was visible of a reply to a turn.
func showReply(t *conversation.Turn, r generation.Reply) {
	t.Show(conversation.HeadingReasoning, r.Reasoning)
	summary := "Summary of the reasoning"
	if r.Result != nil && r.Result.SummarySource == string(reasoning.StrategyPosthoc) {
		summary = "Explanation, made after the answer"
	}
	t.Show(summary, r.Summary)
	t.Show(conversation.HeadingPreamble, r.Preamble)
	for _, call := range r.Calls {
		t.Show(conversation.HeadingCall+call.Name, call.Arguments)
	}
	t.Show(conversation.HeadingAnswer, r.Answer)
}
