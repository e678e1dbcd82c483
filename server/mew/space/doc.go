// Package space is a MEW space: the participants that are connected, what each may send, and who gets what.
//
// It knows no HTTP and no model. Who joins was identified before, by [Identity]; connections hand over what they
// read and write what they are given. A space keeps no messages beyond their ids and senders, for as long as they
// are among the last [recentIDs].
//
// What reaches others is what the sender may send, with the sender's identity for its from. A message with a to
// goes to those that it names only. Messages of the kinds system/... come from the space alone:
//
//	system/welcome   to who joins: who it is, what it may send, who else is there
//	system/presence  to the others: who joined or left
//	system/error     to who sent what was refused, with the refused message as its correlation_id
//
// The names of errors: capability_violation (with attempted_kind and your_capabilities), identity_violation,
// invalid_message, duplicate_id, recipient_not_found, and rate_limited (with dropped, the number of messages that
// were dropped). A participant that does not read what it is sent is dropped.
//
// Rules: the order of messages is the same for everyone; nobody waits for a slow reader; participants may cancel
// their own questions and the reasoning that answers them. Cancelling anything else takes the capability.
package space
