// Package room adds OpenAI's formats to the command serve.
package room

import (
	"math"
	"time"

	"runner/cmd/runner/cli"
	"runner/cmd/runner/flags"
	"runner/server/openai"
	"runner/server/openai/responses"
	"runner/server/wire"
)

func init() { cli.Register(cli.Room{Name: "openai", Serve: serve, Clients: "OpenAI"}) }

func serve(h *cli.Host) cli.Serving {
	var stored, background int
	var memory int64
	var age time.Duration
	return cli.Serving{
		Flags: flags.List(
			flags.Topic("Concurrency and time", flags.Int("background", &background, 16, 1, 10_000,
				"make up to `N` responses in the background at once")),
			flags.Topic("Stored responses and calls",
				flags.Int("responses", &stored, 1024, 1, 1<<20, "store up to `N` responses for each key, in memory"),
				flags.Size("responses-memory", &memory, 256<<20, 4,
					"maximum `BYTES` of stored responses, a quarter of them for one key"),
				flags.Time("responses-age", &age, 24*time.Hour, time.Second, flags.Forever,
					"`TIME` for which a response is stored"))),
		Uses: []string{"base URL for clients of OpenAI: $URL/v1",
			`curl $KEY $URL/v1/chat/completions -d '{"model": "$MODEL", ` +
				`"messages": [{"role": "user", "content": "Hello"}]}'`},
		Formats: func() ([]wire.Format, error) {
			share := 0 // an equal share of the background for each key
			if h.KeyFile == "" {
				share = math.MaxInt // there is only one key
			}
			return []wire.Format{
				openai.New(h, h.Config),
				responses.New(h, responses.Config{Config: h.Config, Calls: h.Calls, Background: background, Share: share,
					Store: responses.StoreLimits{Responses: stored, Bytes: int(memory / 4), Total: int(memory), Age: age}}),
			}, nil
		},
	}
}
