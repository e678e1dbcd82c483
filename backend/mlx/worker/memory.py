"""The limit of memory, and the sizes that fit into it.

The limits of MLX are set before anything is loaded. MLX may go past its limit within one computation, so check is
called after each. A worker over its limit ends.

If the user chose the limit, Linux enforces one above it. That one also holds within a computation, and for what Python
takes.
"""

import os
import resource
import sys

from .protocol import LoadFailed


class Memory:
    """What MLX computes on, and limit: how many bytes it may use."""

    def __init__(self, mx, most, q):
        """Sets MLX's limits. most is the user's limit or 0, and q the load request."""
        self.mx = mx
        self.gpu = mx.default_device() == mx.gpu
        info = mx.device_info()
        self.device = str(info.get("device_name", "GPU")) if self.gpu else "CPU"
        recommended = int(info.get("max_recommended_working_set_size", 0))
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        room = recommended if self.gpu and recommended else physical * 3 // 4
        reserved = q.get("reserved") or {}
        if taken := reserved.get("mapped", 0) + reserved.get("private", 0):
            room -= taken
            self.limit = min(most or room, room)
        else:
            self.limit = most or room
        self.limit = max(self.limit - sum(q.get("others") or []), 1 << 20)
        mx.set_memory_limit(self.limit)
        mx.set_cache_limit(min(self.limit // 8, 2 << 30))
        if self.gpu and recommended:
            mx.set_wired_limit(min(self.limit, recommended))
        if most and not self.gpu and sys.platform == "linux":
            self.backstop()

    def backstop(self):
        """Limits the private memory of the process, in which a CPU's arrays are. The kernel then gives none above it.

        Python and numpy raise MemoryError. MLX 0.32.4 does not look at what malloc returns and ends by SIGSEGV, so the
        runner sees a crash and cannot say why. A GPU's memory does not count, and macOS does not enforce this limit.
        """
        room = max(self.limit // 4, 256 << 20)  # for copies of caches within a step, and for Python
        most = private() + self.limit + room
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))

    def check(self):
        mx = self.mx
        if mx.get_active_memory() + mx.get_cache_memory() <= self.limit:
            return
        mx.clear_cache()
        if mx.get_active_memory() > self.limit:
            raise MemoryError(f"MLX uses {mx.get_active_memory() >> 20} MiB, and its limit is {self.limit >> 20} MiB")

    def has_room(self, size):
        """Reports whether size more bytes are within the limit."""
        return self.mx.get_active_memory() + size <= self.limit


def private():
    """Returns the bytes of the process that RLIMIT_DATA limits: its own code has them before a model is loaded."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("VmData:"))


class Sizes:
    """How much the runner may ask for: sequences, tokens of a sequence (context), of all (cells), of a step (batch)."""

    def __init__(self, memory, token_bytes, trained, q):
        """Decides the sizes. Half of the free memory stays free for merging batches."""
        self.trained = trained
        self.sequences = q.get("sequences") or 4
        self.batch = q.get("batch") or 512
        free = memory.limit - memory.mx.get_active_memory() - memory.limit // 16
        room = max(0, free // 2 // token_bytes)
        context = q.get("context") or 0
        self.reason = "as requested" if context else "as trained"
        if not context:
            context = min(trained, room)
            if context < trained:
                self.reason = f"{room} tokens fit into memory"
        if context < 1 or context > room:
            context = context or trained
            raise LoadFailed("too_big", f"a context of {context} tokens takes {context * token_bytes >> 20} MiB, "
                             f"and there is room for {room} tokens",
                             "choose a smaller context size or a smaller model")
        self.context = context
        self.cells = q.get("cache_tokens") or max(context, min(context * self.sequences, room))
