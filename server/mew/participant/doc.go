// Package participant is a model as a participant of a MEW space: it answers chat, tells its reasoning as far as
// its operator lets it, and calls the functions that others offer.
//
// It knows no HTTP server and loads no model; it is given a function that generates, and connections: [Dial] makes
// one to a space elsewhere, and a member of package space is one too.
//
// # What it answers
//
// A chat that names it in to; and a chat to everyone that is no reply (it has no correlation_id) and stands in no
// context. So answers, which are replies, are not answered by others of its kind. It answers one after the other;
// what it was told alone, it answers to who asked alone.
//
// # What the model is shown
//
// The last chats and thoughts of the space, within limits, then the message. What others say is a user's text, with
// the name of who said it before it unless it is who asks. What was said to the participant alone is shown for
// questions of the same participant that are asked alone, and no others.
//
// # Functions
//
// Participants that may send mcp/response are asked for their tools (tools/list) when they are there. A call goes
// to who offers the function as an mcp/request inside the reasoning, and the mcp/response comes back into the next
// turn; where only mcp/proposal is allowed, the response to the request that fulfils it is waited for, which has to
// be addressed to everyone or to this participant.
//
// # Trust
//
// Who sends what is the space's word. Messages of system/... count from the space alone; a message in the
// participant's own name, and a response from somebody who was not asked, are ignored. A reasoning/cancel counts
// from who asked the question and from holders of reasoning/cancel; nothing but the reasoning/cancel that says so
// is sent after it. How much reasoning is told is not for others to say. Logs have ids and counts only.
package participant
