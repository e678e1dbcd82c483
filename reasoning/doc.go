// Package reasoning takes a model's output apart and decides what of it may be seen.
//
// It holds the one header machine, [Splitter]: generated tokens go in, segments (reasoning, preamble, tool call,
// answer) and events come out, for harmony by token id, for think tags and markers by text that may be split
// anywhere. The same machine reads the object of strategy json and the calls of strategy tool as they arrive, and
// takes calls that families without channels write in their text out of it; where the model wrote neither it falls
// back to markers and plain text. The package also holds the visibility policy, [Visibility.Shows], which filters
// events once before any encoder sees them, and the prompts of the summary pass and of the strategies. Beside them
// stand [StopFilter] for stop strings, [Guard] against summaries that quote the reasoning, [RationaleFilter] for
// the reasons that a model gives for its calls, and [Collector] for replies that do not stream.
//
// It does not render prompts, call a model or write wire formats.
//
// Rules: text is never lost, whatever a model writes; a delta never splits a rune; under visibility none no byte of
// reasoning passes, under summary none but the summary's.
package reasoning
