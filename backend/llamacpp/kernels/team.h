// A team of threads that help the engine's one compute thread, for cases in which the engine's own threads would
// slow it down. Those wait for each other after every operation, so an operation takes as long as its slowest
// thread. On a machine with other work, a thread that is not running then costs a time slice instead of
// microseconds. Here the caller never waits for a helper to start. Each thread takes the pieces of its own share of the
// work and then what is left of the others'. So the caller also does the share of a helper that is not running. It only
// waits for pieces that a helper has taken.
#ifndef RUNNER_TEAM_H
#define RUNNER_TEAM_H

#include <cstdint>

namespace team {

// grow makes sure that there are at least this many helpers, at most 64. They sleep without work and live as long
// as the process.
void grow(int helpers);

// run calls f(data, first, last) for pieces first to last-1, in calls that together have each piece from 0 to pieces-1
// once. It calls on this thread and on helpers, and returns when all calls have returned. It runs alone while another
// thread uses the team, for a while after a long wait for a helper, and if there are more than 2^32 - 1 pieces. work is
// the size of all pieces together, counted in multiplications. Only large work wakes sleeping helpers, and helpers stay
// awake longer after larger work. Helpers that are awake always take part.
void run(int64_t pieces, int64_t work, void (*f)(void * data, int64_t first, int64_t last), void * data);

// woken counts the calls of run, by any thread, that had helpers and whose work was large enough to wake them.
uint32_t woken();

} // namespace team

#endif
