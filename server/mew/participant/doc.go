// Package participant makes a model a participant of a MEW space. The model answers chats, sends as much of its
// reasoning as the operator allows, and calls the functions that others offer.
//
// It knows no HTTP server and loads no model. It is given a function that generates, and connections. [Dial] makes a
// connection to another server's space; a member of package space is a connection too.
//
// # What it answers
//
// It answers a chat that names it in to. It also answers a chat to everyone that is not a reply (it has no
// correlation_id) and has no context. So answers, which are replies, are not answered by other models. It answers one
// question after another. A question to it alone is answered to the asker alone.
//
// # What the model sees
//
// The model sees the last chats and thoughts of the space, within limits, then the question. What others say is a
// user's text. It begins with the speaker's name, unless the speaker is the asker. Messages to the participant
// alone are shown only for questions of the same asker to it alone. What others say in the question's context or in the
// reasoning while an answer is made enters its next turn, after the question. Everything else waits for the next
// question.
//
// # Streams
//
// Thoughts that the limit holds back go through a stream of the space, if the participant may ask for one and the space
// opens it. Such a stream has the recipients of the answer.
//
// # Functions
//
// Participants that may send mcp/response are asked for their tools (tools/list). A call is an mcp/request to the
// participant that offers the function, inside the reasoning. The mcp/response goes into the next turn. If only
// mcp/proposal is allowed, the participant waits for the response to the request that fulfils the proposal. That
// response must be addressed to everyone or to this participant.
//
// # Trust
//
// The space vouches for the senders of messages. Messages of kinds system/... count only if the space sent them.
// Messages in the participant's own name, and responses from participants that were not asked, are ignored. A
// reasoning/cancel counts if the asker sent it, or a participant that holds reasoning/cancel. After it, the
// participant sends only its own reasoning/cancel. Others cannot change how much reasoning is shown. Logs contain
// only ids and counts.
package participant
