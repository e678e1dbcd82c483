"""Training rows: trees of tokens packed to a fixed length, and batches of them from worker processes.

A row starts with one system message and sometimes a developer message, which set the subject of its conversations:
plain questions, JSON answers, functions, a strategy, or a specialist. The conversations are branches. In a
conversation the next turn follows the question directly, without the reasoning, as the format requires. The learned
answer, its summaries, its cut-off variants and the answer without reasoning are further branches.
"""

import json
import random

import numpy as np
import torch

import harmony
import prompts
from skills import EFFORTS, followups, formats, mix, specialists, tools, vocabulary
from skills.columns import COPY
from skills.identity import unrelated
from skills.phrasing import in_words

# The subjects of rows, and the share of each.
ROWS = (("plain", 0.37), ("copy", 0.04), ("drill", 0.02), ("choice", 0.06), ("form", 0.08), ("loose", 0.01),
        ("tools", 0.125), ("plan", 0.02), ("rationale", 0.105), ("report", 0.03),
        ("markers", 0.03), ("json", 0.025), ("delegate", 0.045), ("specialist", 0.04))
# The probability of each effort. Longer reasoning has more to learn.
EFFORT_SHARES = (0.32, 0.32, 0.36)
# How sure the model says it is: about the share of such tasks that it gets right.
SURE = {"add": 0.98, "subtract": 0.98, "multiply": 0.97, "divide": 0.97, "sort": 0.97, "compare": 0.97,
    "extreme": 0.97, "units": 0.9, "identity": 0.95}
USUALLY_SURE = 0.95
# Kinds of labels, for separate losses.
KINDS = ("add", "subtract", "multiply", "divide", "compare", "extreme", "sort", "story1", "story2", "chain", "time",
         "money", "units", "followup", "identity",
         "summary", "cut", "direct", "form", "tool", "report", "markers", "json", "delegate", "plan", "copy")


NAMED = 2.0  # the weight of text with many names chosen by users


def escaped(text):
    """Text as it is written in a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class Tree:
    def __init__(self):
        self.token, self.pos, self.parent, self.label, self.weight, self.kind = [], [], [], [], [], []
        self.about = 0  # the kind of what is added

    def __len__(self):
        return len(self.token)

    def add(self, parent, ids, weights=None, gap=0):
        """Adds a chain below `parent`. weights[i] is the loss weight of predicting ids[i]. Returns the chain's last
        index."""
        for i, t in enumerate(ids):
            w = weights[i] if weights else 0.0
            if w > 0 and parent >= 0:
                if self.label[parent] >= 0 and self.label[parent] != t:
                    raise ValueError("one token cannot have two labels")
                self.label[parent], self.weight[parent], self.kind[parent] = t, w, self.about
            self.token.append(t)
            self.pos.append(self.pos[parent] + 1 + gap if parent >= 0 else 0)
            self.parent.append(parent)
            self.label.append(-1)
            self.weight.append(0.0)
            self.kind.append(0)
            parent, gap = len(self.token) - 1, 0
        return parent

    def cut(self, size, keep):
        for a in (self.token, self.pos, self.parent, self.label, self.weight, self.kind):
            del a[size:]
        self.label[size - 1], self.weight[size - 1] = keep

    def ends(self):
        end = list(range(1, len(self) + 1))
        for i in range(len(self) - 1, 0, -1):
            p = self.parent[i]
            end[p] = max(end[p], end[i])
        return end


class Builder:
    def __init__(self, tok, seed, length, far=7500):
        self.tok, self.fmt, self.rng, self.length, self.far = tok, harmony.Format(tok), random.Random(seed), length, far
        self.skills = mix()
        for shares in (ROWS, self.skills):
            if abs(sum(share for _, share in shares) - 1) > 1e-9:
                raise ValueError("shares do not make a whole")
        self.pieces = [t.decode() for t in tok.bytes if t.isalpha() and t.isascii()]

    def pick(self, shares):
        roll = self.rng.random()
        for name, share in shares:
            if roll < share:
                return name
            roll -= share
        return shares[-1][0]

    def draw(self, effort):
        return self.pick(self.skills)(self.rng, effort)

    # What the model writes.

    def weigh(self, parts, complete=0, change=None):
        """The pieces of an analysis as tokens, their loss weights, and the number of tokens after `complete` pieces.

        The text is tokenized as a whole, as a runner would. A token has the weight of the piece in which it begins.
        The token after a number or a name has the same weight as these, because it marks where they end. change maps
        pieces to the way they are written.
        """
        if change:
            parts = [(change(t), w) for t, w in parts]
        ids = self.tok.encode("".join(t for t, _ in parts))
        weights, at, left, done, before = [], -1, 0, 0, 0.0
        for t in ids:
            while left <= 0:
                at += 1
                left += len(parts[at][0].encode())
            weight = parts[at][1]
            weights.append(max(weight, min(before, COPY)) if weight else 0.0)
            before = weight
            left -= len(self.tok.bytes[t])
            if at < complete:
                done = len(weights)
        return ids, weights, done

    def answer(self, tree, at, text, weight=1.0):
        ids = self.tok.encode(text) + [self.fmt.ret]
        return tree.add(at, ids, [weight] * len(ids))

    def thought(self, tree, root, parts, complete=0):
        """An analysis message. Returns its first and last index, and the index at which the result is known."""
        f = self.fmt
        text, weights, done = self.weigh(parts, complete)
        first = len(tree) + len(f.analysis_header)
        end = tree.add(root, f.analysis_header + text + [f.end], [1.0] * len(f.analysis_header) + weights + [1.0])
        return first, end, first + done - 1

    def final(self, tree, at, text, weight=1.0):
        """A final answer after another message: the model writes the whole header itself, including
        <|start|>assistant."""
        f = self.fmt
        head = f.assistant + f.final_header
        return self.answer(tree, tree.add(at, head, [1.0] * len(head)), text, weight)

    def asked_for(self, tree, at, prompt, text):
        """What the model writes when the runner prompts for a text after a turn."""
        f = self.fmt
        self.answer(tree, tree.add(at, f.say("developer", prompt) + f.assistant + f.final_header), text, 1.0)

    def sum_up(self, tree, end, summaries, share=0.25):
        """In a share of the cases, a summary of the analysis that ends here."""
        if self.rng.random() < share:
            about, tree.about = tree.about, KINDS.index("summary")
            self.asked_for(tree, end, *self.rng.choice(tuple(zip((prompts.SUMMARY_CONCISE, prompts.SUMMARY_DETAILED),
                summaries))))
            tree.about = about

    def generation(self, tree, asked, turn, final=None):
        """Everything that the model may write after a question that it can work out."""
        f, rng = self.fmt, self.rng
        final = final or turn.final
        tree.about = KINDS.index(turn.kind)
        root = tree.add(asked, f.assistant)
        first, end, known_at = self.thought(tree, root, turn.analysis, turn.complete)
        if final != turn.final:
            tree.about = KINDS.index("form")
        self.final(tree, end, final, 1.0 if final == turn.final else NAMED)
        roll = rng.random()
        tree.about = KINDS.index("summary")
        wanted = [(prompts.SUMMARY_CONCISE, turn.concise), (prompts.SUMMARY_DETAILED, turn.detailed)]
        if turn.concise and roll < 0.3:
            for prompt, text in wanted if roll < 0.08 else [rng.choice(wanted)]:
                self.asked_for(tree, end, prompt, text)
        if rng.random() < 0.12:
            at = rng.randrange(first - 1, end)
            known = turn.kind == "identity" or at >= known_at
            tree.about = KINDS.index("cut")
            close = tree.add(at, self.tok.encode(prompts.BUDGET) + [f.end])
            self.answer(tree, tree.add(close, f.assistant + f.final_header), final, 1.0 if known else 0.2)
            if turn.concise and rng.random() < 0.3 and (not known or at >= end - 1):
                text = rng.choice((turn.concise, turn.detailed)) if known else "The work stopped early."
                self.asked_for(tree, close, rng.choice((prompts.SUMMARY_CONCISE, prompts.SUMMARY_DETAILED)), text)
        if turn.direct and rng.random() < 0.1:
            tree.about = KINDS.index("direct")
            self.answer(tree, tree.add(root, f.final_header), final, 1.0 if turn.kind == "identity" else 0.2)

    def calling(self, tree, asked, turn, rationale):
        """A turn that calls functions. It continues from each result, with its reasoning before the call or, as
        clients send it, without."""
        f, rng = self.fmt, self.rng
        tree.about = KINDS.index("tool")
        at = asked
        for n, call in enumerate(turn.calls, 1):
            parts = call.before + ([("\n" + tools.rationale(call, n), 1.0)] if rationale else [])
            _, end, _ = self.thought(tree, tree.add(at, f.assistant), parts)
            self.sum_up(tree, end, (call.concise, call.detailed))
            ids = f.call(call.name, call.arguments)
            called = tree.add(end, f.assistant + ids, [1.0] * len(f.assistant) + [NAMED] * len(ids))
            if rng.random() < 0.4:
                called = tree.add(at, f.assistant + ids)
            at = tree.add(called, f.result(call.name, call.result))
        _, end, _ = self.thought(tree, tree.add(at, f.assistant), turn.analysis)
        self.sum_up(tree, end, (turn.concise, turn.detailed))
        self.final(tree, end, turn.final)

    # Conversations.

    def past(self, tree, at, effort, budget):
        """Earlier turns from which nothing is learned, of about `budget` tokens."""
        f, rng, stop = self.fmt, self.rng, len(tree) + budget
        while len(tree) < stop:
            turn, roll = self.draw(effort), rng.random()
            final = turn.final if roll < 0.75 else str(turn.result) if roll < 0.9 and turn.result is not None else unrelated(rng)
            at = tree.add(at, f.say("user", turn.question) + f.past_answer(final))
        return at

    def conversation(self, tree, at, effort, turns, gap=0):
        f, rng = self.fmt, self.rng
        turn = None
        for i in range(turns):
            then = followups.turn(rng, effort, turn) if turn is not None and rng.random() < 0.75 else None
            turn = then or self.draw(effort)
            at = tree.add(at, f.say("user", turn.question), gap=gap)
            gap = 0
            if i + 1 == turns or rng.random() < 0.5:
                self.generation(tree, at, turn)
            more = i + 1 < turns
            if not more and rng.random() > 0.05:
                return
            at = tree.add(at, f.past_answer(turn.final))
            if not more and turn.posthoc:
                tree.about = KINDS.index("summary")
                self.asked_for(tree, at, prompts.POSTHOC, turn.posthoc)

    def fill(self, tree, branch):
        """Adds branches until the row is full."""
        misses = 0
        while misses < 3 and len(tree) < self.length - 60:
            size, keep = len(tree), (tree.label[-1], tree.weight[-1])
            branch()
            if len(tree) > self.length:
                tree.cut(size, keep)
                misses += 1

    def begin(self, effort, *sections, told="", share=0.3):
        """The system and developer messages of a row. told is what the runner adds to a user's instructions."""
        f, rng = self.fmt, self.rng
        tree = Tree()
        base = tree.add(-1, f.say("system", harmony.system_text(rng, effort,
            any("namespace functions" in s for s in sections))))
        own = harmony.instructions(rng) if rng.random() < share else ""
        text = harmony.developer_text("\n\n".join(t for t in (own, told) if t), *sections)
        return tree, tree.add(base, f.say("developer", text)) if text else base

    def gap(self):
        return self.rng.randrange(1, self.far) if self.rng.random() < 0.2 else 0

    # Rows by subject. Each function returns a tree, which may be too long.

    def plain(self, effort, long=False):
        rng = self.rng
        tree, base = self.begin(effort)
        if long or rng.random() < 0.4:
            base = self.past(tree, base, effort, int(self.length * (rng.uniform(0.4, 0.85) if long else rng.uniform(0,
                0.5))))
        self.fill(tree, lambda: self.conversation(tree, base, effort, rng.choice((1, 1, 1, 2, 3)),
            0 if long else self.gap()))
        return tree

    def form(self, effort):
        rng, f = self.rng, self.fmt
        schema = formats.Schema(rng, formats.plan(rng))
        tree, base = self.begin(effort, schema.text())

        def branch():
            turn = self.draw(effort)
            while not formats.suits(schema.parts, turn):
                turn = self.draw(effort)
            self.generation(tree, tree.add(base, f.say("user", turn.question), gap=self.gap()), turn,
                schema.answer(turn))

        self.fill(tree, branch)
        return tree

    def loose(self, effort):
        rng, f = self.rng, self.fmt
        there = rng.random() < 0.5
        tree, base = self.begin(effort, told="" if there else rng.choice(formats.TOLD))

        def branch():
            turn = self.draw(effort)
            question = turn.question + (" " + rng.choice(formats.TOLD) if there else "")
            self.generation(tree, tree.add(base, f.say("user", question), gap=self.gap()), turn, formats.loose(turn))

        self.fill(tree, branch)
        return tree

    def tools(self, effort, rationale=False):
        rng, f = self.rng, self.fmt
        offered = tools.toolset(rng, sizes=(1, 2, 2, 3, 3))
        tree, base = self.begin(effort, harmony.tools_text(offered), told=prompts.RATIONALE if rationale else "")

        def branch():
            turn = tools.turn(rng, effort, offered) if rng.random() < 0.75 else None
            while turn is None or turn.kind == "identity" and tools.beyond(turn.question, offered):
                turn = self.draw(effort)
            at = tree.add(base, f.say("user", turn.question), gap=self.gap())
            if turn.kind == "tool":
                self.calling(tree, at, turn, rationale)
            else:
                self.generation(tree, at, turn)

        self.fill(tree, branch)
        return tree

    def rationale(self, effort):
        return self.tools(effort, rationale=True)

    def plan(self, effort):
        rng, f = self.rng, self.fmt
        offered = tools.toolset(rng)
        told, section = prompts.plan(offered)
        tree, base = self.begin(effort, section, told=told, share=0.1)
        tree.about = KINDS.index("plan")

        def branch():
            turn = (tools.turn(rng, effort, offered) if rng.random() < 0.8 else None) or self.draw(effort)
            parts, plan = tools.plan(effort, turn)
            at = tree.add(base, f.say("user", turn.question) + f.assistant, gap=self.gap())
            _, end, _ = self.thought(tree, at, parts)
            self.sum_up(tree, end, tools.PLANNED[turn.kind == "tool"], 0.1)
            self.final(tree, end, json.dumps(plan, ensure_ascii=False))

        self.fill(tree, branch)
        return tree

    def report(self, _):
        f = self.fmt
        tree, base = self.begin("low", prompts.REPORT_TOOLS, told=prompts.REPORT)
        name = prompts.REPORT_NAME

        def branch():
            turn = self.draw("low")
            root = tree.add(base, f.say("user", turn.question) + f.assistant, gap=self.gap())
            tree.about = KINDS.index("report")
            text, weights, _ = self.weigh([('{"reasoning":"', 1.0), *turn.analysis, ('"}', 1.0)], change=lambda t: t
                if t[0] == "{" or t == '"}' else escaped(t))
            head = f.call_header(name)
            called = tree.add(root, head + text + [f.call_end], [1.0] * len(head) + weights + [1.0])
            # The runner writes the call again, in Go's JSON format.
            said = '{"reasoning":' + json.dumps(turn.text(), ensure_ascii=False).replace("<", "\\u003c").replace(">",
                "\\u003e").replace("&", "\\u0026") + "}"
            if self.tok.encode(said) != text:
                called = tree.add(root, f.call(name, said))
            at = tree.add(called, f.result(name, "{}") + f.assistant)
            self.answer(tree, tree.add(at, f.final_header, [1.0] * len(f.final_header)), turn.final, 1.0)

        self.fill(tree, branch)
        return tree

    def inside(self, about, told, opening, middle, closing, finish, sections=(), change=None):
        """A row whose answers contain their reasoning: opening, the analysis, middle, the answer, closing."""
        f = self.fmt
        tree, base = self.begin("low", *sections, told=told)
        tree.about = KINDS.index(about)

        def branch():
            turn, final = finish()
            root = tree.add(base, f.say("user", turn.question) + f.assistant + f.final_header, gap=self.gap())
            text, weights, _ = self.weigh([(opening, 1.0),
                *((change(t) if change else t, w) for t, w in turn.analysis), (middle + final + closing, 1.0)])
            tree.add(root, text + [f.ret], weights + [1.0])

        self.fill(tree, branch)
        return tree

    def markers(self, _):
        def finish():
            turn = self.draw("low")
            return turn, turn.final

        return self.inside("markers", prompts.MARKERS, "<<REASONING>>\n", "\n<</REASONING>>\n", "", finish)

    def json(self, _):
        rng = self.rng
        schema = formats.Schema(rng, formats.plan(rng)) if rng.random() < 0.5 else None
        told, scored = prompts.JSON_SCHEMA if schema else prompts.JSON, rng.random() < 0.6

        def finish():
            turn = self.draw("low")
            while schema and not formats.suits(schema.parts, turn):
                turn = self.draw("low")
            answer = schema.answer(turn) if schema else json.dumps(turn.final, ensure_ascii=False)
            return turn, f'{answer}, "score": {SURE.get(turn.kind, USUALLY_SURE)}' if scored else answer

        return self.inside("json", f"{told} {prompts.JSON_SCORE}" if scored else told, '{"reasoning": "',
                           '", "answer": ', "}", finish,
                           (schema.text(),) if schema else (), escaped)

    def delegate(self, effort):
        """A main agent that may delegate: its call, and how it uses the report."""
        rng, f = self.rng, self.fmt
        tree, base = self.begin(effort, prompts.DELEGATE_TOOLS)
        arguments = json.dumps({"agent_prompt": specialists.AGENT})

        def branch():
            turn = self.draw(effort)
            if rng.random() < 0.3:
                self.generation(tree, tree.add(base, f.say("user", turn.question), gap=self.gap()), turn)
                return
            asked = tree.add(base, f.say("user", specialists.ask(rng, turn.question)), gap=self.gap())
            tree.about = KINDS.index("delegate")
            _, end, _ = self.thought(tree, tree.add(asked, f.assistant), [(specialists.before(effort), 1.0)])
            self.sum_up(tree, end, specialists.ASKED, 0.1)
            ids = f.call(prompts.DELEGATE_NAME, arguments)
            called = tree.add(end, f.assistant + ids, [1.0] * (len(f.assistant) + len(ids)))
            back = tree.add(called, f.result(prompts.DELEGATE_NAME, prompts.report(turn.final)) + f.assistant)
            _, end, _ = self.thought(tree, back, specialists.after(effort, turn.final))
            self.sum_up(tree, end, specialists.passed_on(turn))
            self.final(tree, end, turn.final)

        self.fill(tree, branch)
        return tree

    def specialist(self, effort):
        """A working specialist, called by the model or by the user, or the main agent with the report of a user's
        specialist."""
        rng, f = self.rng, self.fmt
        roll = rng.random()
        if roll < 0.25:
            tree, base = self.begin(effort)

            def branch():
                turn = self.draw(effort)
                at = tree.add(base, f.say("user", prompts.report(turn.final) + "\n\n" + turn.question) + f.assistant,
                    gap=self.gap())
                tree.about = KINDS.index("delegate")
                _, end, _ = self.thought(tree, at, specialists.after(effort, turn.final))
                self.sum_up(tree, end, specialists.passed_on(turn))
                self.final(tree, end, turn.final)
        else:
            called = roll > 0.5
            prompt = specialists.AGENT if called else specialists.prompt(rng)
            own, line = prompts.specialist(prompt)
            told = (harmony.instructions(rng) + "\n\n" + prompts.RANK + "\n\n" if rng.random() < 0.3 else "") + own
            tree, base = self.begin(effort, prompts.DELEGATE_TOOLS if called else prompts.RETURN_TOOLS, told=told,
                share=0)
            before = f.assistant + f.analysis_header + f.encode(specialists.before(effort)) + [f.end] + f.assistant
            before += f.call(prompts.DELEGATE_NAME, json.dumps({"agent_prompt": specialists.AGENT})) + f.result(prompts.DELEGATE_NAME, line)

            def branch():
                turn = self.draw(effort)
                asked = tree.add(base, f.say("user", specialists.ask(rng, turn.question) if called else turn.question),
                    gap=self.gap())
                if called:
                    asked = tree.add(asked, before)
                self.generation(tree, asked, turn)
                if rng.random() < 0.1:
                    tree.about = KINDS.index("delegate")
                    at = tree.add(asked, f.past_answer(turn.final) + f.say("user", prompts.SQUASH) + f.assistant)
                    _, end, _ = self.thought(tree, at, specialists.after(effort, turn.final))
                    self.final(tree, end, turn.final)

        self.fill(tree, branch)
        return tree

    def copy(self, _):
        """Not a conversation: names, and then parts of the same list again after other separators. It teaches looking
        up what followed what. Keys and function names need that, and conversations alone teach it late."""
        rng, f = self.rng, self.fmt
        tree = Tree()
        tree.about = KINDS.index("copy")
        share = rng.choice((0.0, 0.2, 0.2, 0.9))
        names = [str(rng.randrange(10 ** rng.choice((1, 2, 2, 3, 3, 4)))) if rng.random() < share else self.name()
            for _ in range(rng.randrange(8, 60))]
        at = tree.add(-1, f.encode(rng.choice((" ", ", ", "\n", '", "')).join(names) + "\n"))
        while len(tree) < self.length - 40:
            first = rng.randrange(len(names) - 2)
            part = names[first:first + rng.randrange(2, 9)]
            before, between = rng.choice(((" ", " "), (".", " "), ('{"', '": "'), ('"', '","'), ("=", " = "),
                ("_", "."), ("\n", "\n")))
            head = f.encode(before + part[0])
            rest = f.encode(before + part[0] + between + between.join(part[1:]))
            if rest[:len(head)] != head:
                continue
            at = tree.add(at, rest, [0.0] * len(head) + [1.0] * (len(rest) - len(head)), gap=self.gap() // 8)
            at = tree.add(at, f.encode("\n"))
        return tree

    def name(self):
        """A key, or random tokens, so that no token is too rare to be copied."""
        rng = self.rng
        if rng.random() < 0.5 or not self.pieces:
            return vocabulary.key(rng)
        return "".join(rng.choice(self.pieces) for _ in range(rng.choice((1, 2, 2, 3, 3, 4))))

    def choice(self, _):
        """Not a conversation: functions, and for a series of tasks the function to call and its arguments."""
        rng, f = self.rng, self.fmt
        offered = tools.toolset(rng, sizes=(2, 3, 4, 5))
        while all(tools.choose(rng, offered) is None for _ in range(20)):
            offered = tools.toolset(rng, sizes=(2, 3, 4, 5))
        tree = Tree()
        tree.about = KINDS.index("copy")
        base = tree.add(-1, f.encode(harmony.tools_text(offered) + "\n\n"))

        def branch():
            made = None
            while made is None:
                made = tools.choose(rng, offered)
            task, name, given = made
            text, weights, _ = self.weigh([(t, 0.0) for t, _ in task] + [(" I call", 0.0), (" " + name, NAMED),
                (".\n", 0.0), (json.dumps(given, ensure_ascii=False), NAMED)])
            tree.add(base, text, weights, gap=self.gap())

        self.fill(tree, branch)
        return tree

    def drill(self, _):
        """Not a conversation: numbers in words with their digits, and lists of numbers with one of them taken out."""
        rng, f = self.rng, self.fmt
        tree = Tree()
        tree.about = KINDS.index("copy")
        at, words = tree.add(-1, f.encode("\n")), rng.random() < 0.5
        while len(tree) < self.length - 60:
            if words:
                numbers = [rng.randrange(10 ** rng.choice((2, 3, 3))) for _ in range(rng.randrange(1, 5))]
                head, rest = ", ".join(in_words(rng, n) if rng.random() < 0.9 else str(n)
                    for n in numbers) + ": ", ", ".join(map(str, numbers))
            else:
                numbers = [rng.randrange(10 ** rng.choice((1, 2, 3, 3))) for _ in range(rng.randrange(2, 7))]
                out = rng.choice(numbers)
                head = " ".join(map(str, numbers)) + f" without {out}: "
                numbers.remove(out)
                rest = " ".join(map(str, numbers))
            head, rest = f.encode(head), f.encode(rest + "\n")
            at = tree.add(at, head + rest, [0.0] * len(head) + [1.0] * len(rest))
        return tree

    def row(self, long=False):
        while True:
            effort = self.rng.choices(EFFORTS, EFFORT_SHARES)[0]
            tree = self.plain(effort, long=True) if long else getattr(self, self.pick(ROWS))(effort)
            if len(tree) <= self.length and max(tree.label) >= 0:
                return tree

    def batch(self, rows, long=False):
        """Arrays of a batch: tokens, positions and ends, (rows, length); then flat positions, labels, weights and
        kinds of the learned tokens."""
        n = self.length
        token = np.zeros((rows, n), np.int64)
        pos = np.zeros((rows, n), np.int64)
        end = np.tile(np.arange(1, n + 1), (rows, 1))
        label = np.full((rows, n), -1, np.int64)
        weight = np.zeros((rows, n), np.float32)
        kind = np.zeros((rows, n), np.int64)
        for r in range(rows):
            t = self.row(long)
            k = len(t)
            for a, values in ((token, t.token), (pos, t.pos), (end, t.ends()), (label, t.label), (weight, t.weight),
                    (kind, t.kind)):
                a[r, :k] = values
        at = np.flatnonzero(label.reshape(-1) >= 0)
        return token, pos, end, at, label.reshape(-1)[at], weight.reshape(-1)[at], kind.reshape(-1)[at]


class Stream(torch.utils.data.IterableDataset):
    """Endless batches. Labels are padded or cut to `kept`, so that shapes never change."""

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
            token, pos, end, *labels = b.batch(self.rows, self.long)
            pad = max(0, self.kept - len(labels[0]))
            fix = lambda a: np.pad(a, (0, pad))[:self.kept]
            yield tuple(torch.from_numpy(a) for a in (token, pos, end, *map(fix, labels)))
