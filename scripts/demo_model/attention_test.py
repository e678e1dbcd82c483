"""Compares the fused attention with the plain one: python attention_test.py

It compares the outputs and every gradient for random trees, windows, lengths and head counts.
"""

import random

import torch

import attention

torch.manual_seed(1)


def tree(rng, t):
    """Positions and ends of a random tree of t tokens in preorder, with chains between its forks."""
    pos, path = [], []
    end = list(range(1, t + 1))
    for i in range(t):
        if path and rng.random() < 0.08:
            del path[rng.randrange(1, len(path) + 1):]
        pos.append(pos[path[-1]] + (1 if rng.random() < 0.98 else rng.randrange(1, 300)) if path else 0)
        path.append(i)
        for p in path:
            end[p] = i + 1
    return pos, end


def case(rng, n, t, heads, kv, window, dtype):
    rows = [tree(rng, t) for _ in range(n)]
    pos, end = (torch.tensor([r[i] for r in rows]) for i in (0, 1))
    angle = pos[..., None].float() * 0.7 ** torch.arange(16)
    cos, sin = 1.07 * angle.cos(), 1.07 * angle.sin()
    qkv = (1.5 * torch.randn(n, t, (heads + 2 * kv) * 32)).to(dtype)
    sinks, grad = torch.randn(heads), torch.randn(n, t, heads * 32).to(dtype)

    def run(mask, attend, dtype):
        x, s = qkv.to(dtype, copy=True).requires_grad_(), sinks.clone().requires_grad_()
        y = attend(x, cos, sin, s, mask(pos, end, window))
        y.backward(grad.to(dtype))
        return y, x.grad, s.grad

    q, k = heads * 32, (heads + kv) * 32
    parts = lambda y, dx, ds: {"output": y, "queries": dx[..., :q], "keys": dx[..., q:k], "values": dx[..., k:],
        "sinks": ds}
    got = parts(*run(attention.fused_mask, attention.fused, dtype))
    wanted = parts(*run(attention.plain_mask, attention.plain, torch.float32))
    worst = 0.0
    for name in wanted:
        error = ((got[name].float() - wanted[name]).norm() / wanted[name].norm().clamp(min=1e-3)).item()
        if not error < (1e-5 if dtype == torch.float32 else 2e-2):
            raise SystemExit(f"{name}: relative error {error:.2g} with rows {n}, tokens {t}, heads {heads}/{kv}, window {window}, {dtype}")
        worst = max(worst, error)
    return worst


def main():
    if attention.best("cpu")[1] is attention.plain:
        return  # why was printed; training takes the plain one too
    rng = random.Random(1)
    for dtype in (torch.float32, torch.bfloat16):
        worst = max(case(rng, n, t, heads, kv, window, dtype)
                    for n, t, heads, kv in ((1, 1 if dtype == torch.float32 else 9, 2, 1), (2, 31, 2, 2),
                    (2, 33, 4, 2), (3, 200, 8, 4), (2, 417, 8, 2))
                    for window in (0, 5, 40, 128))
        print(f"{dtype}: largest relative error {worst:.2g}")


if __name__ == "__main__":
    main()
