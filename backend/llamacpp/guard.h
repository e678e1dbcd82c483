// The guard of calls into an engine.
#ifndef RUNNER_GUARD_H
#define RUNNER_GUARD_H

#include "shim.h"

#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace guard {

// guards counts the guarded calls that this thread is in. first_error is the first error that the engine logged in
// the innermost.
extern thread_local int         guards;
extern thread_local std::string first_error;

inline void set(struct shim_error * err, const char * text) {
    std::snprintf(err->text, sizeof err->text, "%s", text);
    for (size_t n = std::strlen(err->text); n > 0 && err->text[n - 1] == '\n'; n--) {
        err->text[n - 1] = 0;
    }
}

// guarded runs f and returns its result, or failed if it threw or asserted.
template <typename T, typename F> T guarded(struct shim_error * err, T failed, F f) {
    struct scope {
        scope() { guards++; }
        ~scope() { guards--; }
    } inside;
    first_error.clear();
    err->text[0] = 0;
    try {
        T result = f();
        set(err, first_error.c_str());
        return result;
    } catch (const std::bad_alloc &) {
        set(err, "out of memory");
    } catch (const std::exception & e) {
        set(err, e.what());
    } catch (...) {
        set(err, "unknown exception");
    }
    return failed;
}

} // namespace guard

#endif
