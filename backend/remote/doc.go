// Package remote runs models that an engine on another machine computes: llama-server, vLLM or SGLang.
//
// The runner keeps everything but the matrix products. Token ids go out and token ids come back. The packages below
// this one speak the engines' protocols ([Engine]).
//
// # How it decodes
//
// A sequence has at most one generation open at the engine. The engine streams ahead, and a step takes the next token
// from the stream. If the step feeds the tokens that the stream gave, the stream goes on. If it feeds others, or
// samples in another way, the stream is closed, and a new one is opened with the longer prefix. The engine's prefix
// cache makes that cheap.
//
// A constraint is checked here on every token. A token that it does not allow is replaced: the engine samples one token
// from the allowed ones. That is the distribution of package sample: a first draw that is allowed counts, and a second
// one is made among the allowed tokens.
//
// # Rules
//
// Steps do not wait ([backend.Paced]). One goroutine for each stream waits for the engine, opens the stream again after
// a fault, and gives up after a while.
//
// Presence and frequency penalties are computed here and sent as a bias. They change with each token, so each token is
// a request of its own. No engine counts the same tokens as the runner does.
//
// Seeds: the seed of a stream is a hash of the seed and of the position at which the stream begins. Which tokens are
// drawn also depends on where streams begin and on what the engine computes at the same time.
//
// The engine is asked from time to time what it runs. While that is another model, all inputs fail.
//
// The package writes no log: Config.Warn gets what an operator should know. Its warnings and errors have no address, no
// key and no text.
package remote
