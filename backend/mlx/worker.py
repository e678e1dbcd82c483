"""The MLX engine of runner: a process that speaks docs/engine-protocol.md on descriptors 3 and 4.

It does not sample. It writes rows of logits to the file at descriptor 5, and the runner chooses tokens.

One thread reads descriptor 3. It sees cancellations and the end of the runner, also during a step. The main thread does
everything else. MLX is used by the main thread alone, because its streams belong to a thread.

Every error that is not the runner's ends the process: the state of a model after a failed computation is not known, and
the runner starts a new process and feeds the sequences again.
"""

import argparse
import copy
import importlib
import importlib.metadata
import json
import mmap
import os
import queue
import resource
import struct
import sys
import threading
import time

IN, OUT, SHARED = 3, 4, 5

HELLO, LOAD, SHARE, NEW, FORK, TRUNCATE, FREE, STEP, MASKS, CANCEL, TOKENIZE, STATS, SHUTDOWN = range(1, 14)
MY_HELLO, LOADED, PROGRESS, DONE, STEPPED, TOKENS, MY_STATS, ERROR = range(65, 73)

VERSION = 1
MAX_HEAD, MAX_RAW = 16 << 20, 512 << 20
INPUT = struct.Struct("<8IQfI6fIi")
SAMPLE, MASK, LOGITS, HIDDEN = 1, 2, 4, 8

# Exit statuses. 0 means that the runner is gone or asked for the end.
BROKEN, BAD_FRAME = 3, 4


class BadFrame(Exception):
    """The runner broke the protocol."""


class Refused(Exception):
    """A request that cannot be carried out. Nothing has changed."""

    def __init__(self, code, text, index=None):
        super().__init__(text)
        self.head = {"code": code, "text": text}
        if index is not None:
            self.head["input"] = index


class LoadFailed(Refused):
    """The model cannot be loaded."""

    def __init__(self, reason, detail, advice=""):
        super().__init__("load", detail)
        self.head.update(reason=reason, detail=detail, advice=advice)


class Canceled(Exception):
    """The runner canceled the step."""


# ---------------------------------------------------------------------------------------------------------- frames


def read(n):
    """Returns n bytes of descriptor 3. Memory grows with the bytes that come. The process ends with the file."""
    data = bytearray()
    while len(data) < n:
        part = os.read(IN, min(n - len(data), 1 << 20))
        if not part:
            os._exit(0)
        data += part
    return data


class Pipes:
    """Reads requests on a thread of its own and writes answers."""

    def __init__(self):
        self.requests = queue.SimpleQueue()
        self.canceled = threading.Event()
        self.busy = False
        self.writing = threading.Lock()

    def start(self):
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            while True:
                self.take()
        except BadFrame as e:
            self.end("broken", f"frame is not valid: {e}", BAD_FRAME)
        except BaseException as e:
            self.end("broken", f"reading frames failed: {e!r}", BROKEN)

    def take(self):
        kind, head, raw = struct.unpack("<III", read(12))
        if not HELLO <= kind <= SHUTDOWN:
            raise BadFrame(f"unknown kind {kind}")
        if head > MAX_HEAD or raw > MAX_RAW:
            raise BadFrame(f"kind {kind} has a head of {head} and a raw part of {raw} bytes")
        head, raw = read(head), read(raw)
        if kind == SHUTDOWN:
            os._exit(0)
        if kind == CANCEL:
            self.canceled.set()
            return
        if kind in (MASKS, TOKENIZE) or self.busy:
            raise BadFrame(f"kind {kind} came out of place")
        if kind == STEP:
            self.canceled.clear()  # a late cancellation was for the step before
        self.busy = True
        self.requests.put((kind, head, raw))

    def send(self, kind, head, raw=b""):
        """Writes a frame. A head that is not bytes becomes JSON."""
        if not isinstance(head, (bytes, bytearray)):
            head = json.dumps(head, separators=(",", ":")).encode()
        data = memoryview(struct.pack("<III", kind, len(head), len(raw)) + head + raw)
        with self.writing:
            while data:
                try:
                    data = data[os.write(OUT, data):]
                except BrokenPipeError:
                    os._exit(0)

    def answer(self, kind, head, raw=b""):
        self.busy = False  # before the answer is written, because the next request may follow at once
        self.send(kind, head, raw)

    def end(self, code, text, status):
        self.send(ERROR, {"code": code, "text": text[:1000]})
        os._exit(status)


# ---------------------------------------------------------------------------------------------------------- caches
#
# A sequence has a list of caches, one for each layer, of mlx-lm's classes. Some can always be shortened. Others forget
# tokens or mix them, so copies of them are kept at the ends of prefills.

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


class Batch:
    """Sequences that decode together, with the merged caches of mlx-lm."""

    def __init__(self, members, caches):
        self.members = members  # None for one that was freed
        self.caches = caches

    @staticmethod
    def merged(sequences):
        layers = zip(*(s.caches for s in sequences))
        return [type(layer[0]).merge(list(layer)) for layer in layers]

    def extract(self, i):
        return [c.extract(i) for c in self.caches]


# ---------------------------------------------------------------------------------------------------------- model


class Picks:
    """What the next forward pass should give: the positions whose logits are needed, and the sum of hidden states."""

    def __init__(self):
        self.rows = None
        self.sum = False
        self.hidden = None


def follow(module, call):
    """Makes call(original, *arguments) replace the module's call."""
    base = type(module)

    def replaced(self, *args, **more):
        return call(lambda *a, **k: base.__call__(self, *a, **k), *args, **more)

    module.__class__ = type(base.__name__, (base,), {"__call__": replaced})
    return base


class Engine:
    """A loaded model with its sequences."""

    def __init__(self, options, pipes):
        self.options, self.pipes = options, pipes
        self.model = self.shared = None
        self.sequences = {}
        self.batch = None
        self.count = self.steps = self.merges = 0
        self.told = 0.0
        self.picks = Picks()
        self.picking = False
        self.embeddings = False

    # Progress comes from the thread that computes, between pieces of work.
    def progressed(self, work=1):
        self.count += work
        if time.monotonic() - self.told > 0.3:
            self.told = time.monotonic()
            self.pipes.send(PROGRESS, {"count": self.count})

    def load(self, q):
        if self.model is not None:
            raise BadFrame("a model is loaded already")
        path = q["path"]
        self.import_mlx()
        mx = self.mx
        self.limits(q)
        self.pipes.send(PROGRESS, {"fraction": 0.2})
        if not os.path.isdir(path):
            raise LoadFailed("missing", "no such folder", "check the path")
        try:
            self.model, self.config = self.utils.load_model(self.Path(path), lazy=True)
        except (ValueError, ImportError, AttributeError, KeyError, TypeError) as e:
            raise self.refusal(e) from e
        except (RuntimeError, OSError, json.JSONDecodeError) as e:
            raise LoadFailed("corrupt", f"MLX cannot read the model's files: {e}"[:500],
                             "download or convert the model again") from e
        parameters = self.flatten(self.model.parameters())
        total = sum(v.nbytes for _, v in parameters) or 1
        if total > self.memory:
            raise LoadFailed("too_big", f"the weights take {total >> 20} MiB and {self.memory >> 20} MiB may be used",
                             "choose a smaller model or a stronger quantization")
        ready = 0
        for _, v in parameters:
            mx.eval(v)
            ready += v.nbytes
            if self.pipes.canceled.is_set():
                raise LoadFailed("canceled", "canceled")
            if time.monotonic() - self.told > 0.3:
                self.told = time.monotonic()
                self.pipes.send(PROGRESS, {"fraction": 0.2 + 0.7 * ready / total})
        self.parameters = int(self.utils.get_total_parameters(self.model))
        self.slow = not self.gpu and total > 256 << 20
        self.piece = 256 if self.gpu else max(8, min(128, int(5e8 / max(1, self.parameters))))
        self.full_window = q.get("full_window") == "on" and self.config.get("model_type") == "gpt_oss"
        self.warm_up()
        self.plan(q)
        mx.clear_cache()
        return self.loaded(total)

    def import_mlx(self):
        """Imports MLX and checks its version. mlx-lm lowers the limit of open files, hard limit too; it must not."""
        wanted = self.options.require
        for name, version in wanted.items():
            try:
                have = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                raise LoadFailed("failed", f"the Python module {name} is missing", self.setup_advice()) from None
            if have != version:
                raise LoadFailed("failed", f"{name} has version {have}, and version {version} is required",
                                 self.setup_advice())
        set_limit, resource.setrlimit = resource.setrlimit, lambda *_: None
        try:
            self.mx = importlib.import_module("mlx.core")
            self.np = importlib.import_module("numpy")
            self.pipes.send(PROGRESS, {"fraction": 0.1})
            self.utils = importlib.import_module("mlx_lm.utils")
            self.caches = importlib.import_module("mlx_lm.models.cache")
            self.flatten = importlib.import_module("mlx.utils").tree_flatten
            self.Path = importlib.import_module("pathlib").Path
        except (ImportError, OSError) as e:
            raise LoadFailed("failed", f"MLX cannot be imported: {e}", self.setup_advice()) from e
        finally:
            resource.setrlimit = set_limit

    @staticmethod
    def setup_advice():
        return "run 'runner engines setup mlx'"

    def limits(self, q):
        """Sets MLX's limits before anything is loaded."""
        mx = self.mx
        self.gpu = mx.default_device() == mx.gpu
        info = mx.device_info()
        self.device = str(info.get("device_name", "GPU")) if self.gpu else "CPU"
        recommended = int(info.get("max_recommended_working_set_size", 0))
        physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        room = recommended if self.gpu and recommended else physical * 3 // 4
        reserved = q.get("reserved") or {}
        if taken := reserved.get("mapped", 0) + reserved.get("private", 0):
            room -= taken
            self.memory = min(self.options.memory or room, room)
        else:
            self.memory = self.options.memory or room
        self.memory = max(self.memory - sum(q.get("others") or []), 1 << 20)
        mx.set_memory_limit(self.memory)
        mx.set_cache_limit(min(self.memory // 8, 2 << 30))
        if self.gpu and recommended:
            mx.set_wired_limit(min(self.memory, recommended))

    def refusal(self, e):
        """Returns the error for an exception of load_model."""
        text, kind = str(e)[:500] or repr(e), self.options.model.get("model_type", "")
        if "not supported" in text and "odel type" in text:
            return LoadFailed("unknown_architecture", f"mlx-lm does not know models of type {kind!r}",
                              "choose another model, or a GGUF file of this one")
        if any(x in text for x in ("parameters not in model", "Missing", "shape", "Cannot infer the quantization")):
            return LoadFailed("corrupt", f"weights and config.json do not fit together: {text}",
                              "download or convert the model again")
        return LoadFailed("failed", f"mlx-lm refuses the model: {text}", "convert the model again")

    def new_caches(self):
        caches = self.caches.make_prompt_cache(self.model)
        if self.full_window:
            caches = [self.caches.KVCache() if type(c).__name__ == "RotatingKVCache" else c for c in caches]
        return caches

    def warm_up(self):
        """Runs the model once. It finds the width of the logits and the memory for a token, and whether the model's
        hidden states can be picked before its last layer."""
        mx = self.mx
        caches = self.new_caches()
        x = mx.array([[0, 1, 2]])
        try:
            full = self.model(x, cache=caches)
            mx.eval(full, [c.state for c in caches])
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RuntimeError) as e:
            raise LoadFailed("failed", f"a first step failed: {e}"[:500], "convert the model again") from e
        self.width = full.shape[-1]
        if self.width > self.options.vocabulary > 0:
            raise LoadFailed("corrupt",
                             f"the model has {self.width} tokens and its files say {self.options.vocabulary}",
                             "download or convert the model again")
        self.vocabulary = self.options.vocabulary or self.width
        self.exact = all(always_trims(c) for c in caches)
        self.batches = all(hasattr(type(c), "merge") for c in caches)
        self.token_bytes = 1
        for c in caches:
            for part in getattr(c, "caches", [c]):
                if always_trims(part) and getattr(part, "keys", None) is not None and not isinstance(part.keys, tuple):
                    self.token_bytes += (part.keys.nbytes + part.values.nbytes) // part.keys.shape[2]
        self.try_picking(x, full)
        if self.slow:
            for layer in getattr(self.model, "layers", []):
                follow(layer, self.after_layer)
        self.progressed()

    def after_layer(self, call, *args, **more):
        out = call(*args, **more)
        self.mx.eval(out)
        self.progressed()
        return out

    def try_picking(self, x, full):
        """Lets the inner model return only the hidden states whose logits are needed, if that gives the same logits."""
        mx, inner = self.mx, getattr(self.model, "language_model", self.model)
        inner = getattr(inner, "model", None)
        if inner is None or not hasattr(inner, "layers"):
            return
        base = follow(inner, self.pick)
        try:
            self.picking = True
            picked, hidden = self.forward(x, self.new_caches(), [0, 2], True)
            mx.eval(picked, hidden)
            same = picked.shape[1] == 2 and bool(mx.allclose(picked, full[:, mx.array([0, 2])], rtol=1e-2, atol=1e-2))
            self.embeddings = same and hidden.ndim == 2
            self.hidden_width = hidden.shape[-1]
        except (ValueError, TypeError, AttributeError, IndexError, RuntimeError):
            same = False
        if not same:
            inner.__class__, self.picking, self.embeddings = base, False, False

    def pick(self, call, *args, **more):
        out, p = call(*args, **more), self.picks
        if p.sum:
            p.hidden = out.astype(self.mx.float32).sum(axis=1)
        if p.rows is not None and p.rows != list(range(out.shape[1])):
            out = out[:, self.mx.array(p.rows or [0])]
        return out

    def plan(self, q):
        """Decides the sizes. Half of the free memory stays free for merging batches."""
        given = self.options.model
        self.trained = int(given.get("trained_context") or 0) or 1 << 17
        self.most_sequences = q.get("sequences") or 4
        self.most_batch = q.get("batch") or 512
        free = self.memory - self.mx.get_active_memory() - self.memory // 16
        room = max(0, free // 2 // self.token_bytes)
        context = q.get("context") or 0
        self.reason = "as requested" if context else "as trained"
        if not context:
            context = min(self.trained, room)
            if context < self.trained:
                self.reason = f"{room} tokens fit into memory"
        if context < 1 or context > room:
            context = context or self.trained
            raise LoadFailed("too_big", f"a context of {context} tokens takes {context * self.token_bytes >> 20} MiB, "
                             f"and there is room for {room} tokens",
                             "choose a smaller context size or a smaller model")
        self.context = context
        self.cells = q.get("cache_tokens") or max(context, min(context * self.most_sequences, room))

    def loaded(self, total):
        given = self.options.model
        quantization = self.config.get("quantization") or {}
        name = str(quantization.get("mode", "affine")).upper()
        if name == "AFFINE":
            name = f"{quantization['bits']}-bit" if quantization.get("bits") else "none"
        return {
            "info": {
                "name": given.get("name", ""), "architecture": given.get("architecture", ""), "device": self.device,
                "parameters": self.parameters, "bytes": given.get("bytes") or total, "quantization": name,
                "context": self.context, "trained_context": self.trained, "cache_tokens": self.cells,
                "context_reason": self.reason, "sequences": self.most_sequences, "batch": self.most_batch,
                "threads": os.cpu_count() or 1, "gpu_layers": len(getattr(self.model, "layers", [])) if self.gpu else 0,
                "embedding_length": self.hidden_width if self.embeddings else int(given.get("width") or 0),
                "window_only": not self.exact, "chat_template": given.get("chat_template", ""),
                "digest": given.get("digest", ""),
                "memory": {"mapped": 0, "private": min(self.memory, total + 2 * self.cells * self.token_bytes)}},
            "logits": True, "embeddings": self.embeddings, "exact_truncate": self.exact,
            "vocabulary": {"tokens": 0, "bos": -1, "eos": -1, "end": [], "add_bos": False}}

    def share(self, q):
        """Maps the file for the rows of logits."""
        rows = q["rows"]
        if not isinstance(rows, int) or not 0 < rows <= 1 << 16:
            raise BadFrame(f"{rows} rows of logits")
        size = rows * self.vocabulary * 4
        if os.fstat(SHARED).st_size < size:
            raise BadFrame(f"the shared file has no room for {rows} rows of logits")
        self.map = mmap.mmap(SHARED, size)
        self.shared = self.np.frombuffer(self.map, self.np.float32).reshape(rows, self.vocabulary)

    # ------------------------------------------------------------------------------------------------ sequences

    def used(self):
        return sum(s.length for s in self.sequences.values())

    def open(self, number):
        s = self.sequences.get(number)
        if s is None:
            raise BadFrame(f"there is no sequence {number}")
        return s

    def unused(self, number):
        if not isinstance(number, int) or not 0 <= number < self.most_sequences or number in self.sequences:
            raise BadFrame(f"sequence {number} cannot be made")

    def new(self, q):
        self.unused(q["sequence"])
        self.sequences[q["sequence"]] = Sequence(self.new_caches())
        return {}

    def fork(self, q):
        self.unused(q["sequence"])
        s = self.open(q.get("from", 0))
        if self.used() + s.length > self.cells:
            raise Refused("cache_full", f"a fork of {s.length} tokens does not fit into the cache of {self.cells}")
        f = Sequence(None)
        if s.caches is None:
            f.caches = self.batch.extract(self.batch.members.index(s))
        else:
            f.caches = copy.deepcopy(s.caches)
        f.length, f.copies = s.length, list(s.copies)
        self.sequences[q["sequence"]] = f
        return {}

    def free(self, q):
        s = self.open(q["sequence"])
        del self.sequences[q["sequence"]]
        if s.caches is None:  # its rows go when the batch changes
            self.batch.members[self.batch.members.index(s)] = None
            if not any(self.batch.members):
                self.batch = None
        return {}

    def truncate(self, q):
        s, n = self.open(q["sequence"]), q.get("length", 0)
        if not isinstance(n, int) or n < 0:
            raise BadFrame(f"a sequence cannot be {n} tokens long")
        if n < s.length:
            self.leave([s])
            self.shorten(s, n)
        return {"kept": s.length}

    def shorten(self, s, n):
        best = None
        if not all(always_trims(c) or c.is_trimmable() for c in s.caches):
            fit = [c for c in s.copies if c.least <= min(n, c.length)]
            best = max(fit, key=lambda c: min(n, c.length), default=None)
            n = min(n, best.length) if best else 0
        if n == 0:
            s.caches, s.length, s.copies = self.new_caches(), 0, []
            return
        restored = best.at(n) if best else {}
        for i, c in enumerate(s.caches):
            if i in restored:
                s.caches[i] = restored[i]
            else:
                c.trim(s.length - n)
        s.length = n
        s.copies = [c for c in s.copies if c.length < n]
        if best:
            s.keep(Copies(self.mx, s.caches, n))

    # Batches. Merging and extracting copy whole caches, so they happen only when the members change.

    def leave(self, sequences):
        """Takes sequences out of the batch, and rows of those that were freed."""
        b = self.batch
        if b is None or not any(m is None or m in sequences for m in b.members):
            return
        stay = []
        for i, m in enumerate(b.members):
            if m in sequences:
                m.caches = b.extract(i)
            elif m is not None:
                stay.append(i)
        self.merges += 1
        if not stay:
            self.batch = None
            return
        rows = self.mx.array(stay)
        for c in b.caches:
            c.filter(rows)
        b.members = [b.members[i] for i in stay]

    def join(self, sequences):
        """Makes a batch of exactly these sequences."""
        b = self.batch
        if b is not None and len(b.members) == len(sequences) and all(m in sequences for m in b.members):
            return
        self.dissolve()
        self.merges += 1
        self.batch = Batch(list(sequences), Batch.merged(sequences))
        for s in sequences:
            s.caches = None

    def dissolve(self):
        if self.batch is not None:
            self.leave([m for m in self.batch.members if m is not None])

    # ------------------------------------------------------------------------------------------------ steps

    def decode(self, head, raw):
        """Returns the inputs of a step as (sequence, tokens, rows, flags). Nothing has changed after an error."""
        if self.shared is None or len(head) < 4:
            raise BadFrame("a step came too early or has no head")
        (n,) = struct.unpack_from("<I", head)
        if n > self.most_sequences or len(head) != 4 + n * INPUT.size:
            raise BadFrame(f"a step of {n} inputs in {len(head)} bytes")
        fields = [INPUT.unpack_from(head, 4 + i * INPUT.size) for i in range(n)]
        if sum(4 * (f[2] + f[3] + f[5]) + 8 * f[6] for f in fields) != len(raw):
            raise BadFrame(f"a step with {len(raw)} bytes of tokens")
        inputs, at, total, rows, seen = [], 0, 0, 0, set()
        for i, f in enumerate(fields):
            number, length, count, targets, flags = f[0], f[1], f[2], f[3], f[7]
            tokens = self.np.frombuffer(raw, self.np.int32, count, at)
            at += 4 * (count + targets + f[5]) + 8 * f[6]
            s = self.sequences.get(number)
            if s is None:
                raise Refused("closed", f"there is no sequence {number}", i)
            if number in seen:
                raise Refused("repeated", "sequence appears twice in a step", i)
            seen.add(number)
            if count == 0:
                raise Refused("no_tokens", "input has no tokens", i)
            if s.length != length:
                raise Refused("failed", f"the sequence has {s.length} tokens, not {length}", i)
            if targets > count or flags & HIDDEN and not self.embeddings:
                raise Refused("failed", "the input asks for what there is not", i)
            if int(tokens.min()) < 0 or int(tokens.max()) >= self.vocabulary:
                raise Refused("bad_token", "token is outside the vocabulary", i)
            if int(tokens.max()) >= self.width:
                raise Refused("bad_token", f"the model has no token {int(tokens.max())}", i)
            if length + count > self.context:
                raise Refused("context_full", f"{length + count} tokens, at most {self.context}", i)
            wanted = list(range(targets)) + ([count - 1] if flags & (SAMPLE | LOGITS) else [])
            total, rows = total + count, rows + len(wanted)
            inputs.append((s, tokens, wanted, flags))
        if total > self.most_batch or rows > len(self.shared):
            raise Refused("batch_too_large", f"{total} tokens and {rows} rows of logits in a step")
        if self.used() + total > self.cells:
            raise Refused("cache_full", f"cache is full: {self.used()} of {self.cells} tokens are used")
        if self.mx.get_active_memory() + total * self.token_bytes > self.memory:
            raise Refused("cache_full", "the memory that may be used is full")
        return inputs

    def step(self, head, raw):
        began = time.perf_counter()
        inputs = self.decode(head, raw)
        starts, at = [], 0
        for s, tokens, wanted, flags in inputs:
            starts.append(at)
            at += len(wanted)
        alone = [i for i, (s, tokens, _, _) in enumerate(inputs)
                 if len(tokens) > 1 or s.length == 0 or not self.batches]
        together = [i for i in range(len(inputs)) if i not in alone]
        alone.sort(key=lambda i: len(inputs[i][1]) == 1)  # a single token cannot be taken back, so it comes last
        if len(together) == 1 and (self.batch is None or inputs[together[0]][0] not in self.batch.members):
            alone, together = alone + together, []
        hidden = {}
        self.leave([inputs[i][0] for i in alone])
        undo = []
        try:
            for i in alone:
                self.prefill(inputs[i], starts[i], hidden, i, undo)
        except Canceled:
            for s, length, copies in undo:
                self.undo(s, length, copies)
            raise Refused("canceled", "canceled") from None
        if together:
            self.decode_together([inputs[i] for i in together], [starts[i] for i in together], hidden, together)
        for i in alone:
            s, tokens = inputs[i][0], inputs[i][1]
            if len(tokens) > 1 and not self.exact:
                s.keep(Copies(self.mx, s.caches, s.length))
        self.check_memory()
        self.steps += 1
        out = bytearray(struct.pack("<II", len(inputs), int(1e6 * (time.perf_counter() - began))))
        for _ in inputs:
            out += struct.pack("<ifII", -1, 0.0, 0, 0)
        sums = b"".join(hidden[i].tobytes() for i, x in enumerate(inputs) if x[3] & HIDDEN)
        return out, sums

    def forward(self, x, caches, rows, want_sum):
        """Runs the model. It returns logits at the rows, or None without any, and the sum of hidden states."""
        p = self.picks
        p.rows, p.sum, p.hidden = rows, want_sum, None
        logits = self.model(x, cache=caches)
        if not self.picking and rows != list(range(x.shape[1])):
            logits = logits[:, self.mx.array(rows or [0])]
        return (logits.astype(self.mx.float32) if rows else None), p.hidden

    def prefill(self, given, start, hidden, index, undo):
        """Feeds the tokens of one sequence in pieces."""
        s, tokens, wanted, flags = given
        mx, pieces = self.mx, range(0, len(tokens), self.piece)
        if len(tokens) > 1:
            undo.append((s, s.length, Copies(mx, s.caches, s.length) if s.length and not self.exact else None))
        row = start
        for at in pieces:
            if self.pipes.canceled.is_set() and len(tokens) > 1:
                raise Canceled
            part = tokens[at:at + self.piece]
            rows = [w - at for w in wanted if at <= w < at + len(part)]
            logits, total = self.forward(mx.array(part)[None], s.caches, sorted(set(rows)), bool(flags & HIDDEN))
            mx.eval([x for x in (logits, total) if x is not None], [c.state for c in s.caches])
            s.length += len(part)
            if logits is not None:
                place, logits = {r: k for k, r in enumerate(sorted(set(rows)))}, self.np.array(logits, copy=False)
                for r in rows:
                    self.write(row, logits[0, place[r]])
                    row += 1
            if total is not None:
                add = self.np.array(total[0]).astype(self.np.float64)
                hidden[index] = hidden[index] + add if index in hidden else add
            self.check_memory()
            self.progressed(len(part))

    def undo(self, s, length, copies):
        """Makes a sequence as it was before a step that was canceled."""
        if length == 0:
            s.caches, s.length = self.new_caches(), 0
            return
        restored = copies.at(length) if copies else {}
        for i, c in enumerate(s.caches):
            if i in restored:
                s.caches[i] = restored[i]
            else:
                c.trim(s.length - length)
        s.length = length

    def decode_together(self, given, starts, hidden, indexes):
        """Feeds one token to each of several sequences."""
        mx = self.mx
        self.join([g[0] for g in given])
        place = [self.batch.members.index(g[0]) for g in given]
        tokens = [0] * len(given)
        for p, g in zip(place, given):
            tokens[p] = int(g[1][0])
        want = any(g[2] for g in given)
        logits, total = self.forward(mx.array(tokens)[:, None], self.batch.caches, [0] if want else [],
                                     any(g[3] & HIDDEN for g in given))
        mx.eval([x for x in (logits, total) if x is not None], [c.state for c in self.batch.caches])
        if want:
            logits = self.np.array(logits, copy=False)  # once, because each use of MLX takes as long as copying a row
        for p, g, start, i in zip(place, given, starts, indexes):
            g[0].length += 1
            for k in range(len(g[2])):
                self.write(start + k, logits[p, 0])
            if g[3] & HIDDEN:
                hidden[i] = self.np.array(total[p]).astype(self.np.float64)
        self.progressed(len(given))

    def write(self, row, logits):
        """Writes a row of logits. Tokens that the model does not have get minus infinity."""
        to = self.shared[row]
        to[:self.width] = logits
        to[self.width:] = -self.np.inf

    def check_memory(self):
        mx = self.mx
        if mx.get_active_memory() + mx.get_cache_memory() <= self.memory:
            return
        mx.clear_cache()
        if mx.get_active_memory() > self.memory:
            raise MemoryError(f"MLX uses {mx.get_active_memory() >> 20} MiB, and its limit is {self.memory >> 20} MiB")

    def stats(self):
        mx = getattr(self, "mx", None)
        active = cached = peak = 0
        if mx:
            active, cached, peak = mx.get_active_memory(), mx.get_cache_memory(), mx.get_peak_memory()
        memory = active + cached
        try:
            with open("/proc/self/statm") as f:
                memory = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            pass  # macOS has no such file
        return {"memory": memory, "steps": self.steps, "active": active, "cached": cached, "peak": peak,
                "merges": self.merges, "copies": sum(len(s.copies) for s in self.sequences.values())}


# ---------------------------------------------------------------------------------------------------------- process


def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def carry_out(engine, pipes, kind, head, raw):
    """Carries out one request and returns its answer."""
    if kind == STEP:
        return STEPPED, *engine.step(head, raw)
    try:
        q = json.loads(bytes(head) or b"{}")
    except ValueError as e:
        raise BadFrame(f"the head of kind {kind}: {e}") from None
    if not isinstance(q, dict):
        raise BadFrame(f"the head of kind {kind} is not an object")
    if kind == HELLO:
        if q.get("protocol") != VERSION:
            raise BadFrame(f"the runner speaks version {q.get('protocol')} of the protocol, not {VERSION}")
        return MY_HELLO, {"protocol": VERSION, "engine": "MLX", "samples": False, "tokenizes": False,
                          "version": f"mlx {version('mlx')}, mlx-lm {version('mlx-lm')}"}
    if kind == STATS:
        return MY_STATS, engine.stats()
    if kind == LOAD:
        return LOADED, engine.load(q)
    if engine.model is None:
        raise BadFrame(f"kind {kind} came before a model was loaded")
    try:
        if kind == SHARE:
            engine.share(q)
            return DONE, {}
        return DONE, {NEW: engine.new, FORK: engine.fork, TRUNCATE: engine.truncate, FREE: engine.free}[kind](q)
    except KeyError as e:
        raise BadFrame(f"kind {kind} lacks {e}") from None


def options(arguments):
    p = argparse.ArgumentParser()
    p.add_argument("--vocabulary", type=int, default=0, help="number of tokens; 0 is that of the logits")
    p.add_argument("--memory", type=int, default=0, help="bytes that MLX may use; 0 is what the machine has")
    p.add_argument("--require", type=json.loads, default={}, help="versions by name, as JSON")
    p.add_argument("--model", type=json.loads, default={}, help="what the runner knows about the model, as JSON")
    return p.parse_args(arguments)


def environment():
    """Keeps MLX and its libraries from the network, and from compiling into a folder that others can write."""
    os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
    if sys.platform != "darwin":
        os.environ["MLX_DISABLE_COMPILE"] = "1"


def main(arguments=None, make=Engine):
    environment()
    pipes = Pipes()
    engine = make(options(arguments), pipes)
    pipes.start()
    while True:
        kind, head, raw = pipes.requests.get()
        try:
            pipes.answer(*carry_out(engine, pipes, kind, head, raw))
        except Refused as e:
            pipes.answer(ERROR, e.head)
        except BadFrame as e:
            pipes.end("broken", f"frame is not valid: {e}", BAD_FRAME)
        except BaseException as e:
            full = isinstance(e, MemoryError) or "allocate" in str(e)
            pipes.end("memory" if full else "broken", f"{type(e).__name__}: {e}", BROKEN)


if __name__ == "__main__":
    main()
