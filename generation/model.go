package generation

import "runner/backend"

// ModelInfo says what a loaded model is.
type ModelInfo = backend.Info

// Abilities says what a model can do besides writing text.
type Abilities struct {
	// Reasoning: the model marks its reasoning, so that it can be told from the answer.
	Reasoning bool
	// Tools: its prompts can show tools to it.
	Tools bool
	// Calls: the way it writes calls is known. WholeArguments: a call's arguments can be limited as a whole, so also the
	// lengths of strings.
	Calls, WholeArguments bool
	// Embeddings: it turns texts into vectors.
	Embeddings bool
}
