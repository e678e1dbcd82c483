package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"runner/testenv"
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
	testenv.NeedLong(t, "it measures times, so nothing else may run")
	t.Log("\n" + fairnessTable + fairnessNow().check(t, hostility{name: "four endless streams", send: endlessStream}))
}

// TestLongPromptsAreReadBeside checks that a key whose prompts are long and new each time hardly delays the questions
// of another key.
func TestLongPromptsAreReadBeside(t *testing.T) {
	testenv.NeedLong(t, "it measures times, so nothing else may run")
	t.Log("\n" + fairnessTable + fairnessNow().check(t, hostility{name: "four long prompts", send: longPrompt}))
}

// longPrompt has about 3,000 tokens read that the server never read before.
func longPrompt(ctx context.Context, a *attacker) error {
	words := make([]string, 1_500)
	for i := range words {
		words[i] = strconv.Itoa(a.rng.IntN(100))
	}
	_, err := a.post(ctx, "/v1/completions", map[string]any{"prompt": strings.Join(words, " "), "max_tokens": 1})
	return err
}
