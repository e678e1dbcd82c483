// Package llamacpp runs GGUF models in this process with llama.cpp. It is the only package of the project that uses
// cgo.
//
// The engine's C++ is built from the Go module github.com/ollama/ollama, whose packages are imported for effect; capi.h
// declares what is used of it and shim.cpp turns its exceptions and assertions into errors. Before the engine sees a
// file, package gguf has read its header and this package has checked everything that the engine would trust.
//
// All sequences share one unified cache, so a fork costs no memory for the common prefix. A step is one forward pass of
// the engine, and sampling is done in Go on the engine's own logits, without a copy. A step allocates no Go memory.
//
// Goroutines and errors are as package backend says. The engine is silent unless [SetLogger] was called.
package llamacpp
