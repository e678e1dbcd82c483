// Package runner drives a model from messages to events.
//
// A [Runner] owns one loaded model. Any number of goroutines call [Runner.Generate]; one goroutine of the runner's
// own steps the model, so that prefill chunks and decode tokens of all runs, and their summary passes, share
// batches (continuous batching). Finished runs leave their sequence in the cache, and the next request with a
// common prefix continues from it.
//
// Where reasoning is handed to specialists ([Delegation]), a run is several turns of the model in one stream of events.
//
// It renders prompts with chattemplate, takes the output apart with reasoning, and knows nothing of HTTP, terminals or
// wire formats. It imports no backend implementation: the model is given to it.
//
// Rules: a slow reader of events never delays another run; cancelling a request's context ends it within one step and
// keeps the prefix; reasoning that the request's visibility does not allow never leaves the package; nothing is
// invented: what the model did not give is reported as missing. Fields that a caller can aim at single tokens (bias,
// penalties, stop strings, forms) act only on text that the visibility shows, and never on headers.
package runner
