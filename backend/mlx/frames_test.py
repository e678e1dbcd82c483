"""Damaged frames for the worker. It needs numpy, and no MLX.

    python frames_test.py            answers thousands of damaged conversations in this process
    python frames_test.py DIR N      writes N of them to files, for processes

A conversation is a valid one that is damaged in one place. The worker must answer each frame that is not damaged, and
answer or end with an error of the protocol at those that are.
"""

import faulthandler
import json
import os
import random
import struct
import sys
import time
import tracemalloc
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from worker import caches, engine, main, protocol, sequences, steps  # noqa: E402
from worker.protocol import (CANCEL, FORK, FREE, HELLO, INPUT, LOAD, MASKS, NEW, SHARE, SHUTDOWN,  # noqa: E402
                             STEP, TOKENIZE, TRUNCATE)

CONVERSATIONS = 3000 if os.environ.get("RUNNER_LONG") else 1000
VOCABULARY, CONTEXT, CELLS, MOST = 50, 24, 40, 4


class Frames:
    """Makes valid frames at random. It knows the lengths of the open sequences as the worker should."""

    def __init__(self, r):
        self.r = r
        self.lengths = {}

    def opening(self):
        return [(HELLO, b'{"protocol":1}', b""), (LOAD, b'{"path":"m"}', b""), (SHARE, b'{"rows":16}', b"")]

    def change(self, lengths):
        """Notes what the lengths are after a request, which is refused if they do not fit."""
        if sum(lengths.values()) <= CELLS and max(lengths.values()) <= CONTEXT:
            self.lengths = lengths

    def next(self):
        r, free = self.r, [n for n in range(MOST) if n not in self.lengths]
        kind = r.choice([NEW, FORK, TRUNCATE, FREE, CANCEL, STEP, STEP, STEP, STEP])
        if not self.lengths or kind == NEW and free:
            kind, q = NEW, {"sequence": r.choice(free)}
            self.lengths[q["sequence"]] = 0
        elif kind == FORK and free:
            q = {"sequence": r.choice(free), "from": r.choice(list(self.lengths))}
            self.change({**self.lengths, q["sequence"]: self.lengths[q["from"]]})
        elif kind == TRUNCATE:
            n = r.choice(list(self.lengths))
            q = {"sequence": n, "length": r.randint(0, self.lengths[n])}
            self.lengths[n] = q["length"]
        elif kind == FREE:
            q = {"sequence": r.choice(list(self.lengths))}
            del self.lengths[q["sequence"]]
        elif kind == CANCEL:
            return kind, b"", b""
        else:
            return self.step()
        return kind, json.dumps(q).encode(), b""

    def step(self, wrong=None):
        """Returns a step. One field of one input has a wrong value, if one is named, and the rest of the frame fits."""
        r = self.r
        chosen = r.sample(list(self.lengths), r.randint(1, len(self.lengths)))
        if wrong == "repeated":
            chosen = chosen[:MOST - 1] + chosen[:1]
        head, raw, lengths = struct.pack("<I", len(chosen)), b"", dict(self.lengths)
        for i, n in enumerate(chosen):
            count, seen, biases = r.choice([1, 1, 1, r.randint(2, 8)]), r.randint(0, 2), r.randint(0, 2)
            targets, length, least, most = r.randint(0, min(2, count)), self.lengths[n], 0, VOCABULARY - 3
            lengths[n] += count
            if i == 0 and wrong:
                n = r.choice([MOST, MOST + 1, 1 << 31]) if wrong == "sequence" else n
                length += r.choice([-1 if length else 1, 1]) if wrong == "length" else 0
                count = {"count": 0, "long": CONTEXT + 1}.get(wrong, count)
                targets = {"count": 0, "targets": count + 1}.get(wrong, targets)
                least, most = {"low": (-5, -1), "high": (VOCABULARY - 2, VOCABULARY + 5)}.get(wrong, (least, most))
            head += INPUT.pack(n, length, count, targets, 1, seen, biases, r.randint(0, 15), 7, 0.8, 40, 0.9,
                               0, 1, 1, 0, 0, 0, -1)
            tokens = [r.randint(least, most) for _ in range(count + targets + seen)]
            raw += struct.pack(f"<{len(tokens)}i", *tokens) + struct.pack("<if", 1, 0.5) * biases
        if not wrong:
            self.change(lengths)
        return STEP, head, raw


WRONG = ["repeated", "sequence", "length", "count", "long", "targets", "low", "high"]


def packed(kind, head, raw):
    return struct.pack("<III", kind, len(head), len(raw)) + head + raw


def value(r, depth=0):
    """Returns random JSON."""
    choices = [None, True, -1, -1, 0, 1, 3, 4, 5, 1 << 31, 1 << 63, 1 << 200, 1.5, 1e308, float("nan"), "", "1",
               "\ud800", "a\0b"]
    if depth < 3:
        choices += [[value(r, depth + 1)], {"sequence": value(r, depth + 1)}]
    return r.choice(choices)


def damaged(r, frames, i):
    """Returns the bytes of frames, of which one is damaged in some way that does not fit its kind at all."""
    kind, head, raw = frames[i]
    how = r.randrange(12)
    if how == 0:  # it ends here
        b = packed(kind, head, raw)
        return [packed(*f) for f in frames[:i]] + [b[:r.randrange(len(b))]]
    if how == 1:  # flipped bits
        b = bytearray(packed(kind, head, raw))
        for _ in range(r.randint(1, 8)):
            b[r.randrange(len(b))] ^= 1 << r.randrange(8)
        changed = bytes(b)
    elif how == 2:  # wrong lengths
        lengths = [r.choice([0, 1, len(head), len(raw), 1 << r.randrange(32), (16 << 20), (512 << 20), (1 << 32) - 1])
                   for _ in "12"]
        changed = struct.pack("<III", kind, *lengths) + head + raw
    elif how in (3, 9) and kind == STEP:  # wrong counts
        b = bytearray(head)
        at = r.choice([0] + [4 + 80 * k + 4 * f for k in range((len(head) - 4) // 80) for f in range(8)])
        struct.pack_into("<I", b, at, r.choice([0, 1, 5, 255, 1 << r.randrange(32), (1 << 32) - 1]))
        changed = packed(kind, bytes(b), raw)
    elif how == 4:  # another kind
        other = r.choice([0, 14, 65, 72, 1 << 31, MASKS, TOKENIZE, CANCEL, SHUTDOWN, *range(1, 14)])
        changed = packed(other, head, raw)
    elif how in (5, 10):  # fields of any type
        q = {"protocol": 1, "path": "m", "rows": 16, "sequence": r.randrange(MOST + 2), "from": r.randrange(MOST)}
        for name in r.sample([*q, "length", "others", "reserved", "context"], r.randint(1, 2)):
            q[name] = value(r)
        changed = packed(r.choice([HELLO, LOAD, SHARE, NEW, FORK, TRUNCATE, FREE]), json.dumps(q).encode(), raw)
    elif how == 6:  # JSON that is no object, or none at all
        text = r.choice([b"[" * 100000, b'{"a":' * 100000, b"1" * 5000, b'{"sequence":' + b"9" * 5000 + b"}", b"{",
                         b"null", b"\xff\xfe{}", b'{"sequence":\xff}', b'{"sequence":1e999}', b"\0" * 40,
                         b'{"sequence":NaN}'])
        changed = packed(kind, text, raw)
    elif how == 7:  # valid frames in another order
        rest = frames[i:]
        r.shuffle(rest)
        return [packed(*f) for f in frames[:i] + rest]
    elif how == 8:  # a token or a field of one
        b = bytearray(raw or b"\0")
        struct.pack_into("<B", b, r.randrange(len(b)), r.randrange(256))
        changed = packed(kind, head, bytes(b))
    else:  # anything
        changed = r.randbytes(r.randint(1, 200))
    return [packed(*f) for f in frames[:i]] + [changed] + [packed(*f) for f in frames[i + 1:]]


def conversation(seed):
    """Returns the frames of a conversation, as bytes, how many are valid before the damage, and whether the one after
    them must be refused."""
    r = random.Random(seed)
    f = Frames(r)
    frames = f.opening()
    frames += [f.next() for _ in range(r.randint(1, 40))]
    if f.lengths and r.randrange(3) == 0:  # a wrong step, and more
        i = len(frames)
        frames += [f.step(r.choice(WRONG)), *(f.next() for _ in range(5))]
        return [packed(*f) for f in frames], i, True
    i = r.randrange(len(frames))
    return damaged(r, frames, i), i, False


class KVCache:
    """A cache for a model that computes nothing. It has the name of one that can always be shortened."""

    def __init__(self, batch, length=0):
        self.batch, self.offset, self.state = batch, length, length

    def trim(self, n):
        self.offset -= n

    @staticmethod
    def merge(all):
        return all[0].batch([c.offset for c in all])


class Merged:
    """The caches of a batch that cannot get more rows."""

    state = 0

    def __init__(self, lengths):
        self.lengths = lengths

    def extract(self, i):
        return KVCache(type(self), self.lengths[i])

    def filter(self, rows):
        self.lengths = [self.lengths[i] for i in rows]


class Extended(Merged):
    """The caches of a batch that can."""

    def extend(self, other):
        self.lengths += other.lengths


class Model:
    """A model that computes nothing."""

    vocabulary, width, piece, token_bytes = VOCABULARY, VOCABULARY - 2, 4, 1
    exact = batches = embeddings = True

    def __init__(self, batch):
        self.batch = batch

    def new_caches(self):
        return [KVCache(self.batch)]

    def forward(self, x, layers, rows, want_sum):
        import numpy as np
        assert 0 <= x.min() and x.max() < self.width, "a token that the model does not have"
        for c in layers:
            if isinstance(c, KVCache):
                c.offset += x.shape[1]
            else:
                c.lengths = [n + 1 for n in c.lengths]
        return (np.zeros((x.shape[0], len(rows), self.width), np.float32) if rows else None,
                np.zeros((x.shape[0], 3), np.float32) if want_sum else None)


class Ended(BaseException):
    """The process would have ended."""


class Process:
    """The worker in this process. It reads some frames. A patient runner waits for each answer."""

    def __init__(self, frames, patient=True, batch=Extended):
        self.frames, self.data, self.read, self.patient, self.batch = frames, b"", 0, patient, batch
        self.out, self.status, self.written = bytearray(), None, []
        self.pipes = protocol.Pipes()
        self.engine = engine.Engine(main.options([]), self.pipes)
        self.engine.load = self.load

    def load(self, q):
        import numpy as np
        if self.engine.model is not None:
            raise protocol.BadFrame("a model is loaded already")
        if q["path"] != "m":
            raise protocol.LoadFailed("missing", "no such folder")
        e = self.engine
        mx = types.SimpleNamespace(array=np.array, eval=lambda *_: None)
        memory = types.SimpleNamespace(has_room=lambda _: True, check=lambda: None)
        sizes = types.SimpleNamespace(sequences=MOST, cells=CELLS, batch=32, context=CONTEXT)
        e.lib, e.model = types.SimpleNamespace(mx=mx, np=np), Model(self.batch)
        e.sequences = sequences.Sequences(mx, e.model, sizes)
        e.steps = steps.Steps(e.lib, memory, e.model, sizes, e.sequences, self.pipes, e.progress)
        e.steps.share = self.share
        return {}

    def share(self, q):
        rows = q["rows"]
        if not 0 < rows <= 16:
            raise protocol.BadFrame(f"{rows} rows of logits")
        self.engine.steps.rows = types.SimpleNamespace(rows=range(rows), write=self.write)
        return {}

    def write(self, row, logits):
        assert logits.shape == (Model.width,)
        self.written.append(row)

    # What the worker uses of the module os.

    def os_read(self, _, n):
        if not self.data:
            while self.patient and not self.pipes.requests.empty():
                self.answer()
            if self.read == len(self.frames):
                return b""
            self.data, self.read = self.frames[self.read], self.read + 1
        part, self.data = self.data[:n], self.data[n:]
        return part

    def os_write(self, _, data):
        if self.status is None:
            self.out += data
        return len(data)

    def os_exit(self, status):
        if self.status is None:
            self.status = status
        raise Ended

    def answer(self):
        """Answers a request. After an error nothing may have changed, and after a step all rows must be written."""
        kind, head, raw = self.pipes.requests.get()
        before, at = self.lengths(), len(self.out)
        self.written.clear()
        main.answer(self.engine, self.pipes, kind, head, raw)
        answered, after = struct.unpack_from("<I", self.out, at)[0], self.lengths()
        assert answered != protocol.ERROR or after == before, f"kind {kind} changed {before} and failed"
        if answered == protocol.STEPPED:
            inputs = INPUT.iter_unpack(head[4:])
            rows = sum(f[3] + bool(f[7] & (protocol.SAMPLE | protocol.LOGITS)) for f in inputs)
            assert sorted(self.written) == list(range(rows)), f"rows {self.written} of {rows} were written"

    def lengths(self):
        """Returns the lengths of the open sequences, which must be possible and those of their caches."""
        s = self.engine.sequences
        lengths = {n: x.length for n, x in s.by_number.items()} if s else {}
        for n, x in (s.by_number.items() if s else ()):
            have = x.caches[0].offset if x.caches else s.batch.caches[0].lengths[s.batch.members.index(x)]
            assert have == x.length and 0 <= n < MOST and have <= CONTEXT, f"sequence {n}: {have} and {x.length} tokens"
        assert sum(lengths.values()) <= CELLS, f"too many tokens: {lengths}"
        return lengths

    def run(self):
        """Runs until the end and returns the exit status, and the kind and head of each frame of the worker."""
        protocol.os = types.SimpleNamespace(read=self.os_read, write=self.os_write, _exit=self.os_exit)
        try:
            self.pipes.listen()
        except Ended:
            pass
        finally:
            protocol.os = os
        got, at = [], 0
        while at < len(self.out):
            kind, head, raw = struct.unpack_from("<III", self.out, at)
            got.append((kind, bytes(self.out[at + 12:at + 12 + head])))
            at += 12 + head + raw
        assert at == len(self.out), "half a frame"
        return self.status, got


def check(seed, ends):
    """Runs a conversation and counts how it ends."""
    frames, valid, refused = conversation(seed)
    status, got = Process(frames, batch=(Extended, Merged)[seed % 2]).run()
    where = f"conversation {seed} of {len(frames)} frames ends with status {status} and {got[-1:]}"
    assert status in (0, protocol.BAD_FRAME), where
    if status:
        kind, head = got[-1]
        assert kind == protocol.ERROR and json.loads(head)["code"] == "broken", where
    answers = [k for k, _ in got if k != protocol.PROGRESS]
    silent = sum(struct.unpack_from("<I", f)[0] == CANCEL for f in frames[:valid])
    assert len(answers) - bool(status) >= valid - silent, where
    assert not refused or answers[valid - silent] == protocol.ERROR and not status, where
    refusals = sum(k == protocol.ERROR for k in answers) - bool(status)
    for name, n in (("frames", len(answers)), ("refused", refusals), ("bad", bool(status)), ("good", not status),
                    ("steps", answers.count(protocol.STEPPED))):
        ends[name] = ends.get(name, 0) + n


def interrupt(r):
    """Runs a conversation in which the runner does not wait. Its second request breaks the protocol."""
    f = Frames(r)
    later = [f.next() for _ in range(10)]
    frames = [packed(*f.opening()[0]), packed(*r.choice([x for x in later if x[0] != CANCEL]))]
    status, got = Process(frames, patient=False).run()
    assert status == protocol.BAD_FRAME and len(got) == 1, f"{frames}: status {status}, {got}"


def announce(r):
    """Announces many bytes and sends few. Memory must not grow by what was announced, which has a limit."""
    tracemalloc.start()
    for _ in range(200):
        head, raw = r.choice([0, 16 << 20, (16 << 20) + 1]), r.choice([4 << 20, 512 << 20, (512 << 20) + 1])
        b = struct.pack("<III", r.choice([HELLO, LOAD, STEP]), head, raw) + r.randbytes(r.choice([0, 10, 1 << 16]))
        status, got = Process([b]).run()
        want = (protocol.BAD_FRAME, 1) if head > 16 << 20 or raw > 512 << 20 else (0, 0)
        assert (status, len(got)) == want, f"{head} and {raw} bytes that do not come: status {status}, {got}"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 << 20, f"the worker took {peak >> 20} MiB for bytes that did not come"


def test():
    import numpy  # noqa: F401, PLC0415: it is not what is measured
    faulthandler.dump_traceback_later(200, exit=True)  # a hang
    main.version = str.upper  # the real one takes most of the time
    announce(random.Random(1))
    began, ends = time.monotonic(), {}
    for seed in range(CONVERSATIONS):
        check(seed, ends)
        if seed % 20 == 0:
            interrupt(random.Random(seed))
    print(f"{CONVERSATIONS} conversations in {time.monotonic() - began:.1f} s: {ends}")
    assert min(ends.values()) > CONVERSATIONS // 10, "hardly anything was tried"


def write(folder, n):
    for seed in range(n):
        with open(os.path.join(folder, f"{seed}.frames"), "wb") as f:
            f.write(b"".join(conversation(seed)[0]))


if __name__ == "__main__":
    if len(sys.argv) > 2:
        write(sys.argv[1], int(sys.argv[2]))
    else:
        test()
