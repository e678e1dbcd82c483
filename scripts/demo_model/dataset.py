"""Training rows: trees of tokens packed to a fixed length, and batches of them from worker processes.

A row starts with one system message (and perhaps a developer message); conversations hang off it as branches. In a
conversation the next turn hangs off the question, with the reasoning dropped, as the format wants; the answer that is
learned, its summaries, its cut-off variants and the answer without reasoning are branches too.
"""

import random

import numpy as np
import torch

import harmony
import prompts
from skills import EFFORTS, mix
from skills.identity import unrelated
from skills.words import OBJECTS

FACT, IDLE = 1.0, 0.0


class Tree:
    def __init__(self):
        self.token, self.pos, self.parent, self.label, self.weight = [], [], [], [], []

    def __len__(self):
        return len(self.token)

    def add(self, parent, ids, weights=None, gap=0):
        """Hangs a chain below `parent`; weights[i] is the loss weight of predicting ids[i]. Returns the chain's last index."""
        for i, t in enumerate(ids):
            w = weights[i] if weights else 0.0
            if w > 0 and parent >= 0:
                if self.label[parent] >= 0 and self.label[parent] != t:
                    raise ValueError("one token cannot have two labels")
                self.label[parent], self.weight[parent] = t, w
            self.token.append(t)
            self.pos.append(self.pos[parent] + 1 + gap if parent >= 0 else 0)
            self.parent.append(parent)
            self.label.append(-1)
            self.weight.append(0.0)
            parent, gap = len(self.token) - 1, 0
        return parent

    def cut(self, size, keep):
        for a in (self.token, self.pos, self.parent, self.label, self.weight):
            del a[size:]
        self.label[size - 1], self.weight[size - 1] = keep

    def ends(self):
        end = list(range(1, len(self) + 1))
        for i in range(len(self) - 1, 0, -1):
            p = self.parent[i]
            end[p] = max(end[p], end[i])
        return end


class Builder:
    def __init__(self, tok, seed, length, far=3500):
        self.tok, self.fmt, self.rng, self.length, self.far = tok, harmony.Format(tok), random.Random(seed), length, far
        self.skills = mix()

    def draw(self, effort):
        roll = self.rng.random()
        for make, share in self.skills:
            if roll < share:
                return make(self.rng, effort)
            roll -= share
        return self.skills[-1][0](self.rng, effort)

    def answer(self, tree, at, turn, weight):
        ids = self.tok.encode(turn.final) + [self.fmt.ret]
        return tree.add(at, ids, [weight] * len(ids))

    def summaries(self, tree, at, pairs):
        f = self.fmt
        for prompt, text in pairs:
            ask = f.say("developer", prompt) + f.assistant + f.final_header
            ids = self.tok.encode(text) + [f.ret]
            tree.add(at, ask + ids, [0.0] * len(ask) + [1.0] * len(ids))

    def weigh(self, turn):
        """The analysis as tokens, their loss weights, and how many tokens there are when the result is known.

        The text is tokenized as a whole, as a runner would; a token weighs what the piece weighs that it begins in."""
        ids = self.tok.encode(turn.text())
        weights, at, left, done = [], -1, 0, 0
        for t in ids:
            while left <= 0:
                at += 1
                left += len(turn.analysis[at][0].encode())
            weights.append(turn.analysis[at][1])
            left -= len(self.tok.bytes[t])
            if at < turn.complete:
                done = len(weights)
        return ids, weights, done

    def generation(self, tree, asked, turn):
        """Everything that the model may write after a question."""
        f, rng = self.fmt, self.rng
        root = tree.add(asked, f.assistant)
        text, weights, done = self.weigh(turn)
        done += len(f.analysis_header)
        ids, weights = f.analysis_header + text, [1.0] * len(f.analysis_header) + weights
        first = len(tree)
        end = tree.add(root, ids + [f.end], weights + [1.0])
        head = f.assistant + f.final_header
        # Between its messages the model writes the whole header itself, <|start|>assistant included.
        fin = tree.add(end, head, [1.0] * len(head))
        self.answer(tree, fin, turn, 1.0)
        roll = rng.random()
        wanted = [(prompts.SUMMARY_CONCISE, turn.concise), (prompts.SUMMARY_DETAILED, turn.detailed)]
        if turn.concise and roll < 0.45:
            self.summaries(tree, end, wanted if roll < 0.15 else [rng.choice(wanted)])
        if rng.random() < 0.3:
            start = first + len(f.analysis_header) - 1
            at = rng.randrange(start, first + len(ids))
            known = turn.kind == "identity" or at >= first + done - 1
            close = tree.add(at, self.tok.encode(prompts.BUDGET) + [f.end])
            fin = tree.add(close, f.assistant + f.final_header)
            self.answer(tree, fin, turn, 1.0 if known else 0.3)
            if turn.concise and rng.random() < 0.3:
                text = rng.choice((turn.concise, turn.detailed)) if known else "The work stopped early."
                if known and at < first + len(ids) - 1:
                    text = turn.concise
                if not known or at >= first + len(ids) - 1:
                    self.summaries(tree, close, [(rng.choice((prompts.SUMMARY_CONCISE, prompts.SUMMARY_DETAILED)), text)])
        if turn.direct and rng.random() < 0.25:
            fin = tree.add(root, f.final_header)
            self.answer(tree, fin, turn, 1.0 if turn.kind == "identity" else 0.3)

    def conversation(self, tree, at, effort, turns, gap=0):
        f, rng = self.fmt, self.rng
        for i in range(turns):
            turn = self.draw(effort)
            at = tree.add(at, f.say("user", turn.question), gap=gap)
            gap = 0
            self.generation(tree, at, turn)
            more = i + 1 < turns
            if not more and rng.random() > 0.1:
                return
            final = turn.final
            if more and rng.random() < 0.05:
                final = unrelated(rng)
            at = tree.add(at, f.past_answer(final))
            if not more and final == turn.final:
                ids = self.tok.encode(turn.posthoc) + [f.ret]
                ask = f.say("developer", prompts.POSTHOC) + f.assistant + f.final_header
                tree.add(at, ask + ids, [0.0] * len(ask) + [1.0] * len(ids))

    def past(self, tree, at, effort, budget):
        """Earlier turns without anything to learn, to about `budget` tokens."""
        f, rng, stop = self.fmt, self.rng, len(tree) + budget
        while len(tree) < stop:
            turn, roll = self.draw(effort), rng.random()
            final = turn.final if roll < 0.75 else turn.facts.get("answer", turn.final) if roll < 0.9 else unrelated(rng)
            at = tree.add(at, f.say("user", turn.question) + f.past_answer(final))
        return at

    def row(self, long=False):
        f, rng = self.fmt, self.rng
        effort = rng.choice(EFFORTS)
        tools = rng.random() < 0.06
        tree = Tree()
        base = tree.add(-1, f.say("system", harmony.system_text(rng, effort, tools)))
        if tools or rng.random() < 0.3:
            base = tree.add(base, f.say("developer", harmony.developer_text(rng, tools)))
        if long or rng.random() < 0.5:
            base = self.past(tree, base, effort, int(self.length * (rng.uniform(0.4, 0.8) if long else rng.uniform(0, 0.6))))
        misses = 0
        while misses < 3 and len(tree) < self.length - 60:
            size, keep = len(tree), (tree.label[-1], tree.weight[-1])
            gap = rng.randrange(1, self.far) if rng.random() < 0.2 and not long else 0
            self.conversation(tree, base, effort, rng.choice((1, 1, 2, 3)) if misses == 0 else 1, gap)
            if len(tree) > self.length:
                tree.cut(size, keep)
                misses += 1
        if len(tree) > self.length:
            return self.row(long)
        return tree

    def batch(self, rows, long=False):
        n = self.length
        token = np.zeros((rows, n), np.int64)
        pos = np.zeros((rows, n), np.int64)
        end = np.tile(np.arange(1, n + 1), (rows, 1))
        label = np.full((rows, n), -1, np.int64)
        weight = np.zeros((rows, n), np.float32)
        for r in range(rows):
            t = self.row(long)
            k = len(t)
            token[r, :k], pos[r, :k], end[r, :k], label[r, :k], weight[r, :k] = t.token, t.pos, t.ends(), t.label, t.weight
        at = np.flatnonzero(label.reshape(-1) >= 0)
        return token, pos, end, at, label.reshape(-1)[at], weight.reshape(-1)[at]


class Stream(torch.utils.data.IterableDataset):
    """Endless batches; `kept` labels are padded or cut to a fixed count so that shapes never change."""

    def __init__(self, tok_path, rows, length, seed, kept=None, long=False):
        self.tok_path, self.rows, self.length, self.seed, self.long = tok_path, rows, length, seed, long
        self.kept = kept or int(rows * length * 0.6)

    def __iter__(self):
        from tokenizer import Tokenizer

        info = torch.utils.data.get_worker_info()
        worker = info.id if info else 0
        torch.set_num_threads(1)
        b = Builder(Tokenizer.load(self.tok_path), self.seed * 1000 + worker, self.length)
        while True:
            token, pos, end, at, label, weight = b.batch(self.rows, self.long)
            pad = max(0, self.kept - len(at))
            fix = lambda a: np.pad(a, (0, pad))[:self.kept]
            yield tuple(torch.from_numpy(a) for a in (token, pos, end, fix(at), fix(label), fix(weight)))
