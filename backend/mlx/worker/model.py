"""Loading a model and running it.

A model runs in forward alone. Where the model's classes allow it, the last layer computes only the rows of logits that
are needed, and the hidden states are summed before it. Whether that gives the same logits is tried once.
"""

import json
import os
import pathlib

from .caches import always_trims
from .protocol import LoadFailed


class Picks:
    """What the next forward pass should give: the positions whose logits are needed, and the sum of hidden states."""

    def __init__(self):
        self.rows = None
        self.sum = False
        self.hidden = None


def follow(module, call):
    """Makes call(original, *arguments) replace the module's call. It returns the class that the module had."""
    base = type(module)

    def replaced(self, *args, **more):
        return call(lambda *a, **k: base.__call__(self, *a, **k), *args, **more)

    module.__class__ = type(base.__name__, (base,), {"__call__": replaced})
    return base


class Model:
    """A loaded model.

    width is the number of logits and vocabulary the number of tokens, which is not less. exact says that all caches
    can be shortened to any length, and batches that they can be merged. piece is how many tokens a prefill feeds at a
    time. token_bytes is the memory for a token at most.
    """

    def __init__(self, lib, memory, options, pipes, progress):
        self.lib, self.memory, self.options = lib, memory, options
        self.pipes, self.progress = pipes, progress
        self.picks = Picks()
        self.picking = self.embeddings = False

    def load(self, path, q):
        """Reads a model and runs it once. q is the load request."""
        mx = self.lib.mx
        if not os.path.isdir(path):
            raise LoadFailed("missing", "no such folder", "check the path")
        try:
            self.module, self.config = self.lib.utils.load_model(pathlib.Path(path), lazy=True)
        except (ValueError, ImportError, AttributeError, KeyError, TypeError) as e:
            raise self.refusal(e) from e
        except (RuntimeError, OSError, json.JSONDecodeError) as e:
            raise LoadFailed("corrupt", f"MLX cannot read the model's files: {e}"[:500],
                             "download or convert the model again") from e
        parameters = self.lib.flatten(self.module.parameters())
        self.bytes = total = sum(v.nbytes for _, v in parameters) or 1
        limit = self.memory.limit
        if total > limit:
            raise LoadFailed("too_big", f"the weights take {total >> 20} MiB and {limit >> 20} MiB may be used",
                             "choose a smaller model or a stronger quantization")
        ready = 0
        for _, v in parameters:
            mx.eval(v)
            ready += v.nbytes
            if self.pipes.canceled.is_set():
                raise LoadFailed("canceled", "canceled")
            self.progress.loaded(0.2 + 0.7 * ready / total)
        self.parameters = int(self.lib.utils.get_total_parameters(self.module))
        self.slow = not self.memory.gpu and total > 256 << 20
        self.piece = 256 if self.memory.gpu else max(8, min(128, int(5e8 / max(1, self.parameters))))
        self.full_window = q.get("full_window") == "on" and self.config.get("model_type") == "gpt_oss"
        self.warm_up()

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
        caches = self.lib.caches.make_prompt_cache(self.module)
        if self.full_window:
            caches = [self.lib.caches.KVCache() if type(c).__name__ == "RotatingKVCache" else c for c in caches]
        return caches

    def layers(self):
        return getattr(self.module, "layers", [])

    def warm_up(self):
        """Runs the model once. It finds the width of the logits and the memory for a token, and whether the model's
        hidden states can be picked before its last layer."""
        mx = self.lib.mx
        caches = self.new_caches()
        x = mx.array([[0, 1, 2]])
        try:
            full = self.module(x, cache=caches)
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
            for layer in self.layers():
                follow(layer, self.after_layer)
        self.progress.worked()

    def after_layer(self, call, *args, **more):
        out = call(*args, **more)
        self.lib.mx.eval(out)
        self.progress.worked()
        return out

    def try_picking(self, x, full):
        """Lets the inner model return only the hidden states whose logits are needed, if that gives the same logits."""
        mx, inner = self.lib.mx, getattr(self.module, "language_model", self.module)
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
        out, p, mx = call(*args, **more), self.picks, self.lib.mx
        if p.sum:
            p.hidden = out.astype(mx.float32).sum(axis=1)
        if p.rows is not None and p.rows != list(range(out.shape[1])):
            out = out[:, mx.array(p.rows or [0])]
        return out

    def forward(self, x, caches, rows, want_sum):
        """Runs the model. It returns logits at the rows, or None without any, and the sum of hidden states."""
        p, mx = self.picks, self.lib.mx
        p.rows, p.sum, p.hidden = rows, want_sum, None
        logits = self.module(x, cache=caches)
        if not self.picking and rows != list(range(x.shape[1])):
            logits = logits[:, mx.array(rows or [0])]
        return (logits.astype(mx.float32) if rows else None), p.hidden
