"""Three whole numbers with two operations, as a formula or in words, worked out in two steps like a two-step word
problem."""

from . import stories
from .phrasing import BARE, WRAPS, dress


def lines(text):
    return text.strip().replace("\n", "|").split("|")


# Wordings of each plan. The signs of formulas stand for all the ways to type them.
PLANS = [([tuple(s.split()) for s in plan.split(", ")], lines(terms), lines(orders)) for plan, terms, orders in (
    ("+ a b, + r c", "{a} + {b} + {c}|{a} + {b} + {c}|({a} + {b}) + {c}|the sum of {a}, {b} and {c}|the sum of {a}, {b}, and {c}|the total of {a}, {b} and {c}|{a}, {b} and {c} together|{a} and {b} and {c} added up",
     "Add {a}, {b} and {c}.|Add {a}, {b}, and {c}|Sum {a}, {b} and {c}.|sum({a}, {b}, {c})|Add up {a}, {b}, {c}|Add {a} and {b}, then add {c}.|Take {a}, add {b} and add {c}.|What do {a}, {b} and {c} make?|How much are {a}, {b} and {c}?|Add {a} {b} {c}"),
    ("+ a b, - r c", "{a} + {b} - {c}|{a} + {b} - {c}|({a} + {b}) - {c}|the sum of {a} and {b}, minus {c}",
     "Add {a} and {b}, then subtract {c}.|Add {a} and {b} and take {c} away.|Take {a}, add {b} and subtract {c}.|Start with {a}, add {b}, take away {c}.|Add {a} and {b}. Then subtract {c}.|Take {c} from the sum of {a} and {b}."),
    ("- a b, + r c", "{a} - {b} + {c}|{a} - {b} + {c}|({a} - {b}) + {c}",
     "Take {b} from {a}, then add {c}.|Subtract {b} from {a} and add {c}.|Take {a}, subtract {b} and add {c}.|Start with {a}, take away {b}, add {c}.|Subtract {b} from {a}. Then add {c}."),
    ("- a b, - r c", "{a} - {b} - {c}|{a} - {b} - {c}|({a} - {b}) - {c}",
     "Take {b} and then {c} from {a}.|Subtract {b} from {a}, then subtract {c}.|Subtract {b} and {c} from {a}.|Take {b} and {c} away from {a}.|Start with {a}, take away {b}, take away {c}."),
    ("* a b, + r c", "{a} * {b} + {c}|{a} * {b} + {c}|({a} * {b}) + {c}|the product of {a} and {b}, plus {c}",
     "Multiply {a} by {b}, then add {c}.|Multiply {a} and {b} and add {c}.|Take {a} times {b} and add {c}.|Multiply {a} by {b}. Then add {c}.|Add {c} to the product of {a} and {b}."),
    ("* a b, - r c", "{a} * {b} - {c}|{a} * {b} - {c}|({a} * {b}) - {c}|the product of {a} and {b}, minus {c}",
     "Multiply {a} by {b}, then subtract {c}.|Multiply {a} and {b} and take away {c}.|Take {a} times {b} and subtract {c}.|Multiply {a} by {b}. Then subtract {c}.|Take {c} from the product of {a} and {b}."),
    ("* b c, + a r", "{a} + {b} * {c}|{a} + {b} * {c}|{a} + ({b} * {c})|{a} plus the product of {b} and {c}",
    "Add {a} to {b} times {c}.|Add the product of {b} and {c} to {a}."),
    ("* b c, - a r", "{a} - {b} * {c}|{a} - {b} * {c}|{a} - ({b} * {c})|{a} minus the product of {b} and {c}",
    "Take {b} times {c} from {a}.|Subtract the product of {b} and {c} from {a}."),
    ("+ a b, * r c", "({a} + {b}) * {c}|({a} + {b}) * {c}|the sum of {a} and {b}, times {c}",
    "Add {a} and {b}, then multiply by {c}.|Multiply the sum of {a} and {b} by {c}.|Add {a} and {b} and multiply the sum by {c}."),
    ("- a b, * r c", "({a} - {b}) * {c}|({a} - {b}) * {c}|the difference of {a} and {b}, times {c}",
    "Take {b} from {a}, then multiply by {c}.|Subtract {b} from {a} and multiply by {c}."),
    ("+ b c, * r a", "{a} * ({b} + {c})|{a} * ({b} + {c})|{a} times the sum of {b} and {c}",
    "Multiply {a} by the sum of {b} and {c}."),
    ("* a b, * r c", "{a} * {b} * {c}|{a} * {b} * {c}|the product of {a}, {b} and {c}",
    "Multiply {a}, {b} and {c}.|Multiply {a} by {b}, then by {c}.|Take {a} times {b} times {c}."),
    ("+ a b, / r c", "({a} + {b}) / {c}|({a} + {b}) / {c}|the sum of {a} and {b}, divided by {c}",
    "Add {a} and {b}, then divide by {c}.|Divide the sum of {a} and {b} by {c}."),
    ("- a b, / r c", "({a} - {b}) / {c}|({a} - {b}) / {c}|the difference of {a} and {b}, divided by {c}",
    "Take {b} from {a}, then divide by {c}.|Subtract {b} from {a} and divide by {c}."),
    ("/ a b, + r c", "{a} / {b} + {c}|{a} / {b} + {c}|({a} / {b}) + {c}",
    "Divide {a} by {b}, then add {c}.|Divide {a} by {b} and add {c}."),
    ("/ a b, - r c", "{a} / {b} - {c}|{a} / {b} - {c}|({a} / {b}) - {c}",
    "Divide {a} by {b}, then subtract {c}.|Divide {a} by {b} and take away {c}."),
    ("/ b c, + a r", "{a} + {b} / {c}|{a} + ({b} / {c})", "Add {a} to {b} divided by {c}."))]
SHARES = (9, 8, 6, 5, 6, 5, 14, 8, 6, 3, 3, 3, 2, 1, 2, 2, 3)
SPELLED = {"+": ("+", "+", "+", "plus"), "-": ("-", "-", "-", "minus"), "*": ("*", "*", "x", "×", "times"),
    "/": ("/", "/", "÷", "divided by")}


def typed(rng, text):
    """A formula's signs as people type them: with or without spaces, or as words."""
    signs = {sign: rng.choice(ways) for sign, ways in SPELLED.items()}
    close = rng.random() < 0.3
    for sign, word in signs.items():
        text = text.replace(f" {sign} ", word if close and len(word) == 1 else f" {word} ")
    return text


def turn(rng, effort, slips=True, fresh=False):
    plan, terms, orders = rng.choices(PLANS, SHARES)[0]
    roll = rng.random()
    text = rng.choice(orders) if roll < 0.3 else rng.choice(BARE if roll < 0.65 else WRAPS).replace("{x}",
        typed(rng, rng.choice(terms)))

    def tell(values):
        question = text
        for k, n in values.items():
            question = question.replace("{" + k + "}", str(n))
        return question if roll < 0.4 else dress(rng, question), [values[k] for k in "abc"]

    return stories.solve(rng, plan, tell, effort, slips and rng.random() < 0.2, fresh, "task")
