// Package plan decides how an engine loads a model: whether it can run the file at all, and the context, the cache, the
// layers on GPUs and the threads, by the file's header and the memory of the machine. It computes nothing and opens
// nothing but headers, so it needs no C; package llamacpp carries a plan out.
//
// Each rule about a header was added for a file that ended the process, because the engine trusts what it reads.
package plan
