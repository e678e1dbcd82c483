// Package generation defines what a run is asked for and what it reports: the request, the typed errors, the codes of
// warnings, the statistics of a runner, and the interfaces of what records runs and of loops above them.
//
// It runs nothing and knows no engine. The server's wire formats fill in a [Request], and package runner carries it
// out. Neither needs to know the other. The events of a run are in package reasoning.
//
// # A new field of a request
//
//  1. Add it to [Request] in request.go. Runner.Validate in runner/runner.go checks it.
//  2. Say in runner/reach_test.go (placeOfField) on which part of the output it acts. If it acts on single tokens, it
//     gets a row in runner/reach.go.
//  3. Use it in package runner. If it changes what a turn may write, it becomes a field of family.TurnConfig
//     (chattemplate/family/family.go), which runner/turn.go fills in. Each family obeys it in its turn.go.
//  4. Read it in each wire format, in the folders of server: openai/chat.go (openai/tools.go for fields about tools,
//     openai/options.go for those that completions have too), openai/responses/request.go, anthropic/request.go,
//     ollama/request.go, agui/props.go. Fields about reasoning with one name in several formats are in
//     internal/contract.
//  5. Add its name to the format's table of names, so that errors name the client's field: openai/errors.go,
//     openai/responses/turn.go, anthropic/errors.go, ollama/ollama.go, agui/agui.go.
//  6. The comment above a format's field and its tag api describe it. Run go generate ./server/openapi.
package generation

import "runner/backend"

// Token is a token of a model's vocabulary.
type Token = backend.Token
