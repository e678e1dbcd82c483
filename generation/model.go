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
	// Embeddings: it turns texts into vectors.
	Embeddings bool
}
