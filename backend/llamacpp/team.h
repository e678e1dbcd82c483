// A team of threads that help one that computes, where the engine's own threads would do harm. Those wait for one another after
// every operation, so an operation takes as long as its slowest thread: on a machine with other work, when a thread is not running,
// a time slice instead of microseconds. Here the caller never waits for a helper to come. It takes pieces, a share of what is left at a
// time, helpers that happen to run take some too, and all that it ever waits for is what a helper has taken.
#ifndef RUNNER_TEAM_H
#define RUNNER_TEAM_H

#include <cstdint>

namespace team {

// grow makes sure that there are at least this many helpers, at most 64. They sleep while nothing is asked of them and live as long
// as the process.
void grow(int helpers);

// run calls f(data, i) once for every i from 0 to pieces-1, on this thread and on helpers, and returns when all have returned. It
// computes alone while another thread uses the team, and for a while after it had to wait long for a helper. work is how much all pieces have to do, in
// products of two numbers: helpers that sleep are woken only for a lot, and stay awake the longer the more there was; those that are awake take part in any case.
void run(int64_t pieces, int64_t work, void (*f)(void * data, int64_t piece), void * data);

} // namespace team

#endif
