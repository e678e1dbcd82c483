"""Trains the demo model: python train.py --minutes 40 [--device cuda|cpu] [--out DIR] [--resume]

Writes DIR/checkpoint.pt (model, optimizer, step, averaged weights) every few minutes and at the end; --resume goes on
from it, and --init starts from the weights of an exported model. The learning rate warms up, stays, and falls over the
last part of the time; from --quantize-from (a share of the time) on, the experts' weights are rounded to MXFP4 in the
forward pass, so that the exported model is the trained one.
Everything is seeded, but a run stops by the clock, so two runs agree only as far as they took the same steps.
"""

import argparse
import contextlib
import math
import time
from pathlib import Path

import torch

import attention
import load
from dataset import Stream
from model import Config, Model
from tokenizer import Tokenizer

HERE = Path(__file__).parent


def schedule(share, step, peak, warm=200, fall=0.45):
    """Learning rate for a share of the time used."""
    rate = peak * min(1.0, (step + 1) / warm)
    if share > 1 - fall:
        rate *= max(0.02, (1 - share) / fall)
    return rate


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--minutes", type=float, default=40)
    p.add_argument("--rows", type=int, default=0, help="rows of a batch (default 16 on a CPU, 512 on a GPU)")
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--rate", type=float, default=0)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--quantize-from", type=float, default=0.5)
    p.add_argument("--long-every", type=int, default=0, help="every this many steps a batch of rows four times as long")
    p.add_argument("--exact", action="store_true", help="no bf16")
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--tokenizer", default=str(HERE / "tokenizer.json"))
    p.add_argument("--out", default=str(HERE / "out"))
    p.add_argument("--resume", action="store_true")
    p.add_argument("--init", help="start from this GGUF file's weights, as export.py wrote them")
    a = p.parse_args()

    gpu = a.device.startswith("cuda")
    rows = a.rows or (512 if gpu else 16)
    rate = a.rate or (3e-3 if gpu else 2e-3)
    workers = a.workers or (14 if gpu else 1)
    out = Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(a.seed)
    torch.set_float32_matmul_precision("high")

    cfg = Config(vocab=len(Tokenizer.load(a.tokenizer).tokens))
    model = Model(cfg)
    if a.init:
        model.load_state_dict(load.read(a.init, model.state_dict(keep_vars=True), cfg))
    model.to(a.device)
    model.attention = attention.best(a.device)
    decay = [q for n, q in model.named_parameters() if q.dim() >= 2 and "_b" not in n and n != "embed"]
    kept = {id(q) for q in decay}
    rest = [q for q in model.parameters() if id(q) not in kept]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}],
                            lr=rate, betas=(0.9, 0.98), fused=True)
    average = {n: q.detach().clone() for n, q in model.named_parameters()}
    step, used, seen = 0, 0.0, 0
    path = out / "checkpoint.pt"
    if a.resume and path.exists():
        state = torch.load(path, map_location=a.device)
        model.load_state_dict(state["model"])
        opt.load_state_dict(state["opt"])
        average, step, seen = state["average"], state["step"], state["seen"]
    print(f"{sum(q.numel() for q in model.parameters()):,} parameters, {a.device}, from step {step}", flush=True)

    def stream(length, count, long, w):
        data = Stream(a.tokenizer, count, length, a.seed + step, long=long)
        return iter(torch.utils.data.DataLoader(data, batch_size=None, num_workers=w, prefetch_factor=4, pin_memory=gpu))

    short = stream(a.length, rows, False, workers)
    far = stream(a.length * 4, max(1, rows // 16), True, 1) if a.long_every else None
    loss_of = model.loss if a.no_compile else torch.compile(model.loss)
    bf16 = contextlib.nullcontext if a.exact else (lambda: torch.autocast(a.device.split(":")[0], torch.bfloat16))

    def save():
        torch.save({"config": cfg.dict(), "model": model.state_dict(), "opt": opt.state_dict(), "average": average,
                    "step": step, "seen": seen}, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    begin, last_print, last_save, first = time.time(), time.time(), time.time(), step
    tally, tally_n = 0.0, 0
    while used < a.minutes * 60:
        share = used / (a.minutes * 60)
        for g in opt.param_groups:
            g["lr"] = schedule(share, step - first, rate, warm=20 if first else 200)
        long = far is not None and step % a.long_every == a.long_every - 1
        batch = [x.to(a.device, non_blocking=True) for x in next(far if long else short)]
        with bf16():
            loss, balance = loss_of(*batch, quantized=share >= a.quantize_from)
        (loss + 0.01 * balance).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        seen += batch[0].numel()
        if share > 0.5:
            with torch.no_grad():
                keep = min(0.99 if not gpu else 0.98, step / (step + 10))
                for n, q in model.named_parameters():
                    average[n].mul_(keep).add_(q, alpha=1 - keep)
        elif step % 20 == 0:
            with torch.no_grad():
                for n, q in model.named_parameters():
                    average[n].copy_(q)
        if not long:
            tally, tally_n = tally + loss.detach(), tally_n + 1
        used = time.time() - begin
        if time.time() - last_print > 15:
            last_print = time.time()
            print(f"{used / 60:5.1f} of {a.minutes:g} min  step {step}  tokens {seen / 1e6:.2f}M  loss {float(tally) / max(1, tally_n):.4f}"
                  f"  balance {float(balance):.3f}  rate {opt.param_groups[0]['lr']:.2e}", flush=True)
            tally, tally_n = 0.0, 0
        if time.time() - last_save > 120:
            last_save = time.time()
            save()
    save()
    print(f"done: step {step}, {seen / 1e6:.2f}M tokens, {used / 60:.1f} min", flush=True)


if __name__ == "__main__":
    main()
