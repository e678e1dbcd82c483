package contract

import (
	"context"
	"errors"
	"slices"

	"runner/chattemplate"
	"runner/generation"
	"runner/server/wire"
)

// answerRoom is how many tokens [Shorten] leaves for the answer if the request does not say.
const answerRoom = 1024

// Shorten removes the oldest part of a request's conversation until the prompt leaves room for an answer. It
// returns the number of messages that it removed. A conversation that cannot be shortened enough is refused later,
// by the model.
func Shorten(ctx context.Context, m wire.Model, principal string, req *generation.Request) (int, error) {
	size := m.Info().ContextSize
	room := min(answerRoom, size/4)
	if req.MaxTokens > 0 {
		room = min(req.MaxTokens, size/2)
	}
	whole := req.Messages
	if mostTokens(req)+room <= size {
		return 0, nil
	}
	fits := func(messages []chattemplate.Message) (bool, error) {
		shorter := *req
		shorter.Messages = messages
		p, err := m.Prompt(ctx, principal, shorter)
		var long *generation.PromptTooLongError
		if err != nil && !errors.As(err, &long) {
			return false, err
		}
		return err == nil && len(p.Tokens)+room <= size, nil
	}
	if ok, err := fits(whole); ok || err != nil {
		return 0, err
	}
	shorter := Cuts(whole)
	if len(shorter) == 0 {
		return 0, nil
	}
	low, high := 0, len(shorter)-1 // the shortest is used even if it does not fit; then the model refuses it
	for low < high {
		middle := (low + high) / 2
		ok, err := fits(shorter[middle].Messages())
		if err != nil {
			return 0, err
		}
		if ok {
			high = middle
		} else {
			low = middle + 1
		}
	}
	req.Messages = shorter[low].Messages()
	return len(whole) - len(req.Messages), nil
}

// mostTokens returns more tokens than the prompt of a request is likely to have: a token has at least one byte. It
// saves most requests from being rendered twice.
func mostTokens(req *generation.Request) int {
	const frame, template = 32, 4096 // around a message, and around all of them
	n := template
	if f := req.ResponseFormat; f != nil {
		n += len(f.Description) + 2*len(f.Schema)
	}
	for i := range req.Messages {
		m := &req.Messages[i]
		n += frame + len(m.Content) + len(m.Reasoning) + len(m.Preamble) + len(m.Name) + len(m.ToolName) + len(m.ToolCallID)
		for _, c := range m.ToolCalls {
			n += frame + len(c.ID) + len(c.Name) + len(c.Arguments)
		}
	}
	for _, t := range req.Tools {
		n += frame + len(t.Name) + len(t.Description) + 2*len(t.Parameters)
	}
	return n
}

// Cut is a shortened conversation: what stays of its front, and its end.
type Cut struct{ front, end []chattemplate.Message }

// Messages returns the conversation.
func (c Cut) Messages() []chattemplate.Message { return slices.Concat(c.front, c.end) }

// Cuts returns the ways to shorten a conversation, the longest result first. System and developer messages stay. The
// oldest turns are removed first, each from its user's message to the next. Then the oldest calls of the last turn are
// removed with their outputs. The last user's message and the last message stay.
func Cuts(all []chattemplate.Message) (shorter []Cut) {
	var front []chattemplate.Message // what stays of the messages so far
	add := func(i int) {
		if len(front) < i {
			shorter = append(shorter, Cut{front[:len(front):len(front)], all[i:]})
		}
	}
	last, stays := -1, 0 // the last user message, and how many stay before it
	for i := range all {
		switch all[i].Role {
		case chattemplate.System, chattemplate.Developer:
			front = append(front, all[i])
		case chattemplate.User:
			add(i)
			last, stays = i, len(front)
		}
	}
	front = front[:stays:stays]
	if last >= 0 {
		front = append(front, all[last])
	}
	for i := last + 1; i < len(all); i++ {
		switch all[i].Role {
		case chattemplate.System, chattemplate.Developer:
			front = append(front, all[i])
		case chattemplate.ToolRole:
		default:
			if i > last+1 {
				add(i)
			}
		}
	}
	return shorter
}
