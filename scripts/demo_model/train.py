"""Trains the demo model: python train.py [--minutes 240] [--resume] [--device cuda|cpu] [--out DIR]

--minutes counts the whole training, over all resumptions. After SIGINT, SIGTERM or a kill, --resume continues from
DIR/checkpoint.pt (weights, their running average, optimizers, step, time used). It is written every two minutes, when
stopped, and at the end. The learning rate warms up, stays constant and falls; twice more it rises and falls again.
From --quantize-from (a share of the whole time) on, the experts' weights are rounded to MXFP4 in the forward pass, so
that the exported model is the trained one. --init starts from the weights of an exported model.

Everything is seeded; after a resumption the data is seeded by the step too. Training ends by the clock, so two runs
agree only as far as they took the same steps at the same times.
"""

import argparse
import contextlib
import signal
import sys
import time
from pathlib import Path

import torch

import attention
import dataset
import harmony
import load
from model import Config, Model
from optimizer import Muon
from tokenizer import Tokenizer

HERE = Path(__file__).parent
MUON = 2.5  # times the rate of the rest
HELD_OUT = 10**6  # added to the seed for batches to measure with


# The end of each stretch as a share of the whole time, the share of the peak rate at its start, and the part of it in
# which the rate falls. The rarer kinds of data are mostly learned while the rate falls, so there is more than one
# stretch.
STRETCHES = ((0.3, 1.0, 0.35), (0.675, 1.0, 0.65), (1.0, 0.6, 1.0))


def schedule(share, step, peak, warm=200):
    """The learning rate at a share of the time used."""
    rate, begin = peak * min(1.0, (step + 1) / warm), 0.0
    for end, height, fall in STRETCHES:
        if share < end or end == 1.0:
            left = (end - share) / (end - begin)
            return rate * height * max(0.02, min(1.0, left / fall))
        begin = end


def clock(seconds):
    return f"{int(seconds) // 3600}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"


def batches(a, rows, length, seed, workers, long=False):
    def quiet(_):
        """Leaves stopping to the main process when a signal reaches the whole process group."""
        for s in (signal.SIGINT, signal.SIGTERM):
            signal.signal(s, signal.SIG_IGN)

    data = dataset.Stream(a.tokenizer, rows, length, seed, long=long)
    return iter(torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers, prefetch_factor=4,
                                            pin_memory=a.device.startswith("cuda"), worker_init_fn=quiet))


@torch.no_grad()
def held_out(model, data, quantized):
    """The loss on batches that training does not draw, overall and by kind of turn where batches have a kind per
    label."""
    sums = {}
    for batch in data:
        losses, weight = model.losses(*batch[:5], quantized=quantized)[0].double(), batch[5].double()
        kinds = [("all", weight)]
        if len(batch) > 6:
            kinds += [(name, weight * (batch[6] == i)) for i, name in enumerate(dataset.KINDS)]
        for name, w in kinds:
            loss, count = sums.get(name, (0.0, 0.0))
            sums[name] = loss + float((losses * w).sum()), count + float(w.sum())
    return ", ".join(f"{name} {loss / count:.4f}" for name, (loss, count) in sums.items() if count > 0)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    p.add_argument("--minutes", type=float, default=240, help="of the whole training, over all resumptions")
    p.add_argument("--rows", type=int, default=0, help="rows per batch (default 12 on a CPU, 256 on a GPU)")
    p.add_argument("--length", type=int, default=1024)
    p.add_argument("--rate", type=float, default=0)
    p.add_argument("--workers", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--quantize-from", type=float, default=0.12)
    p.add_argument("--long-every", type=int, default=25,
        help="every this many steps a batch of long rows, as many tokens in all")
    p.add_argument("--long-length", type=int, default=4096)
    p.add_argument("--exact", action="store_true", help="no bf16")
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--tokenizer", default=str(HERE / "tokenizer.json"))
    p.add_argument("--out", default=str(HERE / "out"))
    p.add_argument("--resume", action="store_true")
    p.add_argument("--init", help="start from this GGUF file's weights, as export.py wrote them")
    a = p.parse_args()

    gpu = a.device.startswith("cuda")
    rows = a.rows or (256 if gpu else 12)
    rate = a.rate or (3e-3 if gpu else 2e-3)
    workers = a.workers or (14 if gpu else 1)
    out, whole = Path(a.out), a.minutes * 60
    out.mkdir(parents=True, exist_ok=True)
    path = out / "checkpoint.pt"
    if path.exists() and not a.resume:
        raise SystemExit(f"{path} exists: continue from it with --resume, or remove it")
    if a.resume and not path.exists():
        raise SystemExit(f"cannot resume: {path} does not exist")
    torch.manual_seed(a.seed)
    torch.set_float32_matmul_precision("high")

    tok = Tokenizer.load(a.tokenizer)
    harmony.check(tok)
    cfg = Config(vocab=len(tok.tokens))
    model = Model(cfg)
    if a.init:
        model.load_state_dict(load.read(a.init, model.state_dict(keep_vars=True), cfg))
    model.to(a.device)
    model.attention = attention.best(a.device)
    model.dispatched = not gpu
    named = dict(model.named_parameters())
    matrices = [q for n, q in named.items() if n.startswith("layers.") and q.dim() >= 2 and "_b" not in n
        and "router" not in n]
    taken = {id(q) for q in matrices}
    opts = [Muon(matrices, lr=MUON * rate, weight_decay=0.05),
            torch.optim.AdamW([q for q in named.values() if id(q) not in taken], lr=rate, betas=(0.9, 0.98),
            weight_decay=0.0, fused=True)]
    average = {n: q.detach().clone() for n, q in named.items()}
    step, before, seen = 0, 0.0, 0
    if a.resume:
        state = torch.load(path, map_location=a.device)
        model.load_state_dict(state["model"])
        for o, saved in zip(opts, state["opt"]):
            o.load_state_dict(saved)
        average, step, before, seen = state["average"], state["step"], state["used"], state["seen"]
    print(f"{sum(q.numel() for q in named.values()):,} parameters, {a.device}, from step {step}, "
          f"{clock(before)} of {clock(whole)} used", flush=True)

    short = batches(a, rows, a.length, a.seed + step, workers)
    far = batches(a, max(1, rows * a.length // a.long_length), a.long_length, a.seed + step, 1,
        long=True) if a.long_every else None
    measure = [[x.to(a.device) for x in next(batches(a, 16, a.length, a.seed + HELD_OUT, 1))]]
    loss_of = model.loss if a.no_compile else torch.compile(model.loss)
    bf16 = contextlib.nullcontext if a.exact else (lambda: torch.autocast(a.device.split(":")[0], torch.bfloat16))

    def save():
        torch.save({"config": cfg.dict(), "model": model.state_dict(), "opt": [o.state_dict() for o in opts],
                    "average": average,
                    "step": step, "seen": seen, "used": used}, path.with_suffix(".new"))
        path.with_suffix(".new").replace(path)

    stopped = []
    for s in (signal.SIGINT, signal.SIGTERM):
        signal.signal(s, lambda number, frame: stopped.append(number))
    begin = last_print = last_save = time.time()
    used, seen_then, tally, tally_n = before, seen, 0.0, 0
    line_end = "\r" if sys.stdout.isatty() else "\n"
    while used < whole and not stopped:
        share = used / whole
        now_at = schedule(share, step, rate)
        for o, times in zip(opts, (MUON, 1.0)):
            for g in o.param_groups:
                g["lr"] = times * now_at
        long = far is not None and step % a.long_every == a.long_every - 1
        batch = [x.to(a.device, non_blocking=True) for x in next(far if long else short)]
        with bf16():
            loss, balance = loss_of(*batch[:6], quantized=share >= a.quantize_from)
        (loss + 0.01 * balance).backward()
        torch.nn.utils.clip_grad_norm_(named.values(), 1.0)
        for o in opts:
            o.step()
            o.zero_grad(set_to_none=True)
        step += 1
        seen += batch[0].numel()
        with torch.no_grad():
            keep = min(0.99 if gpu else 0.998, step / (step + 10))
            torch._foreach_lerp_([average[n] for n in named], list(named.values()), 1 - keep)
        if not long:
            tally, tally_n = tally + loss.detach(), tally_n + 1
        now = time.time()
        used = before + now - begin
        if now - last_print > 15:
            pace = (seen - seen_then) / (now - last_print)
            print(f"{100 * used / whole:5.1f}%  step {step}  {seen / 1e6:.2f}M tokens, {pace:,.0f} a second  "
                  f"loss {float(tally) / max(1, tally_n):.4f}  ends in {clock(max(0, whole - used))} ", end=line_end,
                  flush=True)
            last_print, seen_then, tally, tally_n = now, seen, 0.0, 0
        if now - last_save > 120:
            last_save = now
            save()
            with bf16():
                print(f"held out: {held_out(model, measure, share >= a.quantize_from)}  balance {balance.item():.3f}",
                    flush=True)
    save()
    print(f"{'stopped' if stopped else 'done'}: step {step}, {seen / 1e6:.2f}M tokens, {clock(used)} of {clock(whole)}", flush=True)


if __name__ == "__main__":
    main()
