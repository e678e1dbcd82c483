"""Attention over rows of trees, in two versions: plain PyTorch, and one fused C++ operator for training on a CPU.

The tokens of a row are a tree in preorder. Token i sees token j if j <= i < end[j]; in layers with a window also
pos[i] - pos[j] < window. Groups of heads share key-value heads. Every head has a learned sink: a logit that takes
part in the softmax and has no value.

An implementation is a pair of functions. mask(pos, end, window) is computed once per batch: pos and end are int64 of
shape (rows, tokens), and a window of 0 means none. attend(qkv, cos, sin, sinks, mask) returns (rows, tokens, heads x
32). qkv has the queries, keys and values of all heads side by side: (rows, tokens, (heads + 2 kv_heads) x 32) in
bfloat16 or float32. cos and sin are float32 (rows, tokens, 16); sinks is float32 (heads).
"""

import subprocess
from functools import cache
from pathlib import Path

import torch

HEAD = 32


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


def plain_mask(pos, end, window):
    """What is added to the scores: (rows, 1, tokens, tokens)."""
    i = torch.arange(pos.shape[1], device=pos.device)
    seen = (i[None, None, :] <= i[None, :, None]) & (i[None, :, None] < end[:, None, :])
    if window > 0:
        seen = seen & (pos[:, :, None] - pos[:, None, :] < window)
    return torch.where(seen, 0.0, -1e9).unsqueeze(1)


def plain(qkv, cos, sin, sinks, mask):
    n, t, width = qkv.shape
    heads = sinks.numel()
    kv = (width // HEAD - heads) // 2
    q, k, v = qkv.view(n, t, -1, HEAD).transpose(1, 2).split((heads, kv, kv), dim=1)
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    q = q.reshape(n, kv, heads // kv * t, HEAD)
    s = (q @ k.transpose(-1, -2)).view(n, heads, t, t) * HEAD ** -0.5 + mask
    sink = sinks.view(1, -1, 1, 1).to(s.dtype)
    top = torch.maximum(s.amax(-1, keepdim=True), sink).detach()
    p = torch.exp(s - top)
    p = p / (p.sum(-1, keepdim=True) + torch.exp(sink - top))
    y = p.to(v.dtype).view(n, kv, -1, t) @ v
    return y.view(n, heads, t, HEAD).transpose(1, 2).reshape(n, t, -1)


@cache
def build():
    """Builds attention.cpp (cached between runs) and registers its shapes and gradients with PyTorch."""
    from torch.utils.cpp_extension import load

    load("demo_model_attention", [str(Path(__file__).with_name("attention.cpp"))], is_python_module=False,
         extra_cflags=["-O3", "-march=native", "-ffp-contract=fast", "-fopenmp"], extra_ldflags=["-fopenmp"])

    @torch.library.register_fake("demo_model::mask")
    def _(pos, end, window):
        blocks = (pos.shape[1] + HEAD - 1) // HEAD
        return pos.new_empty((pos.shape[0], blocks, blocks, HEAD), dtype=torch.int32)

    @torch.library.register_fake("demo_model::attend")
    def _(qkv, cos, sin, sinks, mask):
        n, t, _ = qkv.shape
        return qkv.new_empty((n, t, sinks.shape[0] * HEAD)), sinks.new_empty((n, sinks.shape[0], t))

    @torch.library.register_fake("demo_model::attend_backward")
    def _(grad, qkv, cos, sin, sinks, mask, out, lse):
        return torch.empty_like(qkv), torch.empty_like(sinks)

    def keep(ctx, inputs, output):
        ctx.save_for_backward(*inputs, *output)
        ctx.set_materialize_grads(False)

    def backward(ctx, grad, _):
        dqkv, dsinks = torch.ops.demo_model.attend_backward(grad, *ctx.saved_tensors)
        return dqkv, None, None, dsinks, None

    torch.library.register_autograd("demo_model::attend", backward, setup_context=keep)


def fused_mask(pos, end, window):
    return torch.ops.demo_model.mask(pos, end, window)


def fused(qkv, cos, sin, sinks, mask):
    return torch.ops.demo_model.attend(qkv, cos, sin, sinks, mask)[0]


def best(device):
    """Returns the fused pair if it can run here, otherwise the plain one, and prints which."""
    if str(device).startswith("cpu"):
        try:
            build()
            print("attention: fused, in C++")
            return fused_mask, fused
        except (ImportError, OSError, RuntimeError, subprocess.SubprocessError) as e:
            print(f"attention: plain PyTorch, because attention.cpp cannot be built here ({str(e).splitlines()[0]})")
    else:
        print(f"attention: plain PyTorch, because the fused version is for CPUs and this is {device}")
    return plain_mask, plain
