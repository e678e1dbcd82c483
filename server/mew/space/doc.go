// Package space is a MEW space: the connected participants, what each may send, and who receives what.
//
// It knows no HTTP and no model. The caller identifies participants ([Identity]), reads frames for them and writes what
// they receive. A space keeps only the ids and senders of the last 4,096 messages.
//
// Others receive a message only if its sender may send it. Its from is always the sender's id. A message with a to goes
// only to the participants named there, with one exception: who received a reasoning/start also receives the calls
// (mcp/request, mcp/proposal) that the same participant makes in that reasoning, unless the start has no message. The
// responses are for those that they name. Only the space sends messages of the kinds system/...:
//
//	system/welcome   to a participant that joins: who it is, what it may send, who else is there
//	system/presence  to the others: who joined or left
//	system/error     to the sender of a refused message, whose id is in correlation_id
//
// The names of errors are capability_violation (with attempted_kind and your_capabilities), identity_violation,
// invalid_message, duplicate_id, recipient_not_found, and rate_limited (with dropped, the number of dropped messages).
//
// # Rules
//
//   - Everyone receives messages in the same order.
//   - Nobody waits for a slow reader. A participant that does not read its messages is disconnected.
//   - Participants may cancel their own questions and the reasoning that answers them. Cancelling anything else needs
//     the capability.
package space
