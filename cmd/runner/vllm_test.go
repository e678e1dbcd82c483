package main

import (
	"context"
	"os"
	"testing"

	"runner/backend"
	"runner/cmd/runner/cli"
	"runner/models/demo"
)

// realVLLM returns the address of a real vLLM that computes the bundled model, as scripts/vllm_server.sh starts one.
// It skips the test if there is none.
func realVLLM(tb testing.TB) string {
	tb.Helper()
	url := os.Getenv("RUNNER_VLLM")
	if url == "" {
		tb.Skip("there is no vLLM; start one with scripts/vllm_server.sh and name its address in RUNNER_VLLM")
	}
	return url
}

// openVLLM opens the model of a real vLLM.
func openVLLM(tb testing.TB) backend.Model {
	tb.Helper()
	url := realVLLM(tb)
	path, err := demo.Path(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	m, err := openRemote(context.Background(), cli.Remote{URL: url, Kind: "vllm", Tokenizer: path,
		Key: os.Getenv("RUNNER_VLLM_KEY")}, backend.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// Greedy answers are those in process.
func TestVLLMAnswersAsInProcess(t *testing.T) {
	n := 24
	if long() {
		n = 200
	}
	answersAsInProcess(t, openVLLM(t), n)
}

// At a high temperature no answer breaks its schema.
func TestVLLMAnswersMatchTheirSchemas(t *testing.T) { answersMatchTheirSchemas(t, openVLLM(t)) }
