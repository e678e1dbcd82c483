"""The open sequences, and the batch that some of them are in.

Sequences that decode together have merged caches of mlx-lm. A change of the members copies whole caches, so the caches
of members that stay are copied as rarely as possible.
"""

import copy

from .caches import Copies, Sequence, always_trims
from .protocol import BadFrame, Refused


def extends(c):
    """Reports whether a batch's caches can get more rows. Of a list, all must."""
    return all(extends(x) for x in getattr(c, "caches", [])) and hasattr(type(c), "extend")


class Batch:
    """Sequences that decode together, with the merged caches of mlx-lm."""

    def __init__(self, mx, members, caches):
        self.mx = mx
        self.members = members  # by row; None for one that has left or was freed
        self.caches = caches

    @staticmethod
    def merged(sequences):
        layers = zip(*(s.caches for s in sequences))
        return [type(layer[0]).merge(list(layer)) for layer in layers]

    def extract(self, i):
        """Returns copies of a row. They are made at once, because until then they would keep the whole batch."""
        caches = [c.extract(i) for c in self.caches]
        self.mx.eval([c.state for c in caches])
        return caches

    def drop(self):
        """Takes the rows without a member out of the caches."""
        stay = [i for i, m in enumerate(self.members) if m is not None]
        if len(stay) < len(self.members):
            for c in self.caches:
                c.filter(self.mx.array(stay))
            self.members = [self.members[i] for i in stay]

    def add(self, sequences):
        """Adds rows. The rows that are there are copied once."""
        for c, new in zip(self.caches, Batch.merged(sequences)):
            c.extend(new)
        self.members += sequences


class Sequences:
    """The open sequences by number. At most sizes.sequences are open, with at most sizes.cells tokens."""

    def __init__(self, mx, model, sizes):
        self.mx, self.model, self.sizes = mx, model, sizes
        self.by_number = {}
        self.batch = None

    def used(self):
        """Returns the number of tokens of all sequences."""
        return sum(s.length for s in self.by_number.values())

    def open(self, number):
        s = self.by_number.get(number)
        if s is None:
            raise BadFrame(f"there is no sequence {number}")
        return s

    def unused(self, number):
        if number >= self.sizes.sequences or number in self.by_number:
            raise BadFrame(f"sequence {number} cannot be made")

    def new(self, q):
        self.unused(q["sequence"])
        self.by_number[q["sequence"]] = Sequence(self.model.new_caches())
        return {}

    def fork(self, q):
        self.unused(q["sequence"])
        s = self.open(q["from"])
        if self.used() + s.length > self.sizes.cells:
            raise Refused("cache_full",
                          f"a fork of {s.length} tokens does not fit into the cache of {self.sizes.cells}")
        f = Sequence(None)
        if s.caches is None:
            f.caches = self.batch.extract(self.batch.members.index(s))
        else:
            f.caches = copy.deepcopy(s.caches)
        f.length, f.copies = s.length, list(s.copies)
        self.by_number[q["sequence"]] = f
        return {}

    def free(self, q):
        s = self.open(q["sequence"])
        del self.by_number[q["sequence"]]
        if s.caches is None:  # its row goes when the batch is used again
            self.batch.members[self.batch.members.index(s)] = None
            if not any(self.batch.members):
                self.batch = None
        return {}

    def truncate(self, q):
        s, n = self.open(q["sequence"]), q["length"]
        if n < s.length:
            self.leave([s])
            self.shorten(s, n)
        return {"kept": s.length}

    def shorten(self, s, n):
        """Makes a sequence at most n tokens long."""
        best = None
        if not all(always_trims(c) or c.is_trimmable() for c in s.caches):
            fit = [c for c in s.copies if c.least <= min(n, c.length)]
            best = max(fit, key=lambda c: min(n, c.length), default=None)
            n = min(n, best.length) if best else 0
        if n == 0:
            s.caches, s.length, s.copies = self.model.new_caches(), 0, []
            return
        s.go_back(n, best)
        s.copies = [c for c in s.copies if c.length < n]
        if best:
            self.keep(s)

    def keep(self, s):
        """Keeps copies of a sequence as it is now."""
        s.keep(Copies(self.mx, s.caches, s.length))

    def undo(self, s, length, copies):
        """Makes a sequence as it was before a step that was canceled."""
        if length == 0:
            s.caches, s.length = self.model.new_caches(), 0
        else:
            s.go_back(length, copies)

    def leave(self, sequences):
        """Takes sequences out of the batch. Their rows go when the batch is used again."""
        b = self.batch
        if b is None:
            return
        for i, m in enumerate(b.members):
            if m is not None and m in sequences:
                m.caches, b.members[i] = b.extract(i), None
        if not any(b.members):
            self.batch = None

    def join(self, sequences):
        """Makes a batch of exactly these sequences."""
        b = self.batch
        if b is not None and len(b.members) == len(sequences) and all(m in sequences for m in b.members):
            return
        if b is not None:
            self.leave([m for m in b.members if m not in sequences])
        come = [s for s in sequences if s.caches is not None]
        if self.batch is not None and come and not all(extends(c) for c in b.caches):
            self.leave(sequences)
            come = list(sequences)
        if self.batch is None:
            self.batch = Batch(self.mx, come, Batch.merged(come))
        else:
            b.drop()
            if come:
                b.add(come)
        for s in come:
            s.caches = None
