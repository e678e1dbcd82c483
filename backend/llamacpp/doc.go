// Package llamacpp runs GGUF models in this process with llama.cpp. Only it and its kernels use cgo.
//
// The compiled-in engine's C++ comes from the Go module github.com/ollama/ollama; its packages are imported only to be
// linked. Package capi declares the functions used, and shim.cpp turns exceptions and assertions into errors. Before
// the engine opens a file, package gguf reads its header, and package plan checks everything that the engine would
// trust and decides the sizes.
//
// [OpenFolder] opens a newer llama.cpp from a folder of shared libraries, which package enginefolder has checked. All
// engines run through the same code: an engine is a table of functions, and only the layout of its parameters depends
// on its version. The runner's own kernels (package kernels), their helper threads and caches that are cleared late are
// the compiled-in engine's alone. An engine from libraries has the kernels that its release chose; [Engine.System]
// names them.
//
// All sequences share one cache, so a fork costs no memory for the common prefix. A step is one forward pass of the
// engine. Sampling is done in Go on the engine's own logits, without a copy. A step allocates no Go memory.
//
// Package backend has the rules for goroutines and errors. The engine logs nothing unless [SetLogger] was called.
package llamacpp
