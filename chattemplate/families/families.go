package families

import (
	"errors"

	"runner/chattemplate"
	"runner/chattemplate/channels"
	"runner/chattemplate/family"
	"runner/chattemplate/tags"
)

// known lists the families in the order in which they are tried. The last takes every model that has a template.
var known = []func(chattemplate.Config) (family.Family, error){channels.Open, tags.Open}

// Open finds out which family a model is of.
//
// A vocabulary with harmony's special tokens is rendered natively unless ForceJinja is set. Every other model needs
// a template: without one Open returns chattemplate.ErrNoTemplate, except that a vocabulary with the tokens
// <|im_start|> and <|im_end|> is rendered as ChatML. A template that does not compile is a *chattemplate.TemplateError.
func Open(c chattemplate.Config) (family.Family, error) {
	if c.Vocab == nil || c.Tokenize == nil {
		return nil, errors.New("chat template needs a vocabulary and a tokenizer")
	}
	for _, open := range known {
		if f, err := open(c); f != nil || err != nil {
			return f, err
		}
	}
	return nil, chattemplate.ErrNoTemplate
}

// Raw returns the family of text after a raw prompt, in which nothing is marked. It does not render.
func Raw(c chattemplate.Config) family.Family { return tags.Raw(c) }
