package chattemplate

import "runner/backend"

// Config is what a family needs to know of a model.
type Config struct {
	// Vocab is the model's vocabulary, and Tokenize its tokenizer for plain text.
	Vocab    *backend.Vocab
	Tokenize Tokenizer
	// Source is the chat template in the Jinja language, the model's own or the user's. Empty means none.
	Source string
	// ForceJinja renders through Source even if the family can render without it, because the user asked for that.
	ForceJinja bool
	// MaxText is the maximum bytes of text in a prompt; 0 is no limit. It keeps a prompt that fits no context from being
	// tokenized. A longer prompt is ErrTooLong, or a *TemplateError if the template's output reaches a limit.
	MaxText int
}
