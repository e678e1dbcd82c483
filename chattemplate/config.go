package chattemplate

import "runner/backend"

// Config says what a family is opened with.
type Config struct {
	// Vocab is the model's vocabulary, and Tokenize its tokenizer for plain text.
	Vocab    *backend.Vocab
	Tokenize Tokenizer
	// Source is the chat template in the Jinja language: the model's own or the user's. Empty means none.
	Source string
	// ForceJinja renders through Source even for a model that is rendered natively, because the user asked for it.
	ForceJinja bool
	// MaxText is the most bytes of text that a prompt may have, so that one that no context holds is not tokenized;
	// 0 is no limit. More is ErrTooLong, or what a template in the Jinja language fails with when its output is too
	// long.
	MaxText int
}
