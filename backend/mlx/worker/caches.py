"""The caches of one sequence.

A sequence has a list of caches, one for each layer, of mlx-lm's classes. Some can always be shortened. Others forget
tokens or mix them, so copies of them are kept at the ends of prefills. Copies never change.
"""

import copy

KEPT = 8  # copies of one sequence
BACK = 64  # tokens by which a copy of a window can be shortened


def always_trims(c):
    inner = getattr(c, "caches", None)
    if inner is not None:
        return all(always_trims(x) for x in inner)
    return type(c).__name__ in ("KVCache", "QuantizedKVCache", "ConcatenateKVCache")


def in_order(c):
    """Reports whether c is a window whose entries are in the order of their tokens."""
    return (type(c).__name__ == "RotatingKVCache" and c.keep == 0 and c.keys is not None
            and c._idx == c.keys.shape[2])


def cut(c, entries, offset):
    """Makes a window that is in order end at entries and at a length."""
    c.keys, c.values = c.keys[..., :entries, :], c.values[..., :entries, :]
    c._idx, c.offset = entries, offset


class Copies:
    """The layers of a sequence at one length that cannot always be shortened. They never change."""

    def __init__(self, mx, caches, length):
        self.length, self.layers = length, {}
        for i, c in enumerate(caches):
            if always_trims(c):
                continue
            c = copy.deepcopy(c)
            if in_order(c) and c.keys.shape[2] > c.max_size + BACK:
                c.keys = mx.contiguous(c.keys[..., -(c.max_size + BACK):, :])
                c.values = mx.contiguous(c.values[..., -(c.max_size + BACK):, :])
                c._idx = c.keys.shape[2]
                mx.eval(c.keys, c.values)
            self.layers[i] = c
        self.least = max((self.reach(c) for c in self.layers.values()), default=0)

    def reach(self, c):
        """Returns the smallest length that a layer can be shortened to."""
        if not in_order(c):
            return self.length
        entries = c.keys.shape[2]
        if entries >= self.length:
            return 1
        return self.length - max(0, entries - c.max_size)

    def at(self, length):
        """Returns new layers with a length from least to the copies' own."""
        back, layers = self.length - length, {}
        for i, c in self.layers.items():
            c = copy.deepcopy(c)
            if back:
                cut(c, c.keys.shape[2] - back, length)
            layers[i] = c
        return layers


class Sequence:
    """The tokens of a sequence, as caches."""

    def __init__(self, caches):
        self.caches = caches  # None while a batch has them
        self.length = 0
        self.copies = []  # by length

    def keep(self, copies):
        """Keeps copies. Of too many, those go that leave the smallest gap, and never the newest."""
        self.copies = [c for c in self.copies if c.length < copies.length] + [copies]
        if len(self.copies) > KEPT:
            at = [0] + [c.length for c in self.copies]
            gaps = [at[i + 2] - at[i] for i in range(len(self.copies) - 1)]
            del self.copies[gaps.index(min(gaps))]

    def go_back(self, length, copies):
        """Makes the sequence shorter. Layers that copies have are taken from them; None has no layers."""
        restored = copies.at(length) if copies else {}
        for i, c in enumerate(self.caches):
            if i in restored:
                self.caches[i] = restored[i]
            else:
                c.trim(self.length - length)
        self.length = length
