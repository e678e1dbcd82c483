"""Feeds the golden frames of the protocol to the worker: python golden_test.py FILE

The file has a frame a line: its kind, its head as JSON or in hexadecimal digits, and its raw part in such digits. The
runner's codec reads and writes the same frames. It needs numpy, and no MLX.
"""

import json
import os
import sys
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import frames_test  # noqa: E402
from worker import main, memory, protocol, sequences  # noqa: E402
from worker.protocol import (CANCEL, DONE, ERROR, HELLO, INPUT, LOAD, LOADED, MASKS, MY_HELLO,  # noqa: E402
                             NEW, PROGRESS, SHUTDOWN, STEP, STEPPED, TOKENIZE, TOKENS)

OF_ENGINE = MY_HELLO  # the lowest kind of a frame of the engine


def golden():
    """Returns the frames."""
    frames = []
    with open(sys.argv[1]) as f:
        for line in f:
            kind, rest = line.rstrip("\n").split(" ", 1)
            head, raw = rest.rsplit(" ", 1)
            head = head.encode() if head.startswith("{") else bytes.fromhex(head)
            frames.append((int(kind), head, bytes.fromhex(raw)))
    return frames


class Golden(unittest.TestCase):
    def setUp(self):
        self.frames = golden()
        self.heads = {kind: json.loads(head) for kind, head, _ in self.frames if head.startswith(b"{")}

    def the(self, kind):
        return next(f for f in self.frames if f[0] == kind)

    def test_kinds(self):
        self.assertEqual({kind for kind, _, _ in self.frames},
                         {*range(HELLO, TOKENIZE + 1), SHUTDOWN, *range(OF_ENGINE, TOKENS + 1), ERROR})

    def test_the_runners_frames_come_whole(self):
        for kind, head, raw in self.frames:
            if kind >= OF_ENGINE:
                continue
            p = frames_test.Process([frames_test.packed(kind, head, raw)])
            got = []
            p.answer = lambda p=p, got=got: got.append(p.pipes.requests.get())
            status, answers = p.run()
            if kind in (MASKS, TOKENIZE):  # they are for engines that sample or tokenize
                self.assertEqual((status, [k for k, _ in answers], got), (protocol.BAD_FRAME, [ERROR], []), kind)
            elif kind in (CANCEL, SHUTDOWN):
                self.assertEqual((status, answers, got, p.pipes.canceled.is_set()), (0, [], [], kind == CANCEL), kind)
            else:
                self.assertEqual((status, answers, got), (0, [], [(kind, head, raw)]), kind)

    def test_heads(self):
        seen = set()
        for kind, head in self.heads.items():
            if kind < OF_ENGINE and kind != TOKENIZE:
                q = main.fields(kind, json.dumps(head).encode())
                self.assertEqual(q, {**main.DEFAULTS, **head})
                seen |= head.keys()
        self.assertLessEqual(main.DEFAULTS.keys(), seen, "the runner does not send all fields that the worker reads")

    def test_reserved_memory_is_read(self):
        mx = types.SimpleNamespace(gpu=0, default_device=lambda: 1, device_info=dict, set_memory_limit=lambda _: None,
                                   set_cache_limit=lambda _: None)
        q = main.fields(LOAD, self.the(LOAD)[1])
        without = memory.Memory(mx, 0, {**q, "others": [], "reserved": {}}).limit
        self.assertEqual(memory.Memory(mx, 0, q).limit, without - 5 - 30 - 20)

    def test_step(self):
        _, head, raw = self.the(STEP)
        first, second = INPUT.iter_unpack(head[4:])
        self.assertEqual(first, (1, 5, 2, 1, 2, 2, 1, protocol.SAMPLE | protocol.MASK, 0x0102030405060708,
                                 0.5, 40, 0.25, 0.125, 0.75, 1.5, -1, 2, 2, -1))
        self.assertEqual(second[:8], (3, 0, 1, 0, 0, 0, 0, protocol.LOGITS | protocol.HIDDEN))
        p = frames_test.Process([])
        p.load({"path": "m"})
        p.share({"rows": 16})
        s, steps = p.engine.sequences, p.engine.steps
        for number, length in (1, 5), (3, 0):
            s.by_number[number] = sequences.Sequence([frames_test.KVCache(length)])
            s.by_number[number].length = length
        got = steps.decode(head, raw)
        self.assertEqual([(x[0], x[1].tolist(), x[2]) for x in got],
                         [(s.by_number[1], [10, 11], [0, 1]), (s.by_number[3], [1], [0])])
        answer, sums = self.written(p, lambda: steps.step(head, raw))
        stepped = self.the(STEPPED)[1]  # its second output has no token, as all of the worker's
        self.assertEqual((len(answer), bytes(answer[:4])), (len(stepped), stepped[:4]))
        self.assertEqual([bytes(answer[8:24]), bytes(answer[24:])], [stepped[24:]] * 2)
        self.assertEqual(len(sums), 3 * 8)

    def test_the_workers_frames_have_the_same_bytes(self):
        for kind, head, raw in self.frames:
            if kind >= OF_ENGINE:
                p = frames_test.Process([])
                sent = json.loads(head) if head.startswith(b"{") else head
                self.written(p, lambda p=p, kind=kind, sent=sent, raw=raw: p.pipes.send(kind, sent, raw))
                self.assertEqual(bytes(p.out), frames_test.packed(kind, head, raw))

    def written(self, p, send):
        """Calls a function that writes frames, and returns its result."""
        protocol.os = types.SimpleNamespace(write=p.os_write, _exit=p.os_exit)
        try:
            return send()
        finally:
            protocol.os = os

    def test_the_workers_heads_have_the_same_fields(self):
        p = frames_test.Process([])
        e = p.engine
        _, hello = main.carry_out(e, HELLO, self.the(HELLO)[1], b"")
        self.assertLessEqual(hello.keys(), self.heads[MY_HELLO].keys())
        self.written(p, lambda: e.progress.worked(9))
        self.assertEqual(bytes(p.out), frames_test.packed(*self.the(PROGRESS)))
        self.assertEqual(protocol.Refused("cache_full", "cache is full", 2).head, self.heads[ERROR])
        p.load({"path": "m"})
        e.sequences.new(main.fields(NEW, self.the(NEW)[1]))
        self.assertEqual(e.sequences.truncate({"sequence": 2, "length": 0}).keys(), self.heads[DONE].keys())
        e.options.model = {"name": "m"}
        e.memory = types.SimpleNamespace(device="CPU", gpu=False, limit=1)
        e.model = mock_model()
        e.sizes = types.SimpleNamespace(context=8, trained=8, cells=8, reason="", sequences=2, batch=4)
        loaded = e.loaded()
        want = self.heads[LOADED]
        self.assertEqual(loaded.keys(), want.keys())
        self.assertLessEqual(loaded["info"].keys(), want["info"].keys())
        self.assertEqual(loaded["info"]["memory"].keys(), want["info"]["memory"].keys())
        self.assertEqual(loaded["vocabulary"].keys(), want["vocabulary"].keys())


def mock_model():
    """Returns what Engine.loaded asks a model for."""
    return types.SimpleNamespace(config={}, parameters=1, bytes=1, layers=lambda: [1], embeddings=True, hidden_width=1,
                                 exact=True, slow=True, token_bytes=1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
