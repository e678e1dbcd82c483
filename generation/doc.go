// Package generation defines what a run is asked for and what it reports: the request, the typed errors, the codes of
// warnings, the statistics of a runner, and the interfaces of a run's observer and of loops above runs.
//
// It runs nothing and knows no engine. The server's wire formats fill in a [Request], and package runner carries it
// out. Neither needs to know the other. The events of a run are in package reasoning.
//
// # A new field of a request
//
//  1. Add it to [Request] in request.go, with its tags. Runner.validate in runner/runner.go checks it, once for every
//     run. Traces then record it, and no plan is shared by requests that differ in it.
//  2. Say in runner/reach_test.go (placeOfField) on which part of the output it acts. If it acts on single tokens, it
//     gets a row in runner/reach.go.
//  3. Use it in package runner. If it changes what a turn may write, it becomes a field of family.TurnConfig
//     (chattemplate/family/family.go), which runner/plan.go fills in. Each family obeys it in its turn.go.
//  4. Add it to the body of each wire format, in the folders of server: openai/chat.go (openai/tools.go for fields
//     about tools, openai/options.go for those that completions have too), openai/responses/request.go,
//     anthropic/request.go, ollama/request.go, agui/props.go, web/request.go. The tag sets:"Field" copies a number into
//     the request and gives errors the client's name, of:"Field" gives only the name (wire/settings.go). Fields about
//     reasoning with one name in several formats are in internal/contract.
//  5. The comment above a format's field and its tag api describe it. Run go generate ./server/openapi.
//
// # A new setting of sampling
//
// It is a field of [backend.Sampling] and a row of its Settings (backend/sampling.go), and backend/sample/sample.go
// obeys it. Its effect says in which parts of the output it acts (runner/reach.go). Limits, off values, comparisons,
// traces, the protocol of engines and lists of defaults follow from the row. An engine at an address refuses a setting
// that its Dialect does not name. An engine in a process of its own refuses what it does not know by the protocol's
// version, which changes: Version in backend/child/protocol/protocol.go, VERSION and INPUT in
// backend/mlx/worker/protocol.py.
//
// Clients set it by a field of Sampling in server/wire/settings.go, in the formats that have all settings, and users by
// a flag in cmd/runner/cli/samplingflags.go.
package generation

import "runner/backend"

// Token is a token of a model's vocabulary. NoToken is none.
type Token = backend.Token

// NoToken means "no token".
const NoToken = backend.NoToken

// FillIn are the tokens with which a model fills a gap in a text.
type FillIn = backend.FillIn
