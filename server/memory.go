package server

import (
	"os"
	"runtime/debug"
	gometrics "runtime/metrics"
)

// worthFreeing is how many bytes more than after the last time the server must hold to give memory back to the system.
const worthFreeing = 64 << 20

// memoryKeeper limits the memory that Go manages to what the machine, its control group and resource limits leave. It
// gives memory back to the system after a peak. Go alone keeps freed memory for minutes, or longer if nothing is
// allocated.
type memoryKeeper struct {
	server *Server
	// settled is what was held after memory was last given back. quiet is the number of checks in a row that found much
	// more than that although requests hold little.
	settled int64
	quiet   int
	// fixed says that the user has set GOMEMLIMIT.
	fixed bool
	// setLimit, giveBack and use are functions of the runtime, except in tests.
	setLimit func(int64) int64
	giveBack func()
	use      func() (held, released int64)
}

func newMemoryKeeper(s *Server) *memoryKeeper {
	return &memoryKeeper{
		server: s, fixed: os.Getenv("GOMEMLIMIT") != "", setLimit: debug.SetMemoryLimit, giveBack: debug.FreeOSMemory,
		use: goMemory,
	}
}

// goMemory returns how much memory Go holds, and how much of its address space it has given back.
func goMemory() (held, released int64) {
	samples := []gometrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	gometrics.Read(samples)
	released = int64(samples[1].Value.Uint64())
	return int64(samples[0].Value.Uint64()) - released, released
}

// look sets the limits, which change as models are loaded and unloaded and other programs take memory. It gives memory
// back if there is much to give.
func (k *memoryKeeper) look() {
	held, released := k.use()
	if room := k.room(held, released); room > 0 {
		if !k.fixed {
			k.setLimit(room)
		} else if limit := k.setLimit(-1); limit < room {
			room = limit
		}
		if cfg := &k.server.cfg; cfg.RequestMemory == 0 {
			k.server.bodies.follow(cfg.MaxBody, room/2)
		}
	}
	more := held - k.settled
	if more < worthFreeing || k.server.bodies.held() > more/4 {
		k.quiet = 0
		return
	}
	if k.quiet++; k.quiet < 2 {
		return
	}
	k.quiet = 0
	k.giveBack()
	k.settled, _ = k.use()
	k.server.log.Debug("memory was given back", "before_bytes", held, "after_bytes", k.settled)
}

// room returns how much memory Go may hold: what it holds now and nine tenths of what is available; 0 if unknown.
func (k *memoryKeeper) room(held, released int64) int64 {
	if k.server.cfg.Memory == nil {
		return 0
	}
	available, addresses := k.server.cfg.Memory()
	if available <= 0 && addresses <= 0 {
		return 0
	}
	if addresses > 0 && addresses <= available {
		available = addresses + released // Go can use released memory again without new addresses
	}
	return held + available/10*9
}
