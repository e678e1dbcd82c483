package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// endlessStream opens a stream that does not end, and reads it until ctx ends.
func endlessStream(ctx context.Context, a *attacker) error {
	body := `{"prompt":"a","max_tokens":1000000,"ignore_eos":true,"stream":true,"logit_bias":{"97":100}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+a.key)
	res, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// TestEndlessStreamsShareTheirPlaces checks that the streams of a key that has all places hardly delay the questions of
// another key.
func TestEndlessStreamsShareTheirPlaces(t *testing.T) {
	t.Log("\n" + fairnessTable + fairnessNow().check(t, hostility{name: "four endless streams", send: endlessStream}))
}
