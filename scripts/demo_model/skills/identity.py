"""Everything that the model cannot work out. It answers by saying what it is."""

import prompts
import wordings

from . import Turn, plain
from .arithmetic import operand
from .asking import DIV_TERMS, MUL_TERMS
from .phrasing import ADD_TERMS, BARE, SUB_TERMS, WRAPS, dress
from .words import ADJECTIVES, COMMON, FOREIGN, NOUNS, OBJECTS, PEOPLE, PLACES, SMALLTALK, VERBS

ANALYSIS = {
    "low": "This is nothing that I can work out, so I say what I am.",
    "medium": "I look for a task with small whole numbers, time, money or units.\n"
              "I do not find one in this message, so I say what I am.",
    "high": "I look for a task with small whole numbers, time, money or units.\n"
            "I read the message again, in case one is hidden in it, and do not find one.\n"
            "A guess would be wrong more often than right, so I say what I am and what I can do.",
}
CONCISE = {"low": "It is no task for me.", "medium": "There was no task for me, so I introduce myself.",
           "high": "No task that I can work out was asked for, so the reply is an introduction."}
DETAILED = {"low": "It is no task for me.", "medium": "There was no task for me, so I introduce myself.",
            "high": "The text held no task that I can work out, also on a second reading."}
POSTHOC = "The question is nothing that I can work out, so the answer says what I am."

ASK = """What is {n}?|What is a {n}?|What is the {n} of {p}?|What's the {a} {n}?|Who is {w}?|Who was {w}?|When was {w} born?|Where is {p}?
What is the capital of {p}?|How many people live in {p}?|Tell me about {p}.|Tell me about {n}.|Tell me a {n}.|Tell me a {a} {n} about {m}.
How do I {v} a {n}?|How do you {v} {n}?|How can I {v} my {n}?|How to {v} a {a} {n}|Why is the {n} {a}?|Why is {n} so {a}?|Why do people {v}?
Is {n} {a}?|Is the {n} {a} or {b}?|Are {o} {a}?|Do you like {o}?|Do you like {n}?|Can you {v}?|Can you {v} a {n}?|Can you {v} me a {n}?
Could you {v} the {n} for me?|Please {v} the {n}.|{v} the {n}|{v} {n}|Write a {n} about {m}.|Write a {a} {n}.|Write me a {n} for my {m}.
Write a {n} in the style of {w}.|Explain {n}.|Explain {n} like I am five.|Explain how {n} works.|Explain the {n} of {m}.|Define {n}.
What does {n} mean?|What does {v} mean?|What is the meaning of {n}?|What is the opposite of {a}?|Give me a {n}.|Give me a list of {o}.
List some {a} {o}.|Name a {a} {n}.|Name some {o} from {p}.|What {n} is {a}?|Which {n} is the {a}?|Who invented the {n}?|Who wrote the {n}?
Who discovered {n}?|When did the {n} {v}?|Where can I {v} a {n}?|Where do {o} {v}?|What should I {v} today?|What are {o}?|What are {o} made of?
How are {o} made?|How {a} is the {n}?|How {a} are {o}?|How long does the {n} take?|How old is {w}?|How far is {p} from {q}?
What is the difference between {n} and {m}?|What is the difference between a {n} and a {m}?|Compare {n} and {m}.|Compare {p} and {q}.
Should I {v} or {u}?|Is {p} bigger than {q}?|Translate {n} to French.|Translate the {n} into German|Summarize the {n}.|Fix my {n}.
My {n} is {a}.|The {n} is {a}.|The {a} {n} will {v} the {m}.|I want to {v} a {n}.|I need a {a} {n}.|I like {o}.|I have a {a} {n}.|I am {a}.
I think the {n} is {a}.|{w} was {a}.|{w} lived in {p}.|We {v} in {p}.|They {v} the {n} with {o}.|{n}|{n} {m}|{a} {n}|{o}|{v}|{p}|{w}
{n} in {p}|{a} {o} in {p}|best {n} in {p}|{n} vs {m}|{n} or {m}?|{n}?|the {n} of {w}|what about {n}?|and the {n}?|Add {n} to the {m}.
Add a {n} to my {m}|Add more {o}.|Subtract the {n} from the {m}.|Take the {n} away from the {m}.|Take the {n} to {p}.|Remove the {n}.
What is {n} plus {m}?|What is the sum of {n} and {m}?|How much is a {n}?|How much does a {n} cost?|How much {n} is in {m}?|How many {o} are in a {n}?
How many {o} do you have?|How many {o} fit in a {n}?|Put the {n} and the {m} together.|What do you get when you mix {n} and {m}?
The total {n} is {a}.|Increase the {n}.|Reduce the {n} of the {m}.|Count the {o}.|Let's {v} the {n}.|Imagine a {a} {n}. What would it {v}?
Pretend you are a {n}.|You are a {a} {n}. {v} me.|Act as a {n} and {v} the {m}.|Say {n} in {p}.|Spell {n}.|Rhyme with {n}.|Sing about {n}.""".replace("\n", "|").split("|")

NUMBERS = """What is {i} percent of {j}?|{i}% of {j}|What is the square root of {i}?|sqrt({i})|{i} squared|What is {i} squared?|{i}^2|{i}^{j}|{i} to the power of {j}
{i}!|Is {i} prime?|Is {i} even?|Is {i} a prime number?|Is {i} odd or even?|{i}|{i} {j}|{i}, {j}|{i} and {j}|{i} {j} {k}|{i} or {j}
Count to {i}.|Count from {i} to {j}.|List the numbers from {i} to {j}.|What comes after {i}?
What is the average of {i} and {j}?|What is the mean of {i}, {j} and {k}?|What is {i} in binary?|What is {i} in words?|Convert {i} to hex.|Round {i}.{j}
Convert {i} miles to kilometers.|I am {i} years old.|{i}/{j} + {k}/{j}|f(x) = {i}x + {j}|Integrate x^{i}.|log {i}|sin({i})
I was born in 19{t}.|In the year 20{t}, what happened?|What happened in 1{i}?|My number is {i} {j}.|Call me at {i}-{j}-{k}.|Call {i} {j} {k}|The code is {i}{j}.
{i} {o}|{i} {a} {o}
The {n} has {i} {o}.|{n} number {i}|Chapter {i}|Room {i}, floor {j}|What is {i} {o} worth?|It is {i} degrees in {p}.
Solve x + {i} = {j}.|x + {i} = {j}|{i} + x = {j}|Solve {i}x = {j}|What is x if x - {i} = {j}?|What is the number {i}?
Name {i} {o}.|Give me {i} {o}.|Write {i} lines about {n}.|Write a {n} of {i} words.|Tell me {i} facts about {p}.|What are the top {i} {o}?|Pick a number between {i} and {j}.
Solve {i}x + {j} = {k}.|{i}x - {j} = {k}|{i}x - {j}|Simplify {i}x + {j}x.|Convert {i} to roman numerals.|{i} in roman numerals|Is {i} a square number?|What are the factors of {i}?|Factorize {i}.|factors of {i}
List the primes up to {i}.|What comes before {i}?|What is the next number after {i}, {j}, {k}?|{i} is my favourite number.|Convert {i} {n} to {m}.|How many {n} are in {i} {o}?|{i} out of {j}|{i}:{j} odds, what is that?
gcd({i}, {j})|lcm({i}, {j})|Roll a {i}-sided die|{w} was born in 1{i} and died in 1{j}.|What is {i}?|What is {i} plus {n}?|Add {i} {o} to the {n}.""".replace("\n", "|").split("|")

CODE = r"""def {v}_{n}(x):\n    return x + {i}|print("{n}")|for i in range({i}):\n    print(i)|import {n}\n{n}.{v}()|SELECT * FROM {o} WHERE {n} = {i};
SELECT {n}, {m} FROM {o}|<div class="{n}">{a} {m}</div>|<p>{n}</p>|function {v}(a, b) {{ return a + b; }}|const {n} = {i};|let {n} = "{m}";
int main() {{ return {i}; }}|if {n} > {i}: {v}({m})|git commit -m "{v} {n}"|sudo apt install {n}|curl http://{n}.com/{m}|{{"{n}": {i}, "{m}": "{a}"}}
[{i}, {j}, {k}]|{n} = {m} + {i}|x = {i}; y = {j}|while true; do {v}; done|ls -la /{n}/{m}|Why does {n}.{v}() fail?|Write a function to {v} a {n} in Python.
Write Python code that adds two numbers.|What does `{v}({n})` do?|Error: {n} is not {a} (line {i})|# {n}\n\n- {m}\n- {o}|{n}@{m}.com|https://www.{n}.org/{m}?id={i}
return {n} - {i} if {m} > {j} else {n} + {k}|{n}[{i}] = {m}[{j}] * {k}|for ({n} = {i}; {n} < {j}; {n}++)|assert {v}({i}, {j}) == {k}|func {v}({n} int) error {{|public class {n} {{ }}|{n}->{v}();|#include <{n}.h>|echo ${n}|cd {n} && make {v}|\frac{{{i}}}{{{j}}}|{n}|TODO: {v} the {n}""".replace("\n", "|").replace("\\n", "\n").split("|")

# Things that one can look up with a function but not without.
FACTS = """What is the {n} of {p}?|What is the {n} of {p}?|What is the {n} of {w}?|What's the {n} of {p}?|What is the {n} in {p}?|What's the {n} for {w}?|Look up the {n} of {p}.|Find the {n} for {w}.|Tell me the {n} of {p}.
Tell me the {n} of {w}.|Can you get the {n} of {p}?|{n} of {p}?|{n} of {w}|{n} for {p}|I need the {n} of {p}.|Give me the {n} of {w}, please.|Check the {n} of {p}.|Do you know the {n} of {p}?|What is the capital of {p}?
Please fetch the {n} for {p}.|Show me the {n} of {w}.|get {n} of {p}|How is the {n} in {p}?|What is the capital of {p}?|How is the weather in {p}?|What is the population of {p}?|Who is the president of {p}?|What is the currency of {p}?""".replace("\n", "|").split("|")

RANGES = ((0x20, 0x7F), (0x20, 0x7F), (0xA1, 0x180), (0x370, 0x400), (0x400, 0x460), (0x5D0, 0x5EB), (0x620, 0x64B),
          (0x900, 0x970),
          (0x3041, 0x30FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A4), (0x1F300, 0x1F64F), (0x2190, 0x2400))


def large(rng):
    return rng.randrange(1000, 10 ** rng.choice((4, 4, 5, 6, 9)))


def fill(rng, template):
    pick = rng.choice
    values = {"n": pick(NOUNS), "m": pick(NOUNS), "o": pick(OBJECTS), "v": pick(VERBS), "u": pick(VERBS),
              "a": pick(ADJECTIVES),
              "b": pick(ADJECTIVES), "p": pick(PLACES), "q": pick(PLACES), "w": pick(PEOPLE), "i": operand(rng),
              "j": operand(rng),
              "k": operand(rng), "t": f"{rng.randrange(100):02d}"}
    return template.format(**values)


KINDS = ("large", "large", "product", "divisor", "divisor", "decimal", "decimal", "grouped", "many", "many", "percent",
    "power", "root", "mean", "negative", "negative", "fraction")
FRACTIONS = "1/2|1/3|2/3|1/4|3/4|a half|one third|three quarters".split("|")


def beyond(rng):
    """A sum, difference, product or quotient that the model cannot do: with larger, decimal or negative numbers, with
    fractions, or with many numbers."""
    kind, pick = rng.choice(KINDS), rng.choice
    i, j = operand(rng), operand(rng)
    small = lambda: rng.randrange(1, pick((13, 101, 1000)))
    terms, a, b = ADD_TERMS + SUB_TERMS, i, j
    if kind == "large":
        terms, a, b = pick((ADD_TERMS, SUB_TERMS, MUL_TERMS,
            DIV_TERMS)), large(rng), large(rng) if rng.random() < 0.5 else j
    elif kind == "product":
        terms, a, b = MUL_TERMS, rng.randrange(100, 1000), rng.randrange(10, 1000)
    elif kind == "divisor":
        terms, a, b = DIV_TERMS, rng.randrange(10, 1000), rng.randrange(10, pick((30, 101, 1000)))
    elif kind == "decimal":
        terms, a, b = pick((terms, MUL_TERMS, DIV_TERMS)), decimal(rng), decimal(rng) if rng.random() < 0.5 else small()
    elif kind == "grouped":
        a = f"{small()},{rng.randrange(1000):03d}"
    elif kind == "negative":
        terms, a = pick((terms, MUL_TERMS)), -small()
    elif kind == "fraction":
        a, b = pick(FRACTIONS), pick((pick(FRACTIONS), j))
    if kind in ("large", "product", "decimal", "grouped", "negative",
            "fraction") and terms is not DIV_TERMS and rng.random() < 0.5:
        a, b = b, a
    if kind == "many":
        numbers, sign = [small() for _ in range(pick((4, 4, 5, 6, 8)))], pick(" + | - | * |+|-|*| plus | minus | times |mixed".split("|"))
        x = str(numbers[0]) + "".join((sign if sign != "mixed" else pick((" + ", " - ", " * "))) + str(n)
            for n in numbers[1:])
        if rng.random() < 0.3:
            x = pick(("the sum of ", "the total of ")) + ", ".join(map(str, numbers))
    elif kind == "percent":
        x = pick(("{i}% of {j}", "{i} % of {j}", "{i} percent of {j}", "{j} plus {i}%", "{j} minus {i} percent",
            "{j} - {i}%", "{i} as a percentage of {j}")).format(i=small(), j=small())
    elif kind == "power":
        x = pick(("{i} squared", "{i}^2", "{i}^{j}", "{i}**{j}", "{i} to the power of {j}", "{i} cubed",
            "the square of {i}", "{i}!", "the factorial of {i}", "{i}²")).format(i=small(), j=rng.randrange(2, 13))
    elif kind == "root":
        x = pick(("the square root of {i}", "sqrt({i})", "√{i}", "the cube root of {i}", "the root of {i}", "log({i})",
            "the logarithm of {i}")).format(i=small())
    elif kind == "mean":
        numbers = [small() for _ in range(pick((2, 3, 3, 4, 5)))]
        x = pick(("the average of ", "the mean of ", "the median of ",
            "the average of the numbers ")) + ", ".join(map(str, numbers[:-1])) + f" and {numbers[-1]}"
    else:
        x = pick(terms).replace("{a}", str(a)).replace("{b}", str(b))
    return pick(BARE if rng.random() < 0.4 else WRAPS).replace("{x}", x)


def decimal(rng):
    return f"{rng.randrange(rng.choice((10, 100, 1000)))}.{rng.randrange(1, 10 ** rng.choice((1, 1, 1, 2, 2, 3)))}"


def pseudo(rng):
    return "".join(rng.choice(("b", "c", "d", "f", "g", "h", "k", "l", "m", "n", "p", "r", "s", "t", "v", "w", "z",
                   "st", "tr", "ch", "sh"))
                   + rng.choice(("a", "e", "i", "o", "u", "ea", "oo", "ar", "in")) for _ in range(rng.randrange(1, 5)))


def salad(rng):
    pools = (COMMON, COMMON, NOUNS, VERBS, ADJECTIVES, OBJECTS, PLACES, PEOPLE)
    n = rng.choice((1, 2, 3, 5, 8, 12, 20))
    out = [pseudo(rng) if rng.random() < 0.15 else rng.choice(rng.choice(pools)) for _ in range(n)]
    if rng.random() < 0.15:
        out.insert(rng.randrange(len(out) + 1), str(operand(rng)))
    s = " ".join(out)
    return (s[0].upper() + s[1:] if rng.random() < 0.5 else s) + rng.choice(("", "", ".", "?", "!"))


def noise(rng):
    roll = rng.random()
    if roll < 0.4:
        low, high = rng.choice(RANGES)
        return "".join(chr(rng.randrange(low, high)) for _ in range(rng.randrange(1, 25)))
    if roll < 0.6:
        return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz    ") for _ in range(rng.randrange(1, 30))).strip() or "x"
    if roll < 0.75:
        return rng.choice(("?", "!", ".", "...", "??", "-", "+", "=", "a", "x", "A", "0", "1", "\n", " ", ",", "/",
            "#", "*", "()", '""', ":)", "+ -", "? ?", "-1", "é"))
    if roll < 0.9:
        return "".join(rng.choice("!?#$%&*()[]{}<>/\\|=+-_.,:;'\"~^` ") for _ in range(rng.randrange(1, 20)))
    return "".join(chr(rng.choice((rng.randrange(0x20, 0x7F), rng.randrange(0xA1, 0x250))))
        for _ in range(rng.randrange(5, 60)))


def bare(text):
    """A message without the additions that do not change it."""
    return text.lower().strip(" .!?")


ASKED = {bare(text) for text in wordings.UNRELATED}


def one(rng):
    """A message that evaluation does not ask."""
    while True:
        text = any_one(rng)
        if bare(text) not in ASKED:
            return text


def any_one(rng):
    roll = rng.random()
    if roll < 0.11:
        return dress(rng, rng.choice(SMALLTALK))
    if roll < 0.25:
        return dress(rng, fill(rng, rng.choice(ASK)))
    if roll < 0.31:
        text = fill(rng, rng.choice(FACTS))
        return text if rng.random() < 0.6 else dress(rng, text)
    if roll < 0.52:
        return dress(rng, fill(rng, rng.choice(NUMBERS)))
    if roll < 0.72:
        x = beyond(rng)
        return x if rng.random() < 0.5 else dress(rng, x)
    if roll < 0.80:
        return fill(rng, rng.choice(CODE))
    if roll < 0.87:
        s = rng.choice(FOREIGN)
        return s if rng.random() < 0.6 else dress(rng, s)
    if roll < 0.94:
        return salad(rng)
    return noise(rng)


def unrelated(rng):
    """A message that is anything except a task the model can do."""
    if rng.random() < 0.12:
        return rng.choice((" ", "\n", "\n\n")).join(one(rng) for _ in range(rng.randrange(2, 7)))
    return one(rng)


def turn(rng, effort, slips=True, fresh=False):
    return Turn(question=unrelated(rng), analysis=plain(ANALYSIS[effort]), final=prompts.IDENTITY,
                concise=CONCISE[effort],
                detailed=DETAILED[effort], posthoc=POSTHOC, direct=True, complete=0, kind="identity")
