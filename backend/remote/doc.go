// Package remote runs models that an engine on another machine computes: llama-server, vLLM or SGLang.
//
// The runner keeps everything but the matrix products. Token ids go out and token ids come back. The packages below
// this one speak the engines' protocols ([Engine]).
package remote
