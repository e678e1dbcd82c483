// Package runner drives a model from messages to events.
//
// A [Runner] owns one loaded model. Any number of goroutines may call [Runner.Generate]. A single goroutine of the
// runner steps the model. It puts the prefill chunks and decode tokens of all runs and summary passes into shared
// batches (continuous batching). A finished run leaves its sequence in the cache. The next request with a common
// prefix continues from it.
//
// A run is one turn of the model. A request has one run, or several if a loop carries it out ([generation.Loop]): then
// the events of its runs are one stream.
//
// The package renders prompts with chattemplate and takes the output apart with chattemplate/reader. It knows nothing
// of HTTP, terminals or wire formats. It imports no implementation of a backend; the model is passed in.
//
// docs/architecture.md is the map of the source.
//
// # Rules
//
//   - A slow reader of events never delays another run.
//   - Cancelling a request's context ends the run within one step. Its prefix stays cached.
//   - Reasoning that the request's visibility does not allow never leaves the package.
//   - Nothing is invented: what the model did not produce is reported as missing.
//   - Fields with which a caller can target single tokens (bias, penalties, stop strings, forms) act only on text that
//     the visibility shows, and never on headers.
package runner
