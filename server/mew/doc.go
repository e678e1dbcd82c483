// Package mew serves a MEW v0.4 space for local use (package space) with a local model in it (package participant). GET
// /ws?space=NAME is a WebSocket for participants. POST /participants/{id}/messages sends one message without a
// WebSocket.
//
// A participant's token alone says who it is and what it may send; see [Tokens]. A WebSocket sends the token as
// Authorization: Bearer TOKEN. Clients that cannot do so, such as web pages, send the frame {type: "join", space,
// token} first. The server's API keys do not count here. Package server checks the origin of web pages, as for all
// routes.
//
// The token file is read again when it changes. Participants that were removed or changed are disconnected.
//
// Each text message of a WebSocket is one envelope. A connection closes with one of these reasons:
//
//	unauthorized   the token is missing or wrong
//	changed        the token, or what it allows, has changed
//	unknown_space  there is no such space
//	space_full     the space has its maximum number of participants
//	slow_consumer  the participant does not read its messages
//	replaced       the participant joined again
//	join_timeout   the connection did not send its token in time
//	binary_frame   the participant sent a binary message
//	space_closed   the space is closing
//
// HTTP answers have these statuses:
//
//	202  an [Accepted]
//	400  the body is not a message
//	401  there is no token
//	403  the token is wrong, the path or from names another participant, or the participant may not send the message
//	404  none of the recipients is there
//	413  the body is too long
//	429  too many messages
//
// When the server stops, the model gives up its current reasoning and all connections close.
package mew
