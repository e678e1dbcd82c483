"""The process: its arguments, its environment and the loop that answers requests."""

import argparse
import json
import os
import sys

from .engine import Engine
from .libraries import version
from .protocol import (BAD_FRAME, BROKEN, DONE, ERROR, FORK, FREE, HELLO, LOAD, LOADED, MY_HELLO, NEW, SHARE, STEP,
                       STEPPED, TRUNCATE, VERSION, BadFrame, Pipes, Refused)

# What the fields of heads are if they are left out. Numbers are not negative.
DEFAULTS = {"path": "", "reserved": {}, "others": [], "context": 0, "sequences": 0, "cache_tokens": 0, "batch": 0,
            "rows": 0, "sequence": 0, "from": 0, "length": 0}


def fields(kind, head):
    """Returns the fields of a head. Those that are used have the right types."""
    try:
        q = json.loads(bytes(head) or b"{}")
    except (ValueError, RecursionError) as e:
        raise BadFrame(f"the head of kind {kind}: {e}") from None
    if not isinstance(q, dict):
        raise BadFrame(f"the head of kind {kind} is not an object")
    for name, default in DEFAULTS.items():
        value = q.setdefault(name, default)
        inner = value.values() if type(value) is dict else value if type(value) is list else [value]
        if type(value) is not type(default) or name != "path" and not all(
                type(n) is int and 0 <= n < 1 << 63 for n in inner):
            raise BadFrame(f"the head of kind {kind} has {name} {value!r:.50}")
    return q


def carry_out(engine, kind, head, raw):
    """Carries out one request and returns its answer."""
    if kind == STEP:
        return STEPPED, *engine.step(head, raw)
    q = fields(kind, head)
    if kind == HELLO:
        if q.get("protocol") != VERSION:
            raise BadFrame(f"the runner speaks version {q.get('protocol')} of the protocol, not {VERSION}")
        return MY_HELLO, {"protocol": VERSION, "engine": "MLX", "samples": False, "tokenizes": False,
                          "version": f"mlx {version('mlx')}, mlx-lm {version('mlx-lm')}"}
    if kind == LOAD:
        return LOADED, engine.load(q)
    if engine.model is None:
        raise BadFrame(f"kind {kind} came before a model was loaded")
    return DONE, {SHARE: engine.share, NEW: engine.new, FORK: engine.fork, TRUNCATE: engine.truncate,
                  FREE: engine.free}[kind](q)


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


def answer(engine, pipes, kind, head, raw):
    """Answers one request. An error that is not the runner's ends the process."""
    try:
        pipes.answer(*carry_out(engine, kind, head, raw))
    except Refused as e:
        pipes.answer(ERROR, e.head)
    except BadFrame as e:
        pipes.end("broken", f"frame is not valid: {e}", BAD_FRAME)
    except BaseException as e:
        full = isinstance(e, MemoryError) or "allocate" in str(e)
        pipes.end("memory" if full else "broken", f"{type(e).__name__}: {e}", BROKEN)


def main(arguments=None):
    environment()
    pipes = Pipes()
    engine = Engine(options(arguments), pipes)
    pipes.start()
    while True:
        answer(engine, pipes, *pipes.requests.get())
