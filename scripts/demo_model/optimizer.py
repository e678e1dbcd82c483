"""Muon for the weights of layers (https://kellerjordan.github.io/posts/muon/): momentum whose matrices are made
orthogonal before they are applied.

The update is scaled to the size of AdamW's (https://arxiv.org/abs/2502.16982), so both share one learning rate. AdamW
trains vectors, embeddings and the output matrix.
"""

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(g, steps=5):
    """Approximates the nearest matrices with orthonormal rows or columns by the quintic Newton-Schulz iteration. g is
    (batch, rows, columns)."""
    a, b, c = COEFFICIENTS
    x = g.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        s = x @ x.mT
        x = a * x + (b * s + c * (s @ s)) @ x
    return (x.mT if tall else x).float()


class Muon(torch.optim.Optimizer):
    """Takes matrices, and stacks of matrices along the first axis."""

    def __init__(self, params, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            same = {}
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                update = p.grad.lerp(m, group["momentum"])
                same.setdefault(p.shape[-2:], []).append((p, update.reshape(-1, *p.shape[-2:])))
            for shape, list_ in same.items():
                whole = orthogonal(torch.cat([u for _, u in list_])) * 0.2 * max(shape) ** 0.5
                at = 0
                for p, u in list_:
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(whole[at:at + len(u)].view_as(p), alpha=-group["lr"])
                    at += len(u)
