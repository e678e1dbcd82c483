"""The texts of word problems, in English with blanks, and the plans that solve them.

In a text {a}, {b} and {c} are numbers, {t} is "twice" or "3 times", {n} and {m} are people, {o} and {p} things, {g}
and {G} one container and several, and {w} a place. {he}, {him} and {his} stand for {n}. [has|have] is a verb for {n}
alone and for "I", "we" or "they". A plan is a list of (sign, x, y) over those numbers, where "r" is the result of the
previous step.
"""

import re

from .phrasing import ADD_STORIES, GAINS, LOSSES, SUB_STORIES, base, story_question

CONTAINERS = """box boxes|bag bags|basket baskets|jar jars|crate crates|shelf shelves|tray trays|drawer drawers|pack packs|packet packets|carton cartons
table tables|row rows|room rooms|bus buses|cage cages|bowl bowls|case cases|sack sacks|van vans|tin tins|cupboard cupboards|cart carts
bucket buckets|album albums|folder folders|wagon wagons|truck trucks|plate plates|bundle bundles|pile piles|group groups|stack stacks""".replace("\n", "|").split("|")
PLACES = """shop store school garden park kitchen library museum farm office house classroom attic cellar barn market hall yard
warehouse workshop club hotel zoo studio factory bakery garage camp gym port village station castle""".split()


def parts(text):
    """Texts separated by bars. Bars in brackets do not separate."""
    return re.split(r"\|(?![^\[]*\])", text)


def lines(text):
    return text.strip().split("\n")


OWNED = lines("""
{n} [has|have] {a} {o}
{n} had {a} {o}
{n} [owns|own] {a} {o}
{n} [starts|start] with {a} {o}
{n} bought {a} {o}
{n} [collects|collect] {o} and [has|have] {a}
{n} picked {a} {o}
{n} found {a} {o}
{n} [keeps|keep] {a} {o} at home
{n} got {a} {o} for {his} birthday
At first {n} [has|have] {a} {o}
In the morning {n} [has|have] {a} {o}
On Monday {n} had {a} {o}
There are {a} {o} on {n's} table
{n} [is|are] carrying {a} {o}
{n} made {a} {o}""")
OWNED_MORE = lines("""
{m} gives {him} {x} more
{m} brings {x} others
{he} got {x} more
{he} bought another {x}
{he} found {x} more {o}
{he} [gets|get] {x} from {m}
{he} won {x} more
{he} [is|are] given {x} by {m}
{m} adds {x}
{he} made {x} more
{x} more came by mail""")
OWNED_LESS = lines("""
{he} gave {x} to {m}
{he} [gives|give] {m} {x}
{m} takes {x} of them
{he} lost {x}
{he} sold {x} of them
{x} of them broke
{x} got lost
{he} [uses|use] {x}
{he} [lends|lend] {x} to {m}
{he} threw {x} away
{m} stole {x}
{x} were bad""")
OWNED_END = lines("""
How many {o} [does|do] {n} have now?
How many {o} [does|do] {n} have?
How many [does|do] {he} have now?
How many {o} [does|do] {he} have in the end?
How many {o} are there now?
How many does that make?
How many [has|have] {he} got?
How many {o} [has|have] {n} now?
What is the number of {o} now?
How many {o} is that?
So how many {o} [does|do] {n} have then?
Tell me how many {o} {n} [has|have] now.
How many {o} [does|do] {n} end up with?
Now how many {o} belong to {n}?
how many {o}?""")
PLACED = lines("""
There are {a} {o} in the {w}
There were {a} {o} in the {w}
A {w} has {a} {o}
A {w} had {a} {o}
The {w} keeps {a} {o}
{a} {o} are in a {g}
{a} {o} were in the {w}
A {g} holds {a} {o}
I see {a} {o} in the {w}
The {w} opened with {a} {o}
We counted {a} {o} in the {w}""")
PLACED_MORE = lines("""
{x} more come
{x} more arrived
{x} are added
{m} puts in {x} more
{m} brings {x} more {o}
another {x} are delivered
{x} more {o} join them
{x} others were put there
it gets {x} more""")
PLACED_LESS = lines("""
{x} are taken away
{x} leave
{x} went missing
{m} takes {x}
{m} removes {x} of them
{x} of them are sold
{x} were thrown out
{x} {o} break
{m} picked out {x}
{x} are gone""")
PLACED_END = lines("""
How many {o} are there now?
How many {o} are there?
How many are left?
How many are there in the end?
How many {o} is that?
How many {o} remain there?
How many {o} can I find there now?
What is the number of {o} then?
How many {o} are still in it?
Say how many {o} there are now.
how many now?""")
JOINS = parts(". Then |. Then |. |, then | and then | and |. After that |. Later |. The next day |. In the afternoon |; |, but then |. On Tuesday |. Next ")
LEADS = parts("|||||||Suppose |Say |Imagine |Let's say |Assume ")


def changed(rng, signs):
    """Some things and what happens to them: a text and its plan."""
    states, more, less, ends = (OWNED, OWNED_MORE, OWNED_LESS, OWNED_END) if rng.random() < 0.65 else (PLACED,
        PLACED_MORE, PLACED_LESS, PLACED_END)
    text, plan, before = rng.choice(states), [], "a"
    for sign, x in zip(signs, "bc"):
        if states is OWNED and rng.random() < 0.4:
            verb = rng.choice(GAINS if sign == "+" else LOSSES)
            rest = rng.choice((" {x} more", " {x} {o}", " another {x}") if sign == "+" else (" {x}", " {x} of them",
                " {x} {o}"))
            many = "are" + verb[2:] if verb.startswith("is ") else " ".join([base(verb.split()[0])] + verb.split()[1:])
            clause = "{he} [" + verb + "|" + many + "]" + rest
        else:
            clause = rng.choice(more if sign == "+" else less)
        join = rng.choice(JOINS)
        if join in (" and ", " and then ") and plan:
            join = ". Then "
        text += join + clause.replace("{x}", "{" + x + "}")
        plan.append((sign, before, x))
        before = "r"
    return text + ". " + rng.choice(ends), plan


ONE_REST = lines("""
{n} [eats|eat] {b} of {his} {a} {o}. How many are left?
{n} ate {b} of {his} {a} {o}. How many {o} [has|have] {he} left?
{n} [loses|lose] {b} of {his} {a} {o}. How many [does|do] {he} have then?
{n} [gives|give] {b} of {his} {a} {o} to {m}. How many [does|do] {he} keep?
{n} sold {b} of {a} {o}. How many are still there?
{n} [breaks|break] {b} of {a} {o}. How many are whole?
{n} [drinks|drink] {b} of the {a} {o} in the {w}. How many remain?
{b} of the {a} {o} are gone. How many are left?
{b} of {n's} {a} {o} are broken. How many are not?
Of {a} {o} {b} are sold. How many are left?
Out of {a} {o}, {n} [uses|use] {b}. How many stay?
{m} takes {b} of {n's} {a} {o}. How many [does|do] {n} have now?
If {n} [eats|eat] {b} out of {a} {o}, how many are left?
How many of {a} {o} are left when {n} [eats|eat] {b}?
How many {o} are left if {b} of {a} are eaten?
{b} out of {a} {o} are bad. How many are good?
After {n} spent {b} of {his} {a} dollars, how much is left?
{n} [spends|spend] {b} of {his} {a} dollars. How much [does|do] {he} have left?""")
ONE_GROUPS = lines("""
There are {a} {G} with {b} {o} each. How many {o} are there?
There are {a} {G} and {b} {o} in each {g}. How many {o} are there in all?
{n} [has|have] {a} {G} of {b} {o}. How many {o} [does|do] {n} have?
{n} [buys|buy] {a} {G}. Each {g} holds {b} {o}. How many {o} is that?
Each {g} has {b} {o}. How many {o} are in {a} {G}?
One {g} holds {b} {o}. How many do {a} {G} hold?
{a} children get {b} {o} each. How many {o} are needed?
{n} [gives|give] {b} {o} to each of {a} friends. How many {o} [does|do] {n} give away?
A {o} pack has {b} pieces. How many pieces are in {a} packs?
{n} [reads|read] {a} pages a day. How many pages [does|do] {n} read in {b} days?
{n} [makes|make] {a} {o} per hour. How many {o} [does|do] {he} make in {b} hours?
{n} [earns|earn] {a} dollars an hour and [works|work] {b} hours. How much [does|do] {n} earn?
A ticket costs {a} dollars. How much do {b} tickets cost?
One of the {o} costs {a} dollars. How much are {b} {o}?
{a} {o} at {b} dollars each, how much is that?
{n} [buys|buy] {a} {o} for {b} dollars each. What does {n} pay?
{n} [has|have] {a} {o}. {m} has {b} times as many. How many {o} does {m} have?
{n} [saves|save] {a} dollars a week. How much [has|have] {he} saved after {b} weeks?
A hall has {a} rows of {b} seats. How many seats are there?
There are {a} rows with {b} {o} in every row. How many {o} is that altogether?
{a} buses carry {b} people each. How many people ride?
A car needs {a} minutes for a lap. How long do {b} laps take?
Every day {a} {o} are sold. How many {o} are sold in {b} days?
A machine makes {a} {o} a minute. How many {o} does it make in {b} minutes?
{n} [walks|walk] {a} miles every day. How far is that in {b} days?
If every {g} has {b} {o}, how many {o} do {a} {G} have?
{n} [plants|plant] {a} rows of {b} {o}. How many {o} [does|do] {n} plant?
The {w} has {a} floors with {b} rooms each. How many rooms are there?
{n} [fills|fill] {a} {G}, and {b} {o} go into each. How many {o} is that?
{a} people bring {b} {o} each. How many {o} are brought?
A wall has {a} rows of {b} bricks. How many bricks is that?
{n} [scores|score] {a} points in each of {b} games. How many points in total?
In the {w} stand {a} {G}. In each lie {b} {o}. How many {o} lie there?
A rabbit eats {a} carrots a day. How many does it eat in {b} days?
{n} [has|have] {a} {o} and {m} has {t} as many. How many {o} does {m} have?
{n} [has|have] {a} {o}. {m} has {t} as many {o} as {n}. How many has {m}?
{n} [runs|run] {a} laps of {b} metres. How many metres is that?
{a} {o} weigh {b} grams each. How much do they weigh together?
{n} [orders|order] {b} {o} for each of {a} guests. How many {o} [does|do] {n} order?
A {g} of {o} costs {a} dollars. What do {b} {G} cost?
Per {g} there are {b} {o}. {n} [has|have] {a} {G}. How many {o}?
It takes {a} {o} to fill a {g}. How many {o} fill {b} {G}?""")
ONE_SHARES = lines("""
{a} {o} are shared among {b} children. How many does each get?
{a} {o} are shared equally among {b} people. How many {o} does each person get?
{n} [shares|share] {a} {o} equally with friends, {b} people in all. How many does each get?
{n} [puts|put] {a} {o} into {b} {G}, the same number in each. How many {o} are in each {g}?
{a} {o} are put into {b} {G} equally. How many go into one {g}?
{n} [packs|pack] {a} {o} into {G} of {b}. How many {G} are there?
{n} [has|have] {a} {o} and [puts|put] {b} in each {g}. How many {G} [does|do] {he} need?
A {g} holds {b} {o}. How many {G} are needed for {a} {o}?
{a} {o} are split between {b} friends. How many {o} for each?
{b} friends split {a} dollars. How much does each get?
{b} {o} cost {a} dollars. How much does one cost?
{n} [pays|pay] {a} dollars for {b} {o}. What is the price of one?
{n} [reads|read] {a} pages in {b} days, the same every day. How many pages a day is that?
A rope of {a} metres is cut into {b} equal pieces. How long is each piece?
{a} students form teams of {b}. How many teams are there?
{a} people sit down at {b} tables, the same number at each. How many sit at one table?
{n} [earns|earn] {a} dollars in {b} hours. How much is that per hour?
{n} [divides|divide] {a} {o} into {b} equal groups. How many {o} are in a group?
{n} [hands|hand] out {a} {o} to {b} kids evenly. How many {o} does a kid get?
{a} {o} stand in {b} equal rows. How many {o} are in a row?
A machine makes {a} {o} in {b} minutes. How many does it make in one minute?
{n} [walks|walk] {a} miles in {b} days, the same each day. How far is that a day?
The teacher gives {a} {o} to {b} groups, all the same. How many {o} per group?
If {b} people share {a} {o}, how many does everyone have?
{a} {o} in {b} {G}: how many in each {g}?
How many {G} of {b} {o} can {n} fill with {a} {o}?
{b} brothers divide {a} {o} fairly. How many does each brother have?
{n} [has|have] {a} {o}. That is {b} times as many as {m} has. How many does {m} have?
{n} [saves|save] {b} dollars a week. After how many weeks [has|have] {he} {a} dollars?
Each ticket is {b} dollars. How many tickets can {n} buy for {a} dollars?""")
ONE_LEFTOVERS = lines("""
{a} {o} are shared equally among {b} children. How many are left over?
{n} [packs|pack] {a} {o} into {G} of {b}. How many {o} are left over?
{n} [puts|put] {a} {o} into {b} {G}, the same number in each. How many {o} remain?
{n} [shares|share] {a} {o} equally among {b} friends and [keeps|keep] the rest. How many {o} [does|do] {n} keep?
{a} students form teams of {b}. How many students are left without a team?
Each {g} holds {b} {o}. {n} [fills|fill] as many {G} as {he} can from {a} {o}. How many {o} are left over?
{a} {o} are split evenly between {b} people. How many stay over?
With {a} {o} and {b} in every {g}, how many {o} are left over?
{n} [has|have] {a} {o} and [gives|give] the same number to {b} kids. What is left over?
{a} {o} are laid in rows of {b}. How many do not fill a row?""")

GROUPS = lines("""
{n} [has|have] {a} {G} with {b} {o} each
{n} [buys|buy] {a} {G} of {b} {o}
There are {a} {G} with {b} {o} in each
There are {a} {G} of {b} {o} in the {w}
Each of {a} {G} holds {b} {o}
{n} [makes|make] {a} {o} a day for {b} days
{n} [gets|get] {a} {G}, each with {b} {o}
{a} friends bring {n} {b} {o} each
{n} [fills|fill] {a} {G} with {b} {o} each
{n} [plants|plant] {a} rows of {b} {o}
The {w} has {a} rows of {b} {o}""")
GROUPS_MORE = lines("""
{c} more {o} lie beside them
{m} brings {c} more {o}
{he} [finds|find] {c} more {o}
{he} also [has|have] {c} loose {o}
there are also {c} {o} on the floor
{he} [gets|get] another {c} {o}
{m} has {c} {o} too
{c} more come later
{c} {o} are added
{c} {o} are outside""")
GROUPS_LESS = lines("""
{c} of the {o} are broken
{m} takes {c} of them
{he} [gives|give] {c} {o} to {m}
{he} [loses|lose] {c}
{c} {o} are sold
{he} [eats|eat] {c} of them
{c} of them go missing
{he} [throws|throw] away {c} {o}
{he} [loses|lose] {c} of them
{he} [sells|sell] {c}
{he} [uses|use] {c}
{c} are used up
{m} gets {c} of them""")
GROUPS_END = lines("""
How many {o} are there in all?
How many {o} are there now?
How many {o} is that?
How many {o} are there?
How many does that make?
What is the number of {o}?
How many {o} in total?
How many {o} remain?""")


def grouped(rng, sign):
    more = sign == "+"
    ends = GROUPS_END[:-1] if more else [e for e in GROUPS_END if "all" not in e
        and "total" not in e] + ["How many {o} are left?", "How many does that leave?"]
    text, change = rng.choice(GROUPS), rng.choice(GROUPS_MORE if more else GROUPS_LESS)
    if text.startswith("{n}") and change.startswith("{he} ") and rng.random() < 0.4:
        text += rng.choice((" and ", " and then ", ", ", ", but ")) + change.removeprefix("{he} ")
    else:
        text += rng.choice(JOINS) + change
    text += ". " + rng.choice(ends)
    return text, [("*", "a", "b"), (sign, "r", "c")]


SHARED = lines("""
{a} {o} are shared equally among {b} children
{n} and some friends, {b} people in all, share {a} {o}
{a} {o} are put into {b} {G}, the same number in each
{n} [splits|split] {a} {o} evenly between {b} kids
{b} friends divide {a} {o} fairly
{m} hands out {a} {o} to {b} kids evenly
{n} [packs|pack] {a} {o} into {b} equal {G}""")
SHARED_MORE = parts("Then each gets {c} more|Later {c} more {o} are given to each|Each gets another {c}|Then {m} gives everyone {c} more|Then {c} more are added to each")
SHARED_LESS = parts("Then each gives {c} away|Each uses {c}|Then every one of them loses {c}|Then {c} are taken from each|Later {m} takes {c} back from each")
SHARED_END = parts("How many {o} does each have now?|How many {o} has each of them?|How many has each then?|How many {o} are with each?|How many {o} are in one share now?")


def shared(rng, sign):
    text = rng.choice(SHARED) + ". " + rng.choice(SHARED_MORE if sign == "+"
        else SHARED_LESS) + ". " + rng.choice(SHARED_END)
    return text, [("/", "a", "b"), (sign, "r", "c")]


POOLED = lines("""
{n} [has|have] {a} {o} and {m} has {b}
{n} [picks|pick] {a} {o} and {m} picks {b}
There are {a} {o} in one {g} and {b} in another
{n} [has|have] {a} {o} and [gets|get] {b} more
{n} [finds|find] {a} {o} on Monday and {b} on Tuesday
{a} {o} came in the morning and {b} in the evening
{n} [bakes|bake] {a} {o} and {m} bakes {b}
{n} [has|have] {a} {o} in the {w} and {b} at home""")
REDUCED = lines("""
{n} [has|have] {a} {o} and [loses|lose] {b}
{n} [has|have] {a} {o} and [gives|give] {b} to {m}
{n} had {a} {o}, but {b} broke
{n} picked {a} {o}, and {b} of them were bad
Of {a} {o} {b} are sold
There are {a} {o} in the {w} and {m} takes {b}""")
PRICED_END = parts("Each costs {c} dollars. How much is that in all?|They sell all of them for {c} dollars each. How much money is that?|Each one weighs {c} grams. How much do they weigh together?|"
                   "All of the {o} cost {c} dollars each. What do they cost together?|Each is worth {c} points. How many points is that?|"
                   "For each of these {o} there are {c} {p}. How many {p} are there?")
SPLIT_END = parts("They share them equally among {c} friends. How many does each friend get?|All of them are put into {c} {G} equally. How many {o} are in one {g}?|"
                  "They go into {G} of {c}. How many {G} is that?|All of them are split between {c} children. How many {o} for each?|"
                  "They are laid out in {c} equal rows. How many {o} are in a row?|Each {g} takes {c}. How many {G} are needed for all of them?")
OVER_END = parts("All of them are shared equally among {c} children. How many are left over?|They go into {G} of {c}. How many {o} are left over?|"
                 "They are put into {c} {G} equally. How many {o} are left over?|They are split evenly between {c} friends. How many remain?")


def pooled(rng, sign):
    text, first = (rng.choice(POOLED), "+") if rng.random() < 0.6 else (rng.choice(REDUCED), "-")
    text += ". " + rng.choice({"*": PRICED_END, "/": SPLIT_END, "%": OVER_END}[sign])
    if first == "-":
        text = re.sub(r"\. Each (one )?(costs|weighs|is worth)", r". Each one left \2",
            text.replace("for all of them", "for the rest"))
        text = re.sub(r"\. (They|All of them|All)\b", ". The rest",
            text.replace("They share them", "They are shared").replace("They sell all of them for",
            "The rest sell for"))
    return text, [(first, "a", "b"), (sign, "r", "c")]


PRODUCTS = lines("""
{n} [buys|buy] {a} {o} at {b} dollars each
{n} [buys|buy] {a} {o} for {b} dollars each
{n} [takes|take] {a} {o}. Each costs {b} dollars
{a} {o} cost {b} dollars each. {n} [buys|buy] them all
One of the {o} costs {b} dollars. {n} [wants|want] {a} of them
{n} [gets|get] {a} {o}, {b} dollars apiece""")
CHANGE_END = parts("{he} [pays|pay] with {c} dollars. How much change [does|do] {he} get?|{he} [gives|give] a note of {c} dollars. How much comes back?|"
                   "{he} [has|have] {c} dollars. How much money is left?|{he} had {c} dollars. How many dollars remain?|"
                   "How much change is there from {c} dollars?|How much of {his} {c} dollars [does|do] {he} have left?|{n} [hands|hand] over {c} dollars. What is the change?")
EXTRA_END = parts("The delivery costs {c} dollars more. How much [does|do] {he} pay?|{he} also [buys|buy] a {g} for {c} dollars. How much is it all together?|"
                  "{he} [adds|add] a tip of {c} dollars. What [does|do] {he} pay?|{he} [pays|pay] another {c} dollars for the {w}. How much is that in total?")
COUPON_END = parts("{he} [gets|get] {c} dollars off. How much [does|do] {he} pay?|A coupon takes off {c} dollars. What is the price?|{m} pays {c} dollars of it. What is left for {n} to pay?")


def priced(rng, way):
    ends, step = {"change": (CHANGE_END, ("-", "c", "r")), "extra": (EXTRA_END, ("+", "r", "c")),
        "coupon": (COUPON_END, ("-", "r", "c"))}[way]
    return rng.choice(PRODUCTS) + ". " + rng.choice(ends), [("*", "a", "b"), step]


COMPARED = lines("""
{n} [has|have] {a} {o}. {m} has {b} {more} than {n}
{n} [has|have] {a} {o}, {m} has {b} {more} than {n}
{n} [has|have] {a} {o} and {m} has {b} {more} than that
{n} found {a} {o}. {m} found {b} {more} than {n}
{n} [owns|own] {a} {o} and {m} owns {b} {more} {o} than {n}
{n} read {a} pages and {m} read {b} {more} than {n}
On Monday {n} sold {a} {o}, on Tuesday {b} {more} than on Monday
The first {g} has {a} {o}, the second {b} {more} than the first
There are {a} {o} and {b} {more} {p} than {o} in the {w}""")
TIMES_AS_MANY = lines("""
{n} [has|have] {a} {o}. {m} has {t} as many
{n} [has|have] {a} {o} and {m} has {t} as many {o} as {n}
{n} picked {a} {o} and {m} picked {t} as many
The first {g} has {a} {o}, the second {t} as many
{n} made {a} {o} on Monday and {t} as many on Tuesday
There are {a} {o} and {t} as many {p}""")
TOGETHER_END = parts("How many do they have together?|How many have both together?|How many is that together?|How many are there altogether?|How many in total?|How many in all?|"
                     "What is the total?|Together they have how many?|How many is it for both?|How many are both together?")


def compared(rng, sign):
    if sign == "*":
        return rng.choice(TIMES_AS_MANY) + ". " + rng.choice(TOGETHER_END), [("*", "a", "t"), ("+", "a", "r")]
    more = "more" if sign == "+" else rng.choice(("fewer", "fewer", "less"))
    return rng.choice(COMPARED).replace("{more}", more) + ". " + rng.choice(TOGETHER_END), [(sign, "a", "b"),
        ("+", "a", "r")]


# Two steps in a fixed text.
FIXED = [(text, [tuple(s.split()) for s in plan.split(", ")]) for text, plan in (row.split(" :: ") for row in lines("""
{n} [reads|read] {a} pages a day. The book has {c} pages. How many pages are left after {b} days? :: * a b, - c r
A book has {c} pages. {n} [reads|read] {a} pages a day for {b} days. How many pages remain? :: * a b, - c r
{n} [needs|need] {c} {o} and [makes|make] {a} a day. How many are missing after {b} days? :: * a b, - c r
The trip is {c} miles. {n} [drives|drive] {a} miles an hour for {b} hours. How many miles are left? :: * a b, - c r
{n} [has|have] {c} {o} and [uses|use] {a} a day. How many are left after {b} days? :: * a b, - c r
{n} [has|have] {c} {o} and [gives|give] {b} to each of {a} friends. How many {o} [does|do] {n} keep? :: * a b, - c r
There are {c} {o}. {a} children take {b} each. How many are left? :: * a b, - c r
{n} had {c} dollars and [earns|earn] {a} dollars an hour. How much [has|have] {he} after {b} hours? :: * a b, + r c
{n} [has|have] {c} dollars and [saves|save] {a} dollars a week. How much is it after {b} weeks? :: * a b, + r c
{n} already read {c} pages and [reads|read] {a} pages a day now. How many pages is that after {b} days? :: * a b, + r c
A tree is {c} feet high and grows {a} feet a year. How high is it after {b} years? :: * a b, + r c
The fee is {c} dollars plus {a} dollars an hour. How much are {b} hours? :: * a b, + r c
A taxi costs {c} dollars and {a} dollars a mile. What does a ride of {b} miles cost? :: * a b, + r c
{n} [earns|earn] {a} dollars a day and [works|work] {b} days. Then {he} [spends|spend] {c} dollars. How much is left? :: * a b, - r c
{n} [saves|save] {a} dollars a week for {b} weeks and [buys|buy] a {g} for {c} dollars. How much is left? :: * a b, - r c
{n} [makes|make] {a} {o} an hour for {b} hours. {m} makes {c}. How many do they make together? :: * a b, + r c
{n} [has|have] {a} {G} of {b} {o}. {m} has {c} {o}. How many more [does|do] {n} have? :: * a b, - r c
A {g} holds {b} red and {c} blue {o}. How many {o} are in {a} {G}? :: + b c, * r a
Every child gets {b} {o} and {c} {p}. How many things do {a} children get? :: + b c, * r a
{n} [eats|eat] {b} {o} in the morning and {c} in the evening. How many is that in {a} days? :: + b c, * r a
A meal is {b} dollars and a drink is {c} dollars. What do {a} people pay who have both? :: + b c, * r a
{n} [earns|earn] {b} dollars a day and [spends|spend] {c}. How much is left after {a} days? :: - b c, * r a
A {g} had {b} {o}, but {c} fell out of each. How many {o} are in {a} {G}? :: - b c, * r a
A shirt was {b} dollars and is {c} dollars cheaper now. How much are {a} shirts? :: - b c, * r a
{a} {o} are shared among {b} girls and {c} boys. How many does each child get? :: + b c, / a r
{n} [shares|share] {a} {o} with {b} friends and {c} cousins; {n} [takes|take] none. How many does everyone get? :: + b c, / a r
{b} adults and {c} children split {a} {o} equally. How many for each? :: + b c, / a r
{a} {o} go into {b} red and {c} blue {G}, the same number in each. How many {o} are in one {g}? :: + b c, / a r
{n} [has|have] {a} {G} of {b} {o} and [shares|share] them among {c} friends. How many does each friend get? :: * a b, / r c
There are {a} {G} with {b} {o} each. {c} people share them equally. How many {o} does each get? :: * a b, / r c
{n} [buys|buy] {a} {G} of {b} {o} and [puts|put] them into {c} {G} equally. How many go into one? :: * a b, / r c
{a} rows of {b} {o} are moved into {c} equal rows. How many {o} are in a row then? :: * a b, / r c
{c} friends buy {a} {o} at {b} dollars each and split the price. How much does each pay? :: * a b, / r c
{n} [has|have] {a} {G} of {b} {o} and [packs|pack] them in {G} of {c}. How many {o} are left over? :: * a b, % r c
{b} {o} cost {a} dollars. How much do {c} {o} cost? :: / a b, * r c
{n} [makes|make] {a} {o} in {b} hours. How many [does|do] {he} make in {c} hours? :: / a b, * r c
{n} [reads|read] {a} pages in {b} days. How many pages [does|do] {he} read in {c} days? :: / a b, * r c
{b} {G} hold {a} {o}. How many {o} do {c} {G} hold? :: / a b, * r c
A car drives {a} miles in {b} hours. How far does it get in {c} hours? :: / a b, * r c
{n} [puts|put] {a} {o} into {b} {G} equally and [takes|take] {c} of the {G}. How many {o} is that? :: / a b, * r c
{n} [packs|pack] {a} {o} into {G} of {b}. {c} {G} are sold. How many {G} are left? :: / a b, - r c
{n} [pays|pay] {a} dollars for {b} {o}. A {g} costs {c} dollars more than one of them. What does it cost? :: / a b, + r c
{n} [has|have] {a} {o} and {b} {p}. {c} of them are lost. How many things are left? :: + a b, - r c
{n} [has|have] {a} {o}. {m} has {b} and {w} staff have {c}. How many is that in total? :: + a b, + r c
There are {a} {o}, {b} {p} and {c} others in the {w}. How many things are there? :: + a b, + r c
{n} walked {a} miles on Monday, {b} on Tuesday and {c} on Wednesday. How many miles is that? :: + a b, + r c
The hall has {a} seats. {b} adults and {c} children sit down. How many seats are free? :: - a b, - r c
{n} had {a} dollars and spent {b} dollars on {o} and {c} dollars on {p}. How much is left? :: - a b, - r c
A train has {a} people. {b} get off and {c} get on. How many are on it now? :: - a b, + r c
A bus carries {a} people. At the stop {b} get on and {c} get off. How many are on the bus? :: + a b, - r c
It was {a} degrees, got {b} degrees warmer and then {c} degrees colder. How warm is it? :: + a b, - r c
{n} [is|are] {a} years old. {m} is {b} years older. How old will {m} be in {c} years? :: + a b, + r c
{n} [needs|need] {c} {o}. {he} [has|have] {a} and [gets|get] {b} more. How many are still missing? :: + a b, - c r
The {w} ordered {c} {o}. {a} came on Monday and {b} on Friday. How many are still to come? :: + a b, - c r
{a} of {c} {o} are red and {b} are blue. The others are green. How many are green? :: + a b, - c r
{n} [has|have] {a} {G} with {b} {o} each. {m} has {c} {G} less. How many {o} is that? :: - a c, * r b
{n} [has|have] {a} {G} with {b} {o} each and [gets|get] {c} more {G} of the same kind. How many {o} is that? :: + a c, * r b
{n} [has|have] {a} {G} of {b} {o}, but {c} {G} are empty. How many {o} [does|do] {he} have? :: - a c, * r b
{n} [has|have] {a} {o} and [keeps|keep] {b}. The others go to {c} friends in equal parts. How many does each friend get? :: - a b, / r c
{n} [has|have] {a} {o}, [eats|eat] {b} and [puts|put] the rest into {c} {G} equally. How many are in each {g}? :: - a b, / r c"""))]
FAMILIES = (
    (0.22, lambda rng: changed(rng, rng.choice((("+", "+"), ("+", "-"), ("-", "+"), ("-", "-"))))),
    (0.14, lambda rng: grouped(rng, rng.choice("+-"))),
    (0.07, lambda rng: shared(rng, rng.choice("+-"))),
    (0.13, lambda rng: pooled(rng, rng.choice("**//%"))),
    (0.11, lambda rng: priced(rng, rng.choice(("change", "change", "extra", "coupon")))),
    (0.11, lambda rng: compared(rng, rng.choice("++-*"))),
    (0.22, lambda rng: rng.choice(FIXED)))


def one_step(rng):
    roll = rng.random()
    if roll < 0.5:
        sign = rng.choice("+-")
        part = rng.random()
        if sign == "-" and part < 0.15:
            return rng.choice(ONE_REST), [("-", "a", "b")]
        if part < 0.4:
            return changed(rng, (sign,))
        return (rng.choice(ADD_STORIES if sign == "+" else SUB_STORIES) if part < 0.75 else
                story_question(rng, GAINS if sign == "+" else LOSSES, sign == "+")), [(sign, "a", "b")]
    if roll < 0.75:
        text = rng.choice(ONE_GROUPS)
        return text, [("*", "a", "t" if "{t}" in text else "b")]
    if roll < 0.93:
        return rng.choice(ONE_SHARES), [("/", "a", "b")]
    return rng.choice(ONE_LEFTOVERS), [("%", "a", "b")]


def two_steps(rng):
    return rng.choices([f for _, f in FAMILIES], [w for w, _ in FAMILIES])[0](rng)
