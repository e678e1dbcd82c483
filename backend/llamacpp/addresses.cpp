// Ends the program with a message if the limit of its address space leaves Go no room to start.
//
// Go reserves more than a gigabyte of addresses at the start. If it gets too few, it ends the program with a dump of
// its own state, or goes on with a table at the wrong address. So the check runs before Go and before other
// initializers.

#if defined(__linux__)

#include <cstdio>
#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace {

__attribute__((constructor(101))) void check() {
    rlimit set;
    if (getrlimit(RLIMIT_AS, &set) != 0 || set.rlim_cur == RLIM_INFINITY) {
        return;
    }
    cpu_set_t allowed;
    const int processors = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? CPU_COUNT(&allowed) : 1;
    // A small model fits, too. Each processor has the stacks of two threads.
    const unsigned long long least = (1632 + 16 * processors) << 10, has = set.rlim_cur >> 10;
    if (has < least) {
        dprintf(STDERR_FILENO, "runner: ulimit -v allows %llu KiB of addresses, and the program needs %llu; "
            "use ulimit -v %llu, more for a large model, or unlimited\n", has, least, least);
        _exit(1);
    }
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 1); // every further one reserves 64 MiB of addresses
#endif
}

} // namespace

#endif
