// Package generation holds the words in which a run is asked for and reported: the request, the typed errors, the
// codes of warnings, the figures of a runner, and the interfaces of those who record a run.
//
// It runs nothing and knows no engine. The wire formats of the server fill a [Request], and package runner carries
// it out; neither needs to know the other. What a run says while it goes on are the events of package reasoning.
package generation

import "runner/backend"

// Token is a token of a model's vocabulary.
type Token = backend.Token
