package vllm

import (
	"bytes"
	"testing"

	"runner/backend"
	"runner/backend/backendtest"
	"runner/backend/remote"
)

// TestSettingsThatAreOff writes in each way that settings are off. vLLM is asked the same, and refuses none.
func TestSettingsThatAreOff(t *testing.T) {
	e := &Engine{}
	var want []byte
	for _, off := range backendtest.Off {
		r := &remote.Request{ID: "r", Tokens: []backend.Token{1, 2}, Most: 9, Sampling: backend.Sampling{Temperature: 1,
			TopLogprobs: -1}}
		off.Write(&r.Sampling)
		if err := e.Check(&r.Sampling); err != nil {
			t.Errorf("%s: %v", off.Name, err)
		}
		got := append(e.tokensBody(r, "m"), e.textBody(r, "m")...)
		if want == nil {
			want = got
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the request is\n%s\nnot\n%s", off.Name, got, want)
		}
	}
}
