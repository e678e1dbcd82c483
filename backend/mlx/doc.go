// Package mlx runs models in MLX's format with mlx-lm, in a Python process that speaks docs/engine-protocol.md.
//
// A model is a folder with config.json, safetensors, tokenizer.json and often a chat template. [ReadFolder] reads
// all but the weights; package folder reads the texts for it. The process computes logits. It does not sample and does
// not tokenize, so that masks, seeds, penalties and texts have one implementation. Its program is the Python package in
// the folder worker.
//
// [Setup] makes a Python environment with pinned versions, and [Find] looks for one. [Start] returns the program to
// run.
//
// # Apple silicon
//
// This has been run on Linux with MLX's CPU backend, which is slow and serves tests. The following differs on a Mac.
// Each point names the test that checks it here, in worker_test.py where nothing else is said.
//
//   - MLX computes on the GPU with Metal. The worker takes the limit of memory from the device's recommended working
//     set, and wires that much memory. On Linux the limit is three quarters of the machine's memory (AppleLimits).
//   - MLX compiles kernels with Metal. On Linux it would call a C++ compiler and write to a folder in /tmp that others
//     can plant files in, so that is off (test_metal_compiles).
//   - Layers are not waited for one by one, and prefills are cut into pieces of 256 tokens. On a CPU pieces are
//     smaller, and the layers of large models report progress (test_only_a_cpu_waits_for_layers).
//   - The package mlx-metal is installed instead of mlx-cpu (TestRequirements in python_test.go).
//   - The system does not end the process with the runner. It ends with its pipe (TestHostileFrames in worker_test.go).
package mlx
