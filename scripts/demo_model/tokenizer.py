"""A small byte-level BPE: trained here, written into the GGUF as model `gpt2`, pre-tokenizer `gpt-4o`.

Digits are never merged, so every digit is one token. Control tokens sit after the bytes and the merges.
"""

import json
from collections import Counter, defaultdict

import regex

CONTROL = ("<|startoftext|>", "<|endoftext|>", "<|return|>", "<|constrain|>", "<|channel|>", "<|start|>", "<|end|>",
           "<|message|>", "<|call|>")

# The pre-tokenizer as llama.cpp runs it for `gpt-4o`: its letter classes differ from the original's outside ASCII.
SPLIT = regex.compile(
    r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"
    r"|[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_alphabet():
    """GPT-2's printable stand-in for every byte."""
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for b in range(256):
        if b in keep:
            table[b] = chr(b)
        else:
            table[b] = chr(256 + extra)
            extra += 1
    return table


ALPHABET = byte_alphabet()


def words(text):
    return [m.group(0) for m in SPLIT.finditer(text)]


def train(counts, size):
    """Learns merges from counts (word -> occurrences) until bytes, merges and control tokens are `size` tokens."""
    splits = {w: [ALPHABET[b] for b in w.encode()] for w in counts if not regex.search(r"\p{N}", w)}
    pairs, where = Counter(), defaultdict(set)
    for w, s in splits.items():
        for p in zip(s, s[1:]):
            pairs[p] += counts[w]
            where[p].add(w)
    merges = []
    while len(merges) < size - 256 - len(CONTROL):
        best = max(pairs.items(), key=lambda kv: (kv[1], kv[0]))
        if best[1] <= 0:
            raise ValueError("the corpus is too small for this vocabulary")
        a, b = best[0]
        merges.append((a, b))
        for w in list(where[(a, b)]):
            s, n = splits[w], counts[w]
            for p in zip(s, s[1:]):
                pairs[p] -= n
            out, i = [], 0
            while i < len(s):
                if i + 1 < len(s) and s[i] == a and s[i + 1] == b:
                    out.append(a + b)
                    i += 2
                else:
                    out.append(s[i])
                    i += 1
            splits[w] = out
            for p in zip(out, out[1:]):
                pairs[p] += n
                where[p].add(w)
        del pairs[(a, b)]
    return merges


class Tokenizer:
    def __init__(self, merges):
        self.merges = [tuple(m) for m in merges]
        self.tokens = [ALPHABET[b] for b in range(256)] + [a + b for a, b in self.merges] + list(CONTROL)
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.ranks = {m: i for i, m in enumerate(self.merges)}
        self.control = {c: self.ids[c] for c in CONTROL}
        self.cache = {}
        back = {c: b for b, c in ALPHABET.items()}
        self.bytes = [bytes(back[c] for c in t) for t in self.tokens[:-len(CONTROL)]] + [c.encode() for c in CONTROL]

    @classmethod
    def load(cls, path):
        with open(path) as f:
            return cls(json.load(f)["merges"])

    def save(self, path):
        with open(path, "w") as f:
            json.dump({"merges": self.merges}, f, ensure_ascii=False, indent=0)

    def word(self, w):
        got = self.cache.get(w)
        if got is None:
            s = [ALPHABET[b] for b in w.encode()]
            while len(s) > 1:
                rank, i = min((self.ranks.get(p, 1 << 30), i) for i, p in enumerate(zip(s, s[1:])))
                if rank == 1 << 30:
                    break
                s[i:i + 2] = [s[i] + s[i + 1]]
            got = [self.ids[t] for t in s]
            if len(self.cache) < 200_000:
                self.cache[w] = got
        return got

    def encode(self, text):
        """Plain text only: a control token's name is encoded as the characters it is written with."""
        out = []
        for w in words(text):
            out.extend(self.word(w))
        return out

    def decode(self, ids):
        return b"".join(self.bytes[i] for i in ids).decode("utf-8", "replace")
