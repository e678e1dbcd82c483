package anthropic

import (
	"runner/server/internal/contract"
	"runner/server/wire"
)

// The data of the events of a stream, in addition to [ErrorResponse].

// messageStart is the data of message_start. Of the message it has what is known before the first block.
type messageStart struct {
	Type    string `json:"type"`
	Message struct {
		Message
		StopReason *string `json:"stop_reason"`
		// Usage has only the length of the prompt. How much of it was cached is known at the end.
		Usage struct {
			InputTokens  int `json:"input_tokens"`
			OutputTokens int `json:"output_tokens"`
		} `json:"usage"`
	} `json:"message"`
}

// blockEvent is the data of content_block_start, which has the block, of content_block_delta, which has more of it, and
// of content_block_stop.
type blockEvent struct {
	Type         string      `json:"type"`
	Index        int         `json:"index"`
	ContentBlock any         `json:"content_block,omitempty"`
	Delta        *blockDelta `json:"delta,omitempty"`
}

// blockDelta has one of the texts of a block.
type blockDelta struct {
	Type        string  `json:"type"`
	Text        *string `json:"text,omitempty"`
	Thinking    *string `json:"thinking,omitempty"`
	PartialJSON *string `json:"partial_json,omitempty"`
	Signature   *string `json:"signature,omitempty"`
}

// mark is the data of ping and message_stop.
type mark struct {
	Type string `json:"type"`
}

// MessageDelta is the data of the event message_delta.
//
// How the answer ended, in the second last event of a stream.
//
//openapi:answer MessageDelta
type MessageDelta struct {
	// The type of the event.
	Type string `json:"type" api:"=message_delta"`
	// What is only known at the end.
	Delta struct {
		StopReason string `json:"stop_reason" api:"#StopReason"`
		// The stop sequence that ended the answer, if one did.
		StopSequence *string `json:"stop_sequence"`
		// Always null.
		StopDetails *struct{} `json:"stop_details" api:"null"`
	} `json:"delta"`
	Usage Usage `json:"usage"`
	// The settings of the reasoning that were used.
	ReasoningInfo *contract.ReasoningInfo `json:"reasoning_info,omitempty"`
	// What was not done as requested, and what was wrong with the model's output. Absent if there is nothing to report.
	Warnings []wire.Warning `json:"warnings,omitempty"`
}
