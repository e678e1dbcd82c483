package responses

import (
	"encoding/json"

	"runner/server/internal/apierror"
)

// event is an event of a stream that is not a delta.
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

// PartEvent is response.content_part.added or done.
type PartEvent struct {
	Head
	ItemID      string `json:"item_id"`
	OutputIndex int    `json:"output_index"`
	// ContentIndex is the part's place in the item's content, from 0.
	ContentIndex int  `json:"content_index"`
	Part         Part `json:"part"`
}

// SummaryPartEvent is response.reasoning_summary_part.added or done.
type SummaryPartEvent struct {
	Head
	ItemID      string `json:"item_id"`
	OutputIndex int    `json:"output_index"`
	// SummaryIndex is the part's place in the item's summary, from 0.
	SummaryIndex int  `json:"summary_index"`
	Part         Part `json:"part"`
}

// TextEvent is response.output_text.done.
type TextEvent struct {
	Head
	ItemID       string          `json:"item_id"`
	OutputIndex  int             `json:"output_index"`
	ContentIndex int             `json:"content_index"`
	Text         string          `json:"text"`
	Logprobs     json.RawMessage `json:"logprobs"`
}

// ReasoningTextEvent is response.reasoning_text.done.
type ReasoningTextEvent struct {
	Head
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
	Text         string `json:"text"`
}

// SummaryTextEvent is response.reasoning_summary_text.done.
type SummaryTextEvent struct {
	Head
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	SummaryIndex int    `json:"summary_index"`
	Text         string `json:"text"`
}

// ArgumentsEvent is response.function_call_arguments.done.
type ArgumentsEvent struct {
	Head
	ItemID      string `json:"item_id"`
	OutputIndex int    `json:"output_index"`
	Name        string `json:"name"`
	Arguments   string `json:"arguments"`
}

// InputEvent is response.custom_tool_call_input.done.
type InputEvent struct {
	Head
	ItemID      string `json:"item_id"`
	OutputIndex int    `json:"output_index"`
	Input       string `json:"input"`
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
