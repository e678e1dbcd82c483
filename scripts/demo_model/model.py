"""The demo model in PyTorch: the gpt-oss architecture, computed exactly like llama.cpp's graph for it.

Layers alternate between a sliding window (even) and full attention (odd). Every head has a learned sink. Rope is the
half-split kind with yarn scaling. The mixture of experts applies softmax after the top-k choice. Swiglu is clamped.
All experts can be computed for all tokens and masked, or each for its tokens alone (experts.py).

Rows are trees, not lines (attention.py), so one system message and one analysis serve many continuations.
"""

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

import attention
import experts

SWIGLU_ALPHA = 1.702
SWIGLU_LIMIT = 7.0
MXFP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@dataclass
class Config:
    vocab: int = 1536
    layers: int = 6
    width: int = 192
    heads: int = 8
    kv_heads: int = 4
    head_dim: int = 32
    experts: int = 4
    experts_used: int = 2
    expert_width: int = 192
    window: int = 128
    eps: float = 1e-5
    rope_base: float = 150000.0
    rope_factor: float = 2.0
    rope_original: int = 4096
    context: int = 8192

    def dict(self):
        return asdict(self)


def rope_frequencies(cfg):
    """Angular frequency of each rope pair and the magnitude, with yarn (beta_fast 32, beta_slow 1) as ggml computes
    it."""
    half = cfg.head_dim // 2
    extrap = cfg.rope_base ** (-torch.arange(half, dtype=torch.float64) * 2 / cfg.head_dim)
    interp = extrap / cfg.rope_factor

    def corr(rotations):
        return cfg.head_dim * math.log(cfg.rope_original / (rotations * 2 * math.pi)) / (2 * math.log(cfg.rope_base))

    low, high = max(0.0, math.floor(corr(32.0))), min(cfg.head_dim - 1.0, math.ceil(corr(1.0)))
    ramp = 1 - ((torch.arange(half, dtype=torch.float64) - low) / max(0.001, high - low)).clamp(0, 1)
    return (interp * (1 - ramp) + extrap * ramp).float(), 1.0 + 0.1 * math.log(cfg.rope_factor)


class _MXFP4(torch.autograd.Function):
    """Rounds blocks of 32 along the last axis to MXFP4 (ggml's scale rule), with a straight-through gradient."""

    @staticmethod
    def forward(ctx, w):
        shape = w.shape
        b = w.float().reshape(-1, 32)
        amax = b.abs().amax(dim=1, keepdim=True)
        scale = torch.where(amax > 0, torch.exp2(torch.floor(torch.log2(amax)) - 2), torch.ones_like(amax))
        x = b / scale
        # The nearest of MXFP4_VALUES as a sum of steps, each at the midpoint between two values. Ties go down.
        m = x.abs()
        q = sum((high - low) * (m > (high + low) / 2) for low, high in zip(MXFP4_VALUES, MXFP4_VALUES[1:]))
        return (torch.sign(x) * q * scale).reshape(shape).to(w.dtype)

    @staticmethod
    def backward(ctx, g):
        return g


def mxfp4(w):
    return _MXFP4.apply(w)


def rms(x, weight, eps):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def swiglu(x):
    """Of gates and values side by side."""
    g, u = x.chunk(2, dim=-1)
    g, u = g.clamp(max=SWIGLU_LIMIT), u.clamp(-SWIGLU_LIMIT, SWIGLU_LIMIT)
    return g * torch.sigmoid(SWIGLU_ALPHA * g) * (u + 1)


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d, h, kv, hd, e, f = cfg.width, cfg.heads, cfg.kv_heads, cfg.head_dim, cfg.experts, cfg.expert_width
        self.cfg = cfg
        self.attn_norm = nn.Parameter(torch.ones(d))
        self.q, self.k, self.v = nn.Linear(d, h * hd), nn.Linear(d, kv * hd), nn.Linear(d, kv * hd)
        self.o = nn.Linear(h * hd, d)
        self.sinks = nn.Parameter(torch.zeros(h))
        self.ffn_norm = nn.Parameter(torch.ones(d))
        self.router = nn.Linear(d, e)
        self.gate, self.gate_b = nn.Parameter(torch.empty(e, f, d)), nn.Parameter(torch.zeros(e, f))
        self.up, self.up_b = nn.Parameter(torch.empty(e, f, d)), nn.Parameter(torch.zeros(e, f))
        self.down, self.down_b = nn.Parameter(torch.empty(e, d, f)), nn.Parameter(torch.zeros(e, d))
        for lin in (self.q, self.k, self.v, self.o, self.router):
            nn.init.normal_(lin.weight, std=d ** -0.5)
            nn.init.zeros_(lin.bias)
        nn.init.normal_(self.gate, std=d ** -0.5)
        nn.init.normal_(self.up, std=d ** -0.5)
        nn.init.normal_(self.down, std=0.5 * f ** -0.5)
        self.o.weight.data *= 0.5

    def attention(self, x, cos, sin, mask, attend):
        parts = (self.q, self.k, self.v)
        qkv = F.linear(x, torch.cat([p.weight for p in parts]), torch.cat([p.bias for p in parts]))
        return self.o(attend(qkv, cos, sin, self.sinks, mask))

    def experts(self, x, quantized, dispatched):
        c = self.cfg
        n, t, d = x.shape
        x = x.reshape(n * t, d)
        logits = self.router(x)
        best, index = logits.float().topk(c.experts_used, dim=-1)
        chosen = best.softmax(-1).to(logits.dtype)
        weight = torch.zeros_like(logits).scatter(1, index, chosen)
        into, into_bias = torch.cat((self.gate, self.up), 1), torch.cat((self.gate_b, self.up_b), 1)
        down = self.down
        if quantized:
            into, down = mxfp4(into), mxfp4(down)
        if dispatched:
            kind = logits.dtype
            y = experts.dispatch(x.to(kind), index, chosen, into.to(kind), into_bias.to(kind), swiglu, down.to(kind))
        else:
            h = swiglu(F.linear(x, into.flatten(0, 1), into_bias.flatten()).view(n * t, c.experts, -1))
            h = (h * weight.unsqueeze(-1)).flatten(1)
            y = F.linear(h, down.permute(1, 0, 2).flatten(1))
        return (y + weight @ self.down_b).view(n, t, d), logits, index

    def forward(self, x, cos, sin, mask, attend, quantized, dispatched):
        x = x + self.attention(rms(x, self.attn_norm, self.cfg.eps), cos, sin, mask, attend)
        y, logits, index = self.experts(rms(x, self.ffn_norm, self.cfg.eps), quantized, dispatched)
        return x + y, logits, index


class Model(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.embed = nn.Parameter(torch.randn(cfg.vocab, cfg.width) * 0.5)
        self.layers = nn.ModuleList(Layer(cfg) for _ in range(cfg.layers))
        self.norm = nn.Parameter(torch.ones(cfg.width))
        self.head = nn.Parameter(torch.randn(cfg.vocab, cfg.width) * cfg.width ** -0.5)
        freq, self.magnitude = rope_frequencies(cfg)
        self.register_buffer("freq", freq, persistent=False)
        self.attention = attention.plain_mask, attention.plain
        self.dispatched = False  # whether experts compute only the tokens that chose them

    def hidden(self, tokens, pos, end, quantized=False):
        angle = pos.float().unsqueeze(-1) * self.freq
        cos, sin = angle.cos() * self.magnitude, angle.sin() * self.magnitude
        mask, attend = self.attention
        full, near = mask(pos, end, 0), mask(pos, end, self.cfg.window)
        x = F.embedding(tokens, self.embed)
        balance = 0.0
        for i, layer in enumerate(self.layers):
            x, logits, index = layer(x, cos, sin, near if i % 2 == 0 else full, attend, quantized, self.dispatched)
            share = F.one_hot(index, self.cfg.experts).float().mean((0, 1))
            balance = balance + self.cfg.experts * (share * logits.float().softmax(-1).mean(0)).sum()
        return rms(x, self.norm, self.cfg.eps), balance / len(self.layers)

    def forward(self, tokens, pos, end, quantized=False):
        x, _ = self.hidden(tokens, pos, end, quantized)
        return x @ self.head.t()

    def losses(self, tokens, pos, end, at, label, quantized=False):
        """Cross entropy at each of the flat positions `at`, and the balance of the experts (1 is even)."""
        x, balance = self.hidden(tokens, pos, end, quantized)
        x = x.reshape(-1, x.shape[-1])[at]
        return F.cross_entropy(F.linear(x, self.head).float(), label, reduction="none"), balance

    def loss(self, tokens, pos, end, at, label, weight, quantized=False):
        """The weighted mean of the losses, and the balance."""
        losses, balance = self.losses(tokens, pos, end, at, label, quantized)
        return (losses * weight).sum() / weight.sum(), balance
