// Package web serves the page of the server: a chat for people, and a view for operators.
//
//	GET  /              the page, for browsers only
//	GET  /web/{file}    its scripts and styles
//	GET  /web/session   what the key may do, the models and the defaults
//	POST /web/chat      one turn, as server-sent events
//	POST /web/render    texts of a conversation as HTML
//	GET  /web/figures   figures for operators
//
// The chat is one more wire format. It decodes requests into [generation.Request] and encodes the same events as the
// other formats, with the same keys, permissions, limits and visibility. The text of an answer comes as it is and as
// HTML, see package markdown.
//
// The page is plain HTML, CSS and JavaScript. It needs no build step and loads nothing from elsewhere. Markdown is
// rendered here, because that keeps the page small, and its parsers in a language with memory safety and fuzzing.
//
// The server keeps no conversations. The page stores them in the browser and sends the whole conversation each time.
//
// Rules: The page gets no key of a person but the API key, which it keeps until the tab is closed at most. Private keys
// of traces never enter it. No response of this package may run inline scripts. No HTML enters the page but that of
// package markdown.
package web
