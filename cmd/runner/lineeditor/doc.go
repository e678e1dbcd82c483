// Package lineeditor reads what a person types on a terminal, one line or several, with the usual Emacs keys.
//
// The editor writes to the terminal but asks it nothing. It works out from the width of the text where the cursor is.
// So it does not wait for a terminal that answers late or never, and an answer cannot get mixed up with keys.
//
// The parts are:
//   - keys.go turns bytes into keys,
//   - buffer.go has the text and the cursor, and edits by grapheme clusters, which are what people see as characters,
//   - layout.go breaks the text into rows of the terminal,
//   - screen.go draws the rows, on a terminal that knows escape sequences, and dumb.go on one that does not,
//   - session.go applies keys to one text, with history, search and completion,
//   - editor.go reads from the terminal.
//
// Text that is drawn is cleaned first, so that pasted control characters cannot control the terminal. The text that
// the editor returns keeps them, except zero bytes. It is always valid UTF-8.
package lineeditor
