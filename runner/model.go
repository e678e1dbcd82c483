package runner

import "runner/generation"

// Abilities says what the model can do besides writing text.
func (r *Runner) Abilities() generation.Abilities {
	about := r.family.About()
	return generation.Abilities{
		Reasoning: about.MarksReasoning, Tools: about.Tools, Calls: about.Calls,
		WholeArguments: about.WholeArguments, Embeddings: r.model.Capabilities().Embeddings,
	}
}
