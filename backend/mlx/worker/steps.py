"""A step: one forward pass for inputs of several sequences.

Sequences that get one token are fed together as a batch, and the others one after another, in pieces. After an error
every sequence is as before the step.
"""

import mmap
import os
import struct
import time

from .caches import Copies
from .protocol import HIDDEN, INPUT, LOGITS, SAMPLE, SHARED, BadFrame, Canceled, Refused


class Rows:
    """The file for the rows of logits, which the runner maps too."""

    def __init__(self, np, rows, model):
        if not 0 < rows <= 1 << 16:
            raise BadFrame(f"{rows} rows of logits")
        size = rows * model.vocabulary * 4
        if os.fstat(SHARED).st_size < size:
            raise BadFrame(f"the shared file has no room for {rows} rows of logits")
        self.np, self.width = np, model.width
        self.map = mmap.mmap(SHARED, size)
        self.rows = np.frombuffer(self.map, np.float32).reshape(rows, model.vocabulary)

    def write(self, row, logits):
        """Writes a row of logits. Tokens that the model does not have get minus infinity."""
        to = self.rows[row]
        to[:self.width] = logits
        to[self.width:] = -self.np.inf


class Steps:
    """Carries out steps."""

    def __init__(self, lib, memory, model, sizes, sequences, pipes, progress):
        self.mx, self.np, self.memory, self.model, self.sizes = lib.mx, lib.np, memory, model, sizes
        self.sequences, self.pipes, self.progress = sequences, pipes, progress
        self.rows = None

    def share(self, q):
        self.rows = Rows(self.np, q["rows"], self.model)
        return {}

    def decode(self, head, raw):
        """Returns the inputs of a step as (sequence, tokens, rows, flags). Nothing has changed after an error."""
        if self.rows is None or len(head) < 4:
            raise BadFrame("a step came too early or has no head")
        (n,) = struct.unpack_from("<I", head)
        if n > self.sizes.sequences or len(head) != 4 + n * INPUT.size:
            raise BadFrame(f"a step of {n} inputs in {len(head)} bytes")
        fields = [INPUT.unpack_from(head, 4 + i * INPUT.size) for i in range(n)]
        if sum(4 * (f[2] + f[3] + f[5]) + 8 * f[6] for f in fields) != len(raw):
            raise BadFrame(f"a step with {len(raw)} bytes of tokens")
        inputs, at, total, rows, seen = [], 0, 0, 0, set()
        for i, f in enumerate(fields):
            number, count, targets, flags = f[0], f[2], f[3], f[7]
            tokens = self.np.frombuffer(raw, self.np.int32, count, at)
            at += 4 * (count + targets + f[5]) + 8 * f[6]
            if number in seen:
                raise Refused("repeated", "sequence appears twice in a step", i)
            seen.add(number)
            s = self.checked(i, f, tokens)
            wanted = list(range(targets)) + ([count - 1] if flags & (SAMPLE | LOGITS) else [])
            total, rows = total + count, rows + len(wanted)
            inputs.append((s, tokens, wanted, flags))
        if total > self.sizes.batch or rows > len(self.rows.rows):
            raise Refused("batch_too_large", f"{total} tokens and {rows} rows of logits in a step")
        if self.sequences.used() + total > self.sizes.cells:
            raise Refused("cache_full", f"cache is full: {self.sequences.used()} of {self.sizes.cells} tokens are used")
        if not self.memory.has_room(total * self.model.token_bytes):
            raise Refused("cache_full", "the memory that may be used is full")
        return inputs

    def checked(self, i, f, tokens):
        """Checks the fields of an input and its tokens. It returns the sequence."""
        number, length, count, targets, flags = f[0], f[1], f[2], f[3], f[7]
        s = self.sequences.by_number.get(number)
        if s is None:
            raise Refused("closed", f"there is no sequence {number}", i)
        if count == 0:
            raise Refused("no_tokens", "input has no tokens", i)
        if s.length != length:
            raise Refused("failed", f"the sequence has {s.length} tokens, not {length}", i)
        if targets > count or flags & HIDDEN and not self.model.embeddings:
            raise Refused("failed", "the input asks for what there is not", i)
        if int(tokens.min()) < 0 or int(tokens.max()) >= self.model.vocabulary:
            raise Refused("bad_token", "token is outside the vocabulary", i)
        if int(tokens.max()) >= self.model.width:
            raise Refused("bad_token", f"the model has no token {int(tokens.max())}", i)
        if length + count > self.sizes.context:
            raise Refused("context_full", f"{length + count} tokens, at most {self.sizes.context}", i)
        return s

    def step(self, head, raw):
        began = time.perf_counter()
        inputs = self.decode(head, raw)
        starts, at = [], 0
        for s, tokens, wanted, flags in inputs:
            starts.append(at)
            at += len(wanted)
        alone = [i for i, (s, tokens, _, _) in enumerate(inputs)
                 if len(tokens) > 1 or s.length == 0 or not self.model.batches]
        together = [i for i in range(len(inputs)) if i not in alone]
        alone.sort(key=lambda i: len(inputs[i][1]) == 1)  # a single token cannot be taken back, so it comes last
        batch = self.sequences.batch
        if len(together) == 1 and (batch is None or inputs[together[0]][0] not in batch.members):
            alone, together = alone + together, []
        hidden = {}
        self.sequences.leave([inputs[i][0] for i in alone])
        undo = []
        try:
            for i in alone:
                self.prefill(inputs[i], starts[i], hidden, i, undo)
        except Canceled:
            for s, length, copies in undo:
                self.sequences.undo(s, length, copies)
            raise Refused("canceled", "canceled") from None
        if together:
            self.decode_together([inputs[i] for i in together], [starts[i] for i in together], hidden, together)
        for i in alone:
            s, tokens = inputs[i][0], inputs[i][1]
            if len(tokens) > 1 and not self.model.exact:
                self.sequences.keep(s)
        self.memory.check()
        out = bytearray(struct.pack("<II", len(inputs), int(1e6 * (time.perf_counter() - began))))
        for _ in inputs:
            out += struct.pack("<ifII", -1, 0.0, 0, 0)
        sums = b"".join(hidden[i].tobytes() for i, x in enumerate(inputs) if x[3] & HIDDEN)
        return out, sums

    def prefill(self, given, start, hidden, index, undo):
        """Feeds the tokens of one sequence in pieces."""
        s, tokens, wanted, flags = given
        mx, model = self.mx, self.model
        if len(tokens) > 1:
            undo.append((s, s.length, Copies(mx, s.caches, s.length) if s.length and not model.exact else None))
        row = start
        for at in range(0, len(tokens), model.piece):
            if self.pipes.canceled.is_set() and len(tokens) > 1:
                raise Canceled
            part = tokens[at:at + model.piece]
            rows = [w - at for w in wanted if at <= w < at + len(part)]
            logits, total = model.forward(mx.array(part)[None], s.caches, sorted(set(rows)), bool(flags & HIDDEN))
            mx.eval([x for x in (logits, total) if x is not None], [c.state for c in s.caches])
            s.length += len(part)
            if logits is not None:
                place, logits = {r: k for k, r in enumerate(sorted(set(rows)))}, self.np.array(logits, copy=False)
                for r in rows:
                    self.rows.write(row, logits[0, place[r]])
                    row += 1
            if total is not None:
                add = self.np.array(total[0]).astype(self.np.float64)
                hidden[index] = hidden[index] + add if index in hidden else add
            self.memory.check()
            self.progress.worked(len(part))

    def decode_together(self, given, starts, hidden, indexes):
        """Feeds one token to each of several sequences."""
        mx = self.mx
        self.sequences.join([g[0] for g in given])
        batch = self.sequences.batch
        place = [batch.members.index(g[0]) for g in given]
        tokens = [0] * len(given)
        for p, g in zip(place, given):
            tokens[p] = int(g[1][0])
        want = any(g[2] for g in given)
        logits, total = self.model.forward(mx.array(tokens)[:, None], batch.caches, [0] if want else [],
                                           any(g[3] & HIDDEN for g in given))
        mx.eval([x for x in (logits, total) if x is not None], [c.state for c in batch.caches])
        if want:
            logits = self.np.array(logits, copy=False)  # once, because each use of MLX takes as long as copying a row
        for p, g, start, i in zip(place, given, starts, indexes):
            g[0].length += 1
            for k in range(len(g[2])):
                self.rows.write(start + k, logits[p, 0])
            if g[3] & HIDDEN:
                hidden[i] = self.np.array(total[p]).astype(self.np.float64)
        self.progress.worked(len(given))
