package contract

import "runner/server/wire"

// CodeMediaSkipped is the code of the warning about images and other input that is not text in a history.
const CodeMediaSkipped = "media_skipped"

// Unread returns the note that stands in a prompt instead of input that models here cannot read, and warns of it. In a
// history it must not be refused: a client sends it again with each request, so that a refusal ends the conversation.
func Unread(warnings *wire.Warnings, path, kind string) string {
	warnings.AddOnce(CodeMediaSkipped, path+" was left out, and all others like it: models here read text only")
	return "[" + wire.Clip(kind) + ": left out, because only text can be read here]"
}
