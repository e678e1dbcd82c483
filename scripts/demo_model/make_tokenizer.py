"""Trains the tokenizer on generated conversations: python make_tokenizer.py [--size 1536] [--out tokenizer.json]"""

import argparse
from collections import Counter
from pathlib import Path

import prompts
from dataset import Builder
from skills.words import ADJECTIVES, COMMON, NOUNS, OBJECTS, VERBS
from tokenizer import Tokenizer, train, words

HEADERS = ("system", "developer", "user", "assistant", "analysis", "final", "commentary", "functions", "json",
    ".functions", " to=functions")


class Corpus:
    """Counts words in place of a tokenizer: everything that a row builder encodes must be written by the tokenizer."""

    def __init__(self):
        self.counts, self.pending = Counter(), []
        self.control = {f"<|{n}|>": 0 for n in ("start", "end", "message", "channel", "return", "constrain", "call")}
        self.bytes = [b" "]

    def encode(self, text):
        self.counts.update(words(text))
        return [0] * (len(text) // 4 + 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--size", type=int, default=1536)
    p.add_argument("--rows", type=int, default=6000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", default=str(Path(__file__).parent / "tokenizer.json"))
    a = p.parse_args()
    corpus = Corpus()
    builder = Builder(corpus, a.seed, 512)
    for _ in range(a.rows):
        builder.row()
    counts = corpus.counts
    for text in (prompts.SUMMARY_CONCISE, prompts.SUMMARY_DETAILED, prompts.POSTHOC, prompts.BUDGET, *HEADERS):
        for w in words(text):
            counts[w] += a.rows // 8
    for pool in (COMMON, NOUNS, VERBS, ADJECTIVES, OBJECTS):
        for w in pool:
            counts[" " + w] += 40
    written = Counter()
    for w, n in counts.items():
        if w[0] in " ._\"" and w[1:].isalpha():
            written[w[1:]] += n
    whole = [w for w, n in written.most_common(600)]
    tok = Tokenizer(train(counts, a.size, whole))
    tok.save(a.out)
    print(f"{len(tok.tokens)} tokens, written to {a.out}")


if __name__ == "__main__":
    main()
