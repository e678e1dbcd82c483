"""Trains the tokenizer on generated conversations: python make_tokenizer.py [--size 1024] [--out tokenizer.json]"""

import argparse
import random
from collections import Counter
from pathlib import Path

import harmony
import prompts
from skills import EFFORTS, mix
from skills.words import ADJECTIVES, COMMON, NOUNS, OBJECTS, VERBS
from tokenizer import Tokenizer, train, words


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=1024)
    p.add_argument("--turns", type=int, default=30000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", default=str(Path(__file__).parent / "tokenizer.json"))
    a = p.parse_args()
    rng, counts = random.Random(a.seed), Counter()

    def see(text, times=1):
        for w in words(text):
            counts[w] += times

    for _ in range(a.turns):
        effort = rng.choice(EFFORTS)
        tools = rng.random() < 0.1
        see(harmony.system_text(rng, effort, tools))
        if rng.random() < 0.3:
            see(harmony.developer_text(rng, tools))
        for make, _ in mix():
            t = make(rng, effort)
            for s in (t.question, t.text(), t.final, t.concise, t.detailed, t.posthoc):
                see(s)
    for s in (prompts.SUMMARY_CONCISE, prompts.SUMMARY_DETAILED, prompts.POSTHOC, prompts.BUDGET, "system", "developer", "user",
              "assistant", "analysis", "final", "commentary", "functions"):
        see(s, a.turns // 4)
    for pool in (COMMON, NOUNS, VERBS, ADJECTIVES, OBJECTS):
        for w in pool:
            see(" " + w, 50)
    tok = Tokenizer(train(counts, a.size))
    tok.save(a.out)
    print(f"{len(tok.tokens)} tokens, written to {a.out}")


if __name__ == "__main__":
    main()
