"""Writes questions for the evaluation, one JSON object per line:

    python make_eval.py [--seed N] [--count N] [--skills a,b] [--out FILE]

Every question is drawn for this run. The numbers of a task are held out from training on tasks of its kind, except
those handed to a function. Names, objects, keys and function names are those of skills/unseen.py. Messages that are
not tasks for the model were written by hand (wordings.py) and are the same each time, except those close to a task,
which are drawn like those of training. The fields are those of type question in eval/questions.go.
"""

import argparse
import json
import random
import sys

import wordings
from skills import arithmetic, chains, followups, formats, identity, measures, ordering, specialists, stories, tools

EFFORT = "medium"
OPERATIONS = ("add", "subtract", "multiply", "divide")
TASKS = (arithmetic, ordering, stories, measures)


def draw(rng, skill):
    return skill.turn(rng, EFFORT, slips=False, fresh=True)


def task(rng):
    return draw(rng, rng.choice(TASKS))


def said(role, text):
    return {"role": role, "content": text}


def ask(turn, question=None, kind=None, effort=EFFORT, **more):
    """A question from a turn, and the right answer."""
    expect = {"answer": turn.final, "result": "" if turn.result is None else str(turn.result)}
    return {"kind": kind or turn.kind, "effort": effort, "messages": [said("user", question or turn.question)],
        "expect": expect, **more}


def plain(skill):
    return lambda rng, i: ask(draw(rng, skill))


def calculation(rng, i):
    """Each operation in turn."""
    while True:
        turn = draw(rng, arithmetic)
        if turn.kind == OPERATIONS[i % len(OPERATIONS)]:
            return ask(turn)


def followup(rng, i):
    """Two or three turns. The last is asked; those before it have answers."""
    turns = 2 + i % 2
    while True:
        turn, messages = task(rng), []
        for n in range(1, turns):
            messages += [said("user", turn.question), said("assistant", turn.final)]
            turn = followups.turn(rng, EFFORT, turn, slips=False, fresh=True)
            if turn is None:
                break
        else:
            question = ask(turn, kind=f"{turns} turns")
            question["messages"] = messages + question["messages"]
            return question


def formed(rng, i):
    schema = formats.Schema(rng, formats.plan(rng), fresh=True)
    while True:
        turn = task(rng)
        if formats.suits(schema.parts, turn):
            break
    question = ask(turn, kind=", ".join(schema.parts), schema=schema.schema, schema_name=schema.name)
    question["expect"]["json"] = schema.value(turn)
    return question


def written(offered):
    return [{"name": t.name, "description": t.description, "parameters": t.parameters} for t in offered]


def offered(rng, i, **more):
    while True:
        tools_ = tools.toolset(rng, fresh=True)
        turn = tools.turn(rng, EFFORT, tools_, fresh=True)
        if turn is not None and turn.kind == "tool":
            break
    call = turn.calls[0]
    kind = "look up" if not turn.op else "asked to" if "asked" in call.why else "too large"
    question = ask(turn, kind=kind, tool_result=call.result, tools=written(tools_), **more)
    question["expect"]["call"] = {"name": call.name, "arguments": json.loads(call.arguments)}
    return question


def offered_or_idle(rng, i):
    """One question in eight needs none of the offered tools."""
    return ask(task(rng), kind="not needed", tools=written(tools.toolset(rng,
        fresh=True))) if i % 8 == 7 else offered(rng, i)


def strategy(name):
    return lambda rng, i: ask(task(rng), effort="", strategy=name)


def delegated(rng, i):
    """The user names a specialist, or asks the model to."""
    turn = task(rng)
    if i % 2:
        return ask(turn, kind="by the model", question=specialists.ask(rng, turn.question), allow=True)
    return ask(turn, kind="by the user", delegate=specialists.prompt(rng, fresh=True))


def unrelated(rng, i):
    """Messages written by hand. All of them are asked if possible, so the seed only changes their order."""
    return ask(draw(rng, identity), question=rng.choice(wordings.UNRELATED))


def reworded(rng, i):
    """Calculations and orderings in the wordings of wordings.py."""
    while True:
        turn = draw(rng, rng.choice((arithmetic, arithmetic, ordering)))
        if turn.kind in OPERATIONS:
            a, b = turn.numbers
            return ask(turn, question=rng.choice(wordings.ASK[turn.kind]).format(a=a, b=b))
        if turn.kind not in ("extreme", "sort"):
            continue
        numbers = list(turn.numbers)
        if turn.kind == "extreme":
            way = "largest" if "largest" in turn.final else "smallest"
        elif numbers == sorted(numbers) and numbers != numbers[::-1]:
            way = "ascending"
        elif numbers == sorted(numbers, reverse=True):
            way = "descending"
        rng.shuffle(numbers)
        return ask(turn, question=rng.choice(wordings.ASK[way]).format(l=", ".join(map(str, numbers))))


# How a skill's questions are made, how many of them for each of --count, and the maximum number.
SKILLS = {
    "arithmetic": (calculation, len(OPERATIONS), None), "chains": (plain(chains), 1, None),
    "ordering": (plain(ordering), 1, None), "stories": (plain(stories), 1, None),
    "measures": (plain(measures), 1, None), "followups": (followup, 1, None), "json": (formed, 1, None),
    "tools": (offered_or_idle, 1, None),
    "rationale": (lambda rng, i: offered(rng, i, rationale=True), 1, None), "report": (strategy("tool"), 1, None),
    "markers": (strategy("markers"), 1, None), "object": (strategy("json"), 1, None),
    "delegation": (delegated, 1, None), "identity": (unrelated, 1, len(wordings.UNRELATED)),
    "near": (plain(identity), 1, 200), "wordings": (reworded, 1, None),
}


def questions(skill, seed, count):
    """Different questions for a skill in mixed order. Questions of other skills do not change them."""
    make, times, most = SKILLS[skill]
    rng, found = random.Random(f"{seed} {skill}"), {}
    want = min(count, most or count) * times
    for _ in range(100 * want):
        question = make(rng, len(found))
        found.setdefault(json.dumps(question["messages"]), {"skill": skill, **question})
        if len(found) == want:
            return rng.sample(list(found.values()), want)
    raise RuntimeError(f"only {len(found)} of {want} questions about {skill} are different")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=500)
    p.add_argument("--skills", default=",".join(SKILLS))
    p.add_argument("--out", type=argparse.FileType("w"), default=sys.stdout)
    a = p.parse_args()
    for skill in a.skills.split(","):
        for question in questions(skill, a.seed, a.count):
            print(json.dumps(question, ensure_ascii=False), file=a.out)


if __name__ == "__main__":
    main()
