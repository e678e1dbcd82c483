// How long the caller of a team computes without helpers after it waited for one that lost its processor.
//
// A rest is as long as the wait if helpers were of use before. If not, it is a multiple of the wait: twice the multiple
// of the rest before, but no longer than a second. So a system thread that runs once in a while costs little. Beside a
// program that never stops the caller hardly waits, unless single waits take a tenth of a second and more.
//
// Helpers were of use if the caller could have had them for at least twice as long as it then waited. That is where a
// helper that makes it 1.5 times as fast gains as much as the wait costs, because the caller does nothing meanwhile.
#ifndef RUNNER_TEAM_REST_H
#define RUNNER_TEAM_REST_H

#include <algorithm>
#include <chrono>

namespace team {

// rests is the rests of one caller.
class rests {
  public:
    using clock = std::chrono::steady_clock;

    static constexpr clock::duration longest = std::chrono::seconds(1);

    // waited begins a rest, after a wait that began and ended at these times.
    void waited(clock::time_point began, clock::time_point ended) {
        const clock::duration wait = ended - began, helped = began - until;
        multiple = helped >= 2 * wait ? 1 : 2 * std::min(multiple, most);
        until = ended + std::min<clock::duration>(multiple * wait, longest);
    }

    // resting reports whether the caller rests. now is only called if it ever did.
    template <typename F> bool resting(F now) const { return until != clock::time_point{} && now() < until; }

  private:
    static constexpr int most = 1 << 14; // of the shortest waits, this many are longer than longest

    clock::time_point until{};
    int               multiple = 1; // of the last rest
};

} // namespace team

#endif
