"""Writes the reference for the engine check: python probe.py OUT/checkpoint.pt probe.json

The file has token ids and the logits that PyTorch computes at each position with the exported weights. The Go program
in eval/ compares them with the engine's (-probe).
"""

import argparse
import json
import random
from pathlib import Path

import torch

import harmony
from model import Config, Model
from skills import mix
from tokenizer import Tokenizer

HERE = Path(__file__).parent


def main():
    p = argparse.ArgumentParser()
    p.add_argument("checkpoint")
    p.add_argument("out")
    p.add_argument("--raw", action="store_true")
    p.add_argument("--tokenizer", default=str(HERE / "tokenizer.json"))
    p.add_argument("--cases", type=int, default=4)
    a = p.parse_args()
    state = torch.load(a.checkpoint, map_location="cpu")
    model = Model(Config(**state["config"]))
    model.load_state_dict({**state["model"], **({} if a.raw else state["average"])})
    for n, q in model.named_parameters():
        if n in ("embed", "head") or n.endswith(("q.weight", "k.weight", "v.weight", "o.weight")):
            q.data = q.data.half().float()
    tok, rng, cases = Tokenizer.load(a.tokenizer), random.Random(7), []
    fmt = harmony.Format(tok)
    for i in range(a.cases):
        text, ids = "", fmt.say("system", harmony.system_text(rng, "high", False))
        for _ in range(1 + 4 * i):
            turn = mix()[0][0](rng, "high")
            ids += fmt.say("user", turn.question) + fmt.assistant + fmt.analysis_header + tok.encode(turn.text()) + [fmt.end]
            text += turn.question + "\n"
        t = torch.tensor([ids])
        pos = torch.arange(len(ids))[None]
        with torch.no_grad():
            logits = model(t, pos, torch.full_like(t, len(ids)), quantized=True)[0]
        cases.append({"tokens": ids, "last": logits[-1].tolist(), "best": logits.argmax(-1).tolist(),
                      "text": text, "encoded": tok.encode(text)})
    Path(a.out).write_text(json.dumps(cases))
    print(f"{len(cases)} cases of {[len(c['tokens']) for c in cases]} tokens")


if __name__ == "__main__":
    main()
