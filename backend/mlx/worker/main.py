"""The process: its arguments, its environment and the loop that answers requests."""

import argparse
import json
import os
import sys

from .engine import Engine
from .libraries import version
from .protocol import (BAD_FRAME, BROKEN, DONE, ERROR, FORK, FREE, HELLO, LOAD, LOADED, MY_HELLO, MY_STATS, NEW, SHARE,
                       STATS, STEP, STEPPED, TRUNCATE, VERSION, BadFrame, Pipes, Refused)


def carry_out(engine, kind, head, raw):
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
        return DONE, {SHARE: engine.share, NEW: engine.new, FORK: engine.fork, TRUNCATE: engine.truncate,
                      FREE: engine.free}[kind](q)
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


def main(arguments=None):
    environment()
    pipes = Pipes()
    engine = Engine(options(arguments), pipes)
    pipes.start()
    while True:
        kind, head, raw = pipes.requests.get()
        try:
            pipes.answer(*carry_out(engine, kind, head, raw))
        except Refused as e:
            pipes.answer(ERROR, e.head)
        except BadFrame as e:
            pipes.end("broken", f"frame is not valid: {e}", BAD_FRAME)
        except BaseException as e:
            full = isinstance(e, MemoryError) or "allocate" in str(e)
            pipes.end("memory" if full else "broken", f"{type(e).__name__}: {e}", BROKEN)
