package reader

// The codes of warnings about a model's output. Each is sent at most once a turn. Only package channels reads headers,
// but the codes about them are here too, so that clients find all codes in one table.
const (
	// CodeMissingStart: a message began without <|start|>.
	CodeMissingStart = "missing_start"
	// CodeMissingMessage: a header ended without <|message|>. Words that cannot be part of a header are text.
	CodeMissingMessage = "missing_message"
	// CodeMissingEnd: a message began inside another one, which was closed.
	CodeMissingEnd = "missing_end"
	// CodeMissingChannel: a header names no channel, or names it without <|channel|>.
	CodeMissingChannel = "missing_channel"
	// CodeDoubledStart: <|start|> came again inside a header.
	CodeDoubledStart = "doubled_start"
	// CodeDoubledChannel: <|channel|> came again inside a header. The last channel counts.
	CodeDoubledChannel = "doubled_channel"
	// CodeMalformedHeader: the words of a header are in an unusual form.
	CodeMalformedHeader = "malformed_header"
	// CodeBareBody: text came without a header. It is part of the answer.
	CodeBareBody = "bare_body"
	// CodeEmptyChannel: a header names no channel after <|channel|>. The message is reasoning.
	CodeEmptyChannel = "empty_channel"
	// CodeUnknownChannel: a header names a channel that the format does not have. The message is reasoning.
	CodeUnknownChannel = "unknown_channel"
	// CodeForeignRole: the model wrote a message in the name of someone else. The message is reasoning.
	CodeForeignRole = "foreign_role"
	// CodeUnknownRecipient: a message is addressed to a person. The recipient was ignored.
	CodeUnknownRecipient = "unknown_recipient"
	// CodeUnknownFunction: a call names a function that the request does not have.
	CodeUnknownFunction = "unknown_function"
	// CodeFunctionHeld: the model meant a function that is not offered. It was held to one that is.
	CodeFunctionHeld = "function_held"
	// CodeRecipientInFinal: a call came on the final channel.
	CodeRecipientInFinal = "recipient_in_final"
	// CodeCallWithoutRecipient: <|call|> ended a message without a recipient.
	CodeCallWithoutRecipient = "call_without_recipient"
	// CodeStrayControl: a control token came where it has no meaning and was left out.
	CodeStrayControl = "stray_control"
	// CodeUnfinishedHeader: the output ended inside a header.
	CodeUnfinishedHeader = "unfinished_header"
	// CodeReasoningUnclosed: the output ended inside the reasoning, so there is no answer.
	CodeReasoningUnclosed = "reasoning_unclosed"
	// CodeStrayTag: a marker of the reasoning came where it has no meaning and was left out.
	CodeStrayTag = "stray_tag"
	// CodeMalformedToolCall: a tool call could not be read. Its text is part of the answer.
	CodeMalformedToolCall = "malformed_tool_call"
	// CodeMalformedArguments: the arguments of a tool call are not JSON or not complete. The call has them unchanged.
	CodeMalformedArguments = "malformed_arguments"
	// CodeNotObject: the answer is not the object of strategy json. It was taken unchanged.
	CodeNotObject = "not_object"
	// CodeMalformedObject: the object, or the arguments of report_reasoning, are not valid JSON or have a value of the
	// wrong type. No text is lost: a value of the wrong type is reasoning, and the text after the place where an object
	// breaks off is part of the answer.
	CodeMalformedObject = "malformed_object"
	// CodeUnknownMember: the object has an unknown member. The whole member is reasoning.
	CodeUnknownMember = "unknown_member"
	// CodeUnfinishedObject: the output ended inside the object.
	CodeUnfinishedObject = "unfinished_object"
	// CodeTextAfterObject: text came after the object. It is part of the answer.
	CodeTextAfterObject = "text_after_object"
)

// messages explain the codes. They contain no text of the model.
var messages = map[string]string{
	CodeMissingStart:         "a message began without its start",
	CodeMissingMessage:       "a header ended without its message mark",
	CodeMissingEnd:           "a message was not closed before the next began",
	CodeMissingChannel:       "a header does not name its channel in the usual way",
	CodeDoubledStart:         "a header began twice",
	CodeDoubledChannel:       "a header names two channels; the last one counts",
	CodeMalformedHeader:      "a header is in an unusual form",
	CodeBareBody:             "text without a header was taken as part of the answer",
	CodeEmptyChannel:         "a message names no channel; it was taken as reasoning",
	CodeUnknownChannel:       "a message is on an unknown channel; it was taken as reasoning",
	CodeForeignRole:          "the model wrote a message in someone else's name; it was taken as reasoning",
	CodeUnknownRecipient:     "a message is addressed to no function; the address was ignored",
	CodeUnknownFunction:      "a call names a function that the request does not have",
	CodeFunctionHeld:         "the model meant a function that the request does not have; it was held to one that it has",
	CodeRecipientInFinal:     "a call came on the final channel",
	CodeCallWithoutRecipient: "a message ended as a call but is addressed to no function",
	CodeStrayControl:         "a control token out of place was left out",
	CodeUnfinishedHeader:     "the output ended inside a header",
	CodeReasoningUnclosed:    "the output ended inside the reasoning",
	CodeStrayTag:             "a reasoning marker out of place was left out",
	CodeMalformedToolCall:    "a tool call could not be read and was taken as part of the answer",
	CodeMalformedArguments:   "the arguments of a tool call are not complete JSON",
	CodeNotObject:            "the answer is not the object that was asked for and was taken as it is",
	CodeMalformedObject:      "the object with the reasoning and the answer is malformed",
	CodeUnknownMember:        "the object has a member that was not asked for; it was taken as reasoning",
	CodeUnfinishedObject:     "the output ended inside the object with the reasoning and the answer",
	CodeTextAfterObject:      "text after the object was taken as part of the answer",
}
