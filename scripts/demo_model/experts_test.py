"""Compares the dispatched experts with experts computed for all tokens, and checks the rounding: python
experts_test.py"""

import torch

from model import MXFP4_VALUES, Config, Layer, mxfp4


def run(layer, x, grad, dispatched, quantized):
    x = x.clone().requires_grad_()
    layer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        y, _, _ = layer.experts(x, quantized, dispatched)
    y.backward(grad.to(y.dtype))
    named = {n: p.grad.clone() for n, p in layer.named_parameters() if p.grad is not None}
    return {"output": y.detach(), "input": x.grad, **named}


def main():
    torch.manual_seed(1)
    layer = Layer(Config(width=64, expert_width=96))
    for name in ("gate_b", "up_b", "down_b"):
        torch.nn.init.normal_(getattr(layer, name))
    worst = 0.0
    for tokens, lean in ((1, 0.0), (37, 0.0), (700, 0.0), (300, 50.0)):  # leaning: nearly all tokens choose expert 2
        layer.router.bias.data[2] = lean
        x, grad = torch.randn(1, tokens, 64).bfloat16(), torch.randn(1, tokens, 64)
        for quantized in (False, True):
            got, wanted = (run(layer, x, grad, dispatched, quantized) for dispatched in (True, False))
            assert got.keys() == wanted.keys() and {"gate", "up", "down", "gate_b", "up_b",
                "router.weight"} <= got.keys()
            for name in wanted:
                error = ((got[name].float() - wanted[name].float()).norm() / wanted[name].float().norm().clamp(min=1e-2)).item()
                if not error < 5e-2:
                    raise SystemExit(f"{name}: relative error {error:.2g} with {tokens} tokens, quantized {quantized}")
                worst = max(worst, error)
    print(f"dispatched experts: largest relative error {worst:.2g}")

    w = torch.randn(64, 32) * torch.logspace(-6, 3, 64)[:, None]
    w[:2, 1:] = torch.linspace(-6, 6, 31)
    w[0, 0] = 6.0
    table = torch.tensor(sorted({s * v for v in MXFP4_VALUES for s in (-1, 1)}))
    scale = 2 ** (w.abs().amax(1, keepdim=True).log2().floor() - 2)
    nearest = ((w / scale).unsqueeze(-1) - table).abs().amin(-1) * scale
    torch.testing.assert_close((w - mxfp4(w)).abs(), nearest)
    print("mxfp4: every weight goes to the nearest value")


if __name__ == "__main__":
    main()
