"""The requests of the runner.

Engine has one method for each kind of request after hello. It is used by the main thread alone.
"""

import os

from .libraries import Libraries, version
from .memory import Memory, Sizes
from .model import Model
from .protocol import PROGRESS, BadFrame, Progress
from .sequences import Sequences
from .steps import Steps


class Engine:
    """A loaded model with its sequences. lib, memory, model, sizes, sequences and steps are None before load."""

    def __init__(self, options, pipes):
        self.options, self.pipes = options, pipes
        self.progress = Progress(pipes)
        self.lib = self.memory = self.model = self.sizes = self.sequences = self.steps = None

    def load(self, q):
        if self.model is not None:
            raise BadFrame("a model is loaded already")
        path = q["path"]
        self.lib = lib = Libraries(self.options.require, self.pipes)
        self.memory = Memory(lib.mx, self.options.memory, q)
        self.pipes.send(PROGRESS, {"fraction": 0.2})
        model = Model(lib, self.memory, self.options, self.pipes, self.progress)
        model.load(path, q)
        trained = int(self.options.model.get("trained_context") or 0) or 1 << 17
        self.sizes = Sizes(self.memory, model.token_bytes, trained, q)
        self.sequences = Sequences(lib.mx, model, self.sizes)
        self.steps = Steps(lib, self.memory, model, self.sizes, self.sequences, self.pipes, self.progress)
        self.model = model
        lib.mx.clear_cache()
        return self.loaded()

    def loaded(self):
        given, model, sizes = self.options.model, self.model, self.sizes
        quantization = model.config.get("quantization") or {}
        name = str(quantization.get("mode", "affine")).upper()
        if name == "AFFINE":
            name = f"{quantization['bits']}-bit" if quantization.get("bits") else "none"
        return {
            "info": {
                "name": given.get("name", ""), "architecture": given.get("architecture", ""),
                "device": self.memory.device, "kernels": f"MLX {version('mlx')}", "parameters": model.parameters,
                "bytes": given.get("bytes") or model.bytes, "quantization": name,
                "context": sizes.context, "trained_context": sizes.trained, "cache_tokens": sizes.cells,
                "context_reason": sizes.reason, "sequences": sizes.sequences, "batch": sizes.batch,
                "threads": os.cpu_count() or 1, "gpu_layers": len(model.layers()) if self.memory.gpu else 0,
                "embedding_length": model.hidden_width if model.embeddings else int(given.get("width") or 0),
                "layers": len(model.layers()), "window_only": not model.exact, "digest": given.get("digest", ""),
                "memory": {"mapped": 0,
                           "private": min(self.memory.limit, model.bytes + 2 * sizes.cells * model.token_bytes)}},
            "logits": True, "embeddings": model.embeddings, "exact_truncate": model.exact,
            "parts": len(model.layers()) if model.slow else 0,  # each layer of a slow model is progress
            "vocabulary": {"tokens": 0, "bos": -1, "eos": -1, "end": [], "add_bos": False}}

    def share(self, q):
        return self.steps.share(q)

    def new(self, q):
        return self.sequences.new(q)

    def fork(self, q):
        return self.sequences.fork(q)

    def truncate(self, q):
        return self.sequences.truncate(q)

    def free(self, q):
        return self.sequences.free(q)

    def step(self, head, raw):
        if self.steps is None:
            raise BadFrame("a step came too early")
        return self.steps.step(head, raw)
