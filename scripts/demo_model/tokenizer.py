"""A small byte-level BPE, trained here and written to the GGUF as model `gpt2` with pre-tokenizer `gpt-4o`.

Digits are never merged, so every digit is one token. Control tokens come after the bytes and the merges.
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
    """GPT-2's printable character for every byte."""
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


def merge(counts, size, allowed, merges):
    """Appends to merges the most frequent allowed pairs of counts (word -> occurrences) until there are `size`
    merges."""
    splits = {}
    for w in counts:
        splits[w] = apply([ALPHABET[b] for b in w.encode()], merges)
    pairs, where = Counter(), defaultdict(set)
    for w, s in splits.items():
        for p in zip(s, s[1:]):
            pairs[p] += counts[w]
            where[p].add(w)
    while len(merges) < size:
        best = max(((n, p) for p, n in pairs.items() if n > 0 and allowed(p)), default=None)
        if best is None:
            raise ValueError("the corpus is too small for this vocabulary")
        a, b = best[1]
        merges.append((a, b))
        for w in list(where[(a, b)]):
            s, n = splits[w], counts[w]
            for p in zip(s, s[1:]):
                pairs[p] -= n
            splits[w] = out = join(s, a, b)
            for p in zip(out, out[1:]):
                pairs[p] += n
                where[p].add(w)
        del pairs[(a, b)]
    return merges


def join(s, a, b):
    out, i = [], 0
    while i < len(s):
        if i + 1 < len(s) and s[i] == a and s[i + 1] == b:
            out.append(a + b)
            i += 2
        else:
            out.append(s[i])
            i += 1
    return out


def apply(s, merges):
    for a, b in merges:
        if len(s) == 1:
            break
        s = join(s, a, b)
    return s


def train(counts, size, whole):
    """Learns merges from counts (word -> occurrences) until bytes, merges and control tokens are `size` tokens.

    Letters are merged first. The space or sign before a word is merged afterwards, and only with words that are one
    token and in `whole`. So a rare word has the same tokens after a space, a dot or a quote, which makes it possible
    to copy it from one place to another.
    """
    counts = {w: n for w, n in counts.items() if not regex.search(r"\p{N}", w)}
    total = size - 256 - len(CONTROL)
    letter = {ALPHABET[b] for c in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" for b in c.encode()}
    bare = Counter()
    for w, n in counts.items():
        stem = regex.sub(r"^[^\p{L}](?=\p{L})", "", w)
        bare[stem] += n
    merges = merge(bare, round(total * 0.62), lambda p: True, [])
    words_ = {"".join(ALPHABET[b] for b in w.encode()) for w in whole}
    return merge(counts, total, lambda p: p[1] in words_ if p[1][0] in letter else True, merges)


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
        """Plain text only: the name of a control token is encoded as ordinary characters."""
        out = []
        for w in words(text):
            out.extend(self.word(w))
        return out

    def decode(self, ids):
        return b"".join(self.bytes[i] for i in ids).decode("utf-8", "replace")
