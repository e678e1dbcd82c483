package envelope

import (
	"bytes"
	"encoding/json"
	"strings"

	"runner/server/wire"
)

// ChatText is the payload of a chat.
type ChatText struct {
	Text string `json:"text"`
	// Message is the same text, for participants that read the older spelling. Answers have both.
	Message string `json:"message,omitempty"`
	// Format is plain or markdown; empty means plain.
	Format   string    `json:"format,omitempty"`
	Metadata *Metadata `json:"metadata,omitempty"`
}

// Answer returns the payload of an answer.
func Answer(text, format string) ChatText { return ChatText{Text: text, Message: text, Format: format} }

// Step is the payload of a reasoning/start, reasoning/thought or reasoning/conclusion.
type Step struct {
	Message string `json:"message"`
	// References are the ids of messages that it is based on.
	References []string  `json:"references,omitempty"`
	Metadata   *Metadata `json:"metadata,omitempty"`
}

// ReadThought returns the text of a reasoning/thought, or an empty string. Some participants send reasoning and action
// instead of a message: {"reasoning": "The sum is asked for.", "action": "respond"}. The action may be any JSON.
func (e *Envelope) ReadThought() string {
	var t struct {
		Message   json.RawMessage `json:"message"`
		Reasoning json.RawMessage `json:"reasoning"`
		Action    json.RawMessage `json:"action"`
	}
	if !e.Read(&t) {
		return ""
	}
	if message := textOf(t.Message); message != "" {
		return message
	}
	said, action := textOf(t.Reasoning), textOf(t.Action)
	var compact bytes.Buffer
	given := len(t.Action) > 0 && string(t.Action) != "null"
	if given && t.Action[0] != '"' && json.Compact(&compact, t.Action) == nil {
		action = compact.String()
	}
	switch {
	case action == "":
		return said
	case said == "":
		return "Action: " + action
	}
	return said + "\nAction: " + action
}

// textOf returns a JSON string, or an empty string if it is blank or not a string.
func textOf(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) != nil || strings.TrimSpace(s) == "" {
		return ""
	}
	return s
}

// Metadata is additional information on a step of reasoning or on the answer. All of it is optional.
type Metadata struct {
	// Approach is where the reasoning comes from: a strategy of package reasoning.
	Approach string `json:"approach,omitempty"`
	// Confidence is how sure the model says it is, 0 to 1.
	Confidence *float64 `json:"confidence,omitempty"`
	// EstimatedDuration is how long the reasoning is likely to take, such as 30s; empty if that is not known.
	EstimatedDuration string `json:"estimated_duration,omitempty"`
	// Rationale is why something was decided: {why, refs, alternatives: [{option, rejectedBecause}], confidence}.
	Rationale json.RawMessage `json:"rationale,omitempty"`
	// Assumption is something that the model assumes: {assumption, because}.
	Assumption json.RawMessage `json:"assumption,omitempty"`
	// Dropped is the number of thoughts that were dropped since the last one, because there were too many.
	Dropped int `json:"dropped_thoughts,omitempty"`
	// Finish is why an answer ended; empty if it is complete. Warnings are the codes of its warnings.
	Finish   string   `json:"finish_reason,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// StreamWanted is the payload of a stream/request.
type StreamWanted struct {
	// Direction is upload for data of the sender.
	Direction   string `json:"direction"`
	Description string `json:"description,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	// Target are the participants that get the data; empty means everyone.
	Target []string `json:"target,omitempty"`
}

// StreamOpened is the payload of a stream/open, and with a reason of a stream/close.
type StreamOpened struct {
	ID string `json:"stream_id"`
	// Target repeats that of the request, if the space keeps to it.
	Target []string `json:"target,omitempty"`
	Reason string   `json:"reason,omitempty"`
}

// Streamed is what a frame of a stream of reasoning holds. Frames are no envelopes: #STREAM#DATA.
type Streamed struct {
	Context string `json:"context"`
	// Type is thought, whose Value is a [Step].
	Type  string          `json:"type"`
	Value json.RawMessage `json:"value"`
}

// Reason is the payload of a reasoning/cancel and of an mcp/reject.
type Reason struct {
	Reason string `json:"reason"`
}

// RPC is the payload of an mcp/request, mcp/proposal or mcp/response: JSON-RPC 2.0.
type RPC struct {
	Version string          `json:"jsonrpc,omitempty"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *RPCError       `json:"error,omitempty"`
}

// RPCError is JSON-RPC's error.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Member is a participant in a system/welcome or system/presence.
type Member struct {
	ID           string       `json:"id"`
	Capabilities Capabilities `json:"capabilities,omitempty"`
}

// Arrival is the payload of a system/welcome: the participant that joined, and the others in the space.
type Arrival struct {
	You          Member   `json:"you"`
	Participants []Member `json:"participants"`
}

// Move is the payload of a system/presence.
type Move struct {
	// Event is join or leave.
	Event       string `json:"event"`
	Participant Member `json:"participant"`
}

// Fault is the payload of a system/error.
type Fault struct {
	// Error names the fault; the doc of package space lists the names.
	Error string `json:"error"`
	// Message is for people.
	Message string `json:"message,omitempty"`
	// AttemptedKind and YourCapabilities are set for a capability_violation, AttemptedKind also for dropped messages.
	AttemptedKind    string        `json:"attempted_kind,omitempty"`
	YourCapabilities *Capabilities `json:"your_capabilities,omitempty"`
	// Dropped is the number of messages that were dropped since the last such error.
	Dropped int `json:"dropped,omitempty"`
}

// Read reads the payload into one of the structs above and reports whether it could. Unknown fields are ignored.
func (e *Envelope) Read(v any) bool { return json.Unmarshal(e.Payload, v) == nil }

// Pack returns one of the structs above as a payload.
func Pack(v any) (json.RawMessage, error) { return wire.Marshal(v) }
