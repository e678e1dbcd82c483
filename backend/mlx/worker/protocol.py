"""Frames, the errors that become frames, and progress.

Pipes is the only code that reads descriptor 3 or writes to descriptor 4. Its thread never uses MLX. Any thread may
send.
"""

import json
import os
import queue
import struct
import threading
import time

IN, OUT, SHARED = 3, 4, 5

HELLO, LOAD, SHARE, NEW, FORK, TRUNCATE, FREE, STEP, MASKS, CANCEL, TOKENIZE = range(1, 12)
MY_HELLO, LOADED, PROGRESS, DONE, STEPPED, TOKENS = range(65, 71)
SHUTDOWN, ERROR = 13, 72  # 12 and 71 have no meaning

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
        if not HELLO <= kind <= TOKENIZE and kind != SHUTDOWN:
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
        """Ends the process, whatever happens to the frame that says why. No other thread may outlive this one."""
        try:
            self.send(ERROR, {"code": code, "text": text[:1000]})
        finally:
            os._exit(status)


class Progress:
    """Tells the runner that work goes on. It is used by the thread that computes, between pieces of work."""

    def __init__(self, pipes):
        self.pipes = pipes
        self.count = 0
        self.told = 0.0

    def worked(self, work=1):
        self.count += work
        self.tell({"count": self.count})

    def loaded(self, fraction):
        self.tell({"fraction": fraction})

    def tell(self, head):
        if time.monotonic() - self.told > 0.3:
            self.told = time.monotonic()
            self.pipes.send(PROGRESS, head)
