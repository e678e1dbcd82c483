// Package mew serves a MEW v0.4 space for local use (package space), in which a local model takes part (package
// participant): GET /ws?space=NAME is a WebSocket for participants, POST /participants/{id}/messages sends one
// message without one.
//
// Who a participant is, and what it may send, is said by its token alone, see [Tokens]. A WebSocket brings it as
// Authorization: Bearer TOKEN; clients that cannot, such as web pages, send the frame {type: "join", space, token}
// first. API keys of the server do not count here. Where a page may connect from is checked by package server, as
// for all routes.
//
// The file of tokens is read again when it changes, and who is not in it any more, or otherwise, is disconnected.
//
// Frames are envelopes, one in each text message. A connection ends with a reason: unauthorized, changed (the
// token, or what it allows), unknown_space, space_full, slow_consumer, replaced (the participant joined again),
// space_closed. HTTP answers are 202 with an [Accepted]; 400 for a body that is no message; 401 without a token;
// 403 for a wrong token, a path with another participant's id, another's from, or a message that the participant
// may not send; 404 where nobody it is for is there; 413 for too long a body; 429 for too many messages.
//
// When the server stops, the model gives up what it reasons about and all connections end.
package mew
