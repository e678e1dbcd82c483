package responses

import (
	"runner/server/internal/apierror"
	"runner/server/wire"
)

// event is an event of a stream.
type event interface{ is(name string, seq int) }

// Head has the fields of all events.
type Head struct {
	// Type is the event's name.
	Type string `json:"type"`
	// SequenceNumber counts the events of a response from 0.
	SequenceNumber int `json:"sequence_number"`
}

func (h *Head) is(name string, seq int) { h.Type, h.SequenceNumber = name, seq }

// ResponseEvent is about the whole response: response.created, queued, in_progress, completed, incomplete or failed.
type ResponseEvent struct {
	Head
	Response *Response `json:"response"`
}

// ItemEvent is response.output_item.added or done.
type ItemEvent struct {
	Head
	// OutputIndex is the item's place in the output, from 0.
	OutputIndex int  `json:"output_index"`
	Item        Item `json:"item"`
}

// PlaceEvent is about a text of an item:
//
//	response.content_part.added, done              part
//	response.reasoning_summary_part.added, done    part
//	response.output_text.delta                     delta, logprobs; done has the text and logprobs
//	response.reasoning_text.delta                  delta; done has the text
//	response.reasoning_summary_text.delta          likewise
//	response.function_call_arguments.delta         delta; done has name and arguments
//	response.custom_tool_call_input.delta          delta; done has the input
type PlaceEvent struct {
	Head
	ItemID      string `json:"item_id"`
	OutputIndex int    `json:"output_index"`
	// ContentIndex is the place in the item's content, and SummaryIndex that in its summary, from 0.
	ContentIndex *int                 `json:"content_index,omitempty"`
	SummaryIndex *int                 `json:"summary_index,omitempty"`
	Part         *Part                `json:"part,omitempty"`
	Delta        *string              `json:"delta,omitempty"`
	Text         *string              `json:"text,omitempty"`
	Logprobs     *[]wire.TokenLogprob `json:"logprobs,omitempty"`
	Name         string               `json:"name,omitempty"`
	Arguments    *string              `json:"arguments,omitempty"`
	Input        *string              `json:"input,omitempty"`
}

// ErrorEvent is error: the stream cannot continue, although the response may. It is also sent if the prompt is too
// long.
type ErrorEvent struct {
	Head
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	// Error is set if the prompt is too long: it says the same where OpenAI's clients look for it.
	Error *apierror.Detail `json:"error,omitempty"`
}
