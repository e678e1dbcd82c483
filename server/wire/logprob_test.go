package wire

import (
	"encoding/json"
	"math"
	"testing"

	"runner/backend"
	"runner/reasoning"
)

func TestTokensAreJSON(t *testing.T) {
	l := []reasoning.TokenLogprobs{{TokenLogprob: backend.TokenLogprob{Logprob: -0.25}, Text: "a\xff\"",
		Top: []reasoning.Alternative{
			{TokenLogprob: backend.TokenLogprob{Logprob: float32(math.Inf(-1))}, Text: "b"},
			{TokenLogprob: backend.TokenLogprob{Logprob: -1e-9}},
		}}}
	const want = `[{"token":"a\ufffd\"","logprob":-0.25,"bytes":[97,255,34],"top_logprobs":[` +
		`{"token":"b","logprob":-9999,"bytes":[98]},` +
		`{"token":"","logprob":-1e-9,"bytes":[]}]}]`
	if got, err := json.Marshal(Tokens(l)); err != nil || string(got) != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
}
