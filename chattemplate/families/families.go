package families

import (
	"errors"

	"runner/chattemplate"
	"runner/chattemplate/channels"
	"runner/chattemplate/family"
	"runner/chattemplate/tags"
)

// known lists the families in the order in which they are tried. The last one takes every model with a template.
var known = []func(chattemplate.Config) (family.Family, error){channels.Open, tags.Open}

// Open returns the family of a model.
//
// A vocabulary with harmony's special tokens is rendered in Go unless ForceJinja is set. Every other model needs a
// template. Without one, a vocabulary with the tokens <|im_start|> and <|im_end|> is rendered as ChatML, and any other
// is chattemplate.ErrNoTemplate. A template that does not compile is a *chattemplate.TemplateError.
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

// Raw returns the family for raw prompts, whose output has no marks. It cannot render.
func Raw(c chattemplate.Config) family.Family { return tags.Raw(c) }
