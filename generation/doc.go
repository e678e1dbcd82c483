// Package generation defines what a run is asked for and what it reports: the request, the typed errors, the codes of
// warnings, the statistics of a runner, and the interfaces for recording a run.
//
// It runs nothing and knows no engine. The server's wire formats fill in a [Request], and package runner carries it
// out. Neither needs to know the other. The events of a run are in package reasoning.
package generation

import "runner/backend"

// Token is a token of a model's vocabulary.
type Token = backend.Token
