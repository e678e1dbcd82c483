package runner

import (
	"runner/chattemplate"
	"runner/generation"
)

// Abilities says what the model can do besides writing text.
func (r *Runner) Abilities() generation.Abilities {
	format := r.template.Format()
	return generation.Abilities{
		Reasoning: format.Family != chattemplate.Plain, Tools: format.Tools,
		Embeddings: r.model.Capabilities().Embeddings,
	}
}
