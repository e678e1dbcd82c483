"""The demo model in PyTorch: the gpt-oss architecture, computed exactly as llama.cpp's graph for it computes.

Alternating layers see a sliding window (even layers) or everything (odd layers); every head has a learned sink; rope is
the half-split kind with yarn scaling; the mixture of experts takes the softmax after the top-k choice; swiglu is clamped.
All experts are computed for all tokens and masked, because four small experts are cheaper that way than dispatched.

Rows hold trees, not lines: a row's tokens are the preorder walk of a tree of continuations, and token j is visible to
token i when j <= i < end[j]. One system message and one analysis so serve many continuations.
"""

import math
from dataclasses import asdict, dataclass

import torch
import torch.nn.functional as F
from torch import nn

SWIGLU_ALPHA = 1.702
SWIGLU_LIMIT = 7.0
MXFP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@dataclass
class Config:
    vocab: int = 1024
    layers: int = 4
    width: int = 160
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 32
    experts: int = 4
    experts_used: int = 2
    expert_width: int = 160
    window: int = 128
    eps: float = 1e-5
    rope_base: float = 150000.0
    rope_factor: float = 2.0
    rope_original: int = 2048
    context: int = 4096

    def dict(self):
        return asdict(self)


def rope_frequencies(cfg):
    """Angular frequency of each rope pair and the magnitude, with yarn (beta_fast 32, beta_slow 1) as ggml computes it."""
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
        m = x.abs()
        table = torch.tensor(MXFP4_VALUES, device=w.device)
        edges = (table[1:] + table[:-1]) / 2
        q = table[torch.bucketize(m, edges)]
        return (torch.sign(x) * q * scale).reshape(shape).to(w.dtype)

    @staticmethod
    def backward(ctx, g):
        return g


def mxfp4(w):
    return _MXFP4.apply(w)


def rms(x, weight, eps):
    y = x.float()
    return (y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


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

    def attention(self, x, cos, sin, bias):
        c = self.cfg
        n, t, _ = x.shape
        q = rotate(self.q(x).view(n, t, c.heads, c.head_dim).transpose(1, 2), cos, sin)
        k = rotate(self.k(x).view(n, t, c.kv_heads, c.head_dim).transpose(1, 2), cos, sin)
        v = self.v(x).view(n, t, c.kv_heads, c.head_dim).transpose(1, 2)
        groups = c.heads // c.kv_heads
        q = q.reshape(n, c.kv_heads, groups * t, c.head_dim)
        s = (q @ k.transpose(-1, -2)).view(n, c.heads, t, t)
        s = s * c.head_dim ** -0.5 + bias
        sink = self.sinks.view(1, -1, 1, 1).to(s.dtype)
        top = torch.maximum(s.amax(-1, keepdim=True), sink).detach()
        p = torch.exp(s - top)
        p = p / (p.sum(-1, keepdim=True) + torch.exp(sink - top))
        y = p.to(v.dtype).view(n, c.kv_heads, groups * t, t) @ v
        return self.o(y.view(n, c.heads, t, c.head_dim).transpose(1, 2).reshape(n, t, -1))

    def experts(self, x, quantized):
        c = self.cfg
        n, t, d = x.shape
        x = x.reshape(n * t, d)
        logits = self.router(x)
        best, index = logits.float().topk(c.experts_used, dim=-1)
        weight = torch.zeros_like(logits).scatter(1, index, best.softmax(-1).to(logits.dtype))
        gate, up, down = self.gate, self.up, self.down
        if quantized:
            gate, up, down = mxfp4(gate), mxfp4(up), mxfp4(down)
        e, f = c.experts, c.expert_width
        g = F.linear(x, gate.view(e * f, d), self.gate_b.view(-1))
        u = F.linear(x, up.view(e * f, d), self.up_b.view(-1))
        g = g.clamp(max=SWIGLU_LIMIT)
        u = u.clamp(-SWIGLU_LIMIT, SWIGLU_LIMIT)
        h = g * torch.sigmoid(SWIGLU_ALPHA * g) * (u + 1)
        h = (h.view(-1, e, f) * weight.unsqueeze(-1)).reshape(-1, e * f)
        y = F.linear(h, down.permute(1, 0, 2).reshape(d, e * f)) + weight @ self.down_b
        return y.view(n, t, d), logits, index

    def forward(self, x, cos, sin, bias, quantized):
        x = x + self.attention(rms(x, self.attn_norm, self.cfg.eps), cos, sin, bias)
        y, logits, index = self.experts(rms(x, self.ffn_norm, self.cfg.eps), quantized)
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

    def masks(self, pos, end):
        """Additive masks, (rows, 1, t, t): everything before in the same branch, and the same within the window."""
        t = pos.shape[1]
        i = torch.arange(t, device=pos.device)
        seen = (i[None, None, :] <= i[None, :, None]) & (i[None, :, None] < end[:, None, :])
        near = seen & (pos[:, :, None] - pos[:, None, :] < self.cfg.window)
        to_bias = lambda m: torch.where(m, 0.0, -1e9).unsqueeze(1)
        return to_bias(seen), to_bias(near)

    def hidden(self, tokens, pos, end, quantized=False):
        angle = pos.float()[:, None, :, None] * self.freq
        cos, sin = angle.cos() * self.magnitude, angle.sin() * self.magnitude
        full, near = self.masks(pos, end)
        x = F.embedding(tokens, self.embed)
        balance = 0.0
        for i, layer in enumerate(self.layers):
            x, logits, index = layer(x, cos, sin, near if i % 2 == 0 else full, quantized)
            share = F.one_hot(index, self.cfg.experts).float().mean((0, 1))
            balance = balance + self.cfg.experts * (share * logits.float().softmax(-1).mean(0)).sum()
        return rms(x, self.norm, self.cfg.eps), balance / len(self.layers)

    def forward(self, tokens, pos, end, quantized=False):
        x, _ = self.hidden(tokens, pos, end, quantized)
        return x @ self.head.t()

    def loss(self, tokens, pos, end, at, label, weight, quantized=False):
        """Mean cross entropy at the flat positions `at`, and the experts' balance (1 is even)."""
        x, balance = self.hidden(tokens, pos, end, quantized)
        x = x.reshape(-1, x.shape[-1])[at]
        logits = x.float() @ self.head.t()
        return (F.cross_entropy(logits, label, reduction="none") * weight).sum() / weight.sum(), balance
