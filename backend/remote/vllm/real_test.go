package vllm_test

import (
	"testing"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/realtest"
	"runner/backend/remote/vllm"
	"runner/backend/remote/web"
)

// TestVLLMConformance runs the suite with a real vLLM, which scripts/vllm_server.sh starts.
func TestVLLMConformance(t *testing.T) {
	realtest.Conformance(t, "RUNNER_VLLM", "../../../models/demo/demo.gguf",
		func(c *web.Client, v *backend.Vocab) remote.Engine { return vllm.New(c, v) }, nil)
}
