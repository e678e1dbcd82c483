"""A mixture of experts in which each expert multiplies only the tokens that chose it, for training on a CPU.

Tokens are copied once per chosen expert into places sorted by expert. Each expert's places are padded to a multiple
of 256, because the matrix library prepares again for every new size. The padding never affects a result or a
gradient: nothing reads its outputs, so its gradients are zero.
"""

import torch
import torch.nn.functional as F

FILL = 256


@torch.library.custom_op("demo_model_experts::route", mutates_args=())
def route(index: torch.Tensor, experts: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """From the experts that tokens chose, (tokens, used): the place of each choice in the same shape, the token and
    the expert of each place, and the end of each expert's places."""
    flat, places = index.reshape(-1), index.numel() + experts * FILL
    order = flat.argsort(stable=True)
    count = flat.bincount(minlength=experts)
    ends = ((count + FILL - 1) // FILL * FILL).cumsum(0)
    ends[-1] = places
    shift = F.pad(ends[:-1], (1, 0)) - (count.cumsum(0) - count)
    place = torch.arange(len(flat)) + shift[flat[order]]
    slot, source = torch.empty_like(flat), flat.new_zeros(places)
    slot[order] = place
    source[place] = order // index.shape[1]
    return slot.view_as(index), source, torch.bucketize(torch.arange(places), ends, right=True), ends.int()


@route.register_fake
def _(index, experts):
    places = index.numel() + experts * FILL
    new = index.new_empty
    return new(index.shape), new(places), new(places), new(experts, dtype=torch.int32)


class Spread(torch.autograd.Function):
    """Tokens to places. Here and below, gradients gather instead of scattering with additions."""

    @staticmethod
    def forward(ctx, x, slot, source):
        ctx.save_for_backward(slot)
        return x[source]

    @staticmethod
    def backward(ctx, g):
        slot, = ctx.saved_tensors
        return sum(g[s] for s in slot.unbind(1)), None, None


class Collect(torch.autograd.Function):
    """Places to tokens, weighted by the router. weight is (tokens, used)."""

    @staticmethod
    def forward(ctx, y, weight, slot, source):
        ctx.save_for_backward(y, weight, slot, source)
        return sum(y[s] * w.unsqueeze(1) for s, w in zip(slot.unbind(1), weight.unbind(1)))

    @staticmethod
    def backward(ctx, g):
        y, weight, slot, source = ctx.saved_tensors
        scale = weight.new_zeros(len(source)).scatter(0, slot.reshape(-1), weight.reshape(-1))
        dweight = torch.stack([(g * y[s]).float().sum(-1) for s in slot.unbind(1)], 1)
        return g[source] * scale.unsqueeze(1), dweight.to(weight.dtype), None, None


class AddBias(torch.autograd.Function):
    """Adds to each place its expert's bias."""

    @staticmethod
    def forward(ctx, x, bias, owner):
        ctx.save_for_backward(owner)
        ctx.experts = len(bias)
        return x + bias[owner]

    @staticmethod
    def backward(ctx, g):
        owner, = ctx.saved_tensors
        return g, F.one_hot(owner, ctx.experts).to(g.dtype).t() @ g, None


def dispatch(x, index, weight, into, into_bias, activate, out):
    """The experts' weighted sum without the last bias. x is (tokens, width); index and weight are (tokens, used).
    into (experts, inner, width) and into_bias (experts, inner) apply before activate, out (experts, width, inner')
    after it."""
    slot, source, owner, ends = route(index, len(into))
    h = F.grouped_mm(Spread.apply(x, slot, source), into.transpose(1, 2), offs=ends)
    h = activate(AddBias.apply(h, into_bias, owner))
    return Collect.apply(F.grouped_mm(h, out.transpose(1, 2), offs=ends), weight, slot, source)
