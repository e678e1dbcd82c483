// Libraries for GPUs, which the engine loads at run time.
#ifndef RUNNER_LIBRARIES_H
#define RUNNER_LIBRARIES_H

#include "capi.h"

#ifdef __cplusplus
extern "C" {
#endif

// runner_load_library loads the library at path, which stands on the engine's base library at base, and returns the registry
// of its devices. On failure that is NULL and error, of size bytes, says why.
ggml_backend_reg_t runner_load_library(const char * base, const char * path, char * error, size_t size);

#ifdef __cplusplus
}
#endif

#endif
