// GPU libraries, loaded at run time.
#ifndef RUNNER_LIBRARIES_H
#define RUNNER_LIBRARIES_H

#include "capi.h"

#ifdef __cplusplus
extern "C" {
#endif

// runner_load_library loads the library at path, which depends on the engine's base library at base, and returns
// the registry of its devices. On failure it returns NULL and writes the reason to error, which has size bytes.
ggml_backend_reg_t runner_load_library(const char * base, const char * path, char * error, size_t size);

#ifdef __cplusplus
}
#endif

#endif
