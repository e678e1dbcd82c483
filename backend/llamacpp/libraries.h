// Libraries, loaded at run time: the devices' for the compiled-in engine, and whole engines.
#ifndef RUNNER_LIBRARIES_H
#define RUNNER_LIBRARIES_H

#include "shim.h"

#ifdef __cplusplus
extern "C" {
#endif

// runner_load_library loads the library at path, which depends on the engine's base library at base, and returns
// the registry of its devices. On failure it returns NULL and writes the reason to error, which has size bytes.
ggml_backend_reg_t runner_load_library(const char * base, const char * path, char * error, size_t size);

// library_open opens a library for good. A name without a slash is looked for where the system's libraries are. NULL
// on failure.
void * library_open(const char * path, struct shim_error * err);

// library_score returns how well this processor can use the library of a device: 0 if not at all, 1 if it does not say,
// and -1 with a reason if it cannot be opened.
int library_score(const char * path, struct shim_error * err);

// engine_version returns llama_version() of a libllama, or NULL if it has none.
const char * engine_version(void * llama);

// engine_architecture returns the name of the i-th architecture of a libllama. NULL if there are no more, or if the
// library does not list them.
const char * engine_architecture(void * llama, int i);

// engine_open makes the engine of a libllama of version 0.5 or 0.6, with its log and assertion handlers set. NULL if
// a function is missing; err then names it.
struct shim_engine * engine_open(void * llama, struct shim_error * err);

// engine_load adds a device's library. NULL in the name of its registry means failure.
const char * engine_load(const struct shim_engine * e, const char * path, struct shim_error * err);

// engine_start completes an engine after its device libraries were loaded. Returns false if none is for the processor.
bool engine_start(struct shim_engine * e, struct shim_error * err);

#ifdef __cplusplus
}
#endif

#endif
