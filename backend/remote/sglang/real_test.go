package sglang_test

import (
	"os"
	"testing"

	"runner/backend"
	"runner/backend/remote"
	"runner/backend/remote/realtest"
	"runner/backend/remote/sglang"
	"runner/backend/remote/web"
)

// TestSGLangConformance runs the suite with a real SGLang. Its model needs the vocabulary of the bundled one.
func TestSGLangConformance(t *testing.T) {
	skip := map[string]string{}
	if os.Getenv("RUNNER_SGLANG_SEEDS") == "" {
		skip["Seeds"] = "seeds need --enable-deterministic-inference; RUNNER_SGLANG_SEEDS=1 says that the server has it"
	}
	realtest.Conformance(t, "RUNNER_SGLANG", "../../../models/demo/demo.gguf",
		func(c *web.Client, v *backend.Vocab) remote.Engine { return sglang.New(c, v) }, skip)
}
