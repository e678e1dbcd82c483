"""Times of the day and how long things take. Without am or pm, a time is one of the 24-hour clock."""

from .page import Task, dressed, drawn, fill, number, require, within, worded
from .units import from_small

AFTER_TERMS = """{t} plus {d}|{t} + {d}|{d} after {t}|{d} later than {t}|the time {d} after {t}|{d} past {t}|{d} from {t}|{t} and {d} more|{d} added to {t}
the time {d} later than {t}|the clock time {d} after {t}|the hour {d} after {t}|the time that is {d} after {t}""".replace("\n", "|").split("|")

AFTER = """What time is it {d} after {t}?|What time is it {d} after {t}?|What time will it be {d} after {t}?|what time is {d} after {t}|What time is {d} later than {t}?
It is {t}. What time will it be in {d}?|It's {t} now. What time is it in {d}?|it is {t}, what time is it {d} later?|If it is {t} now, what time is it in {d}?
Now it is {t}. What will the clock show in {d}?|The clock shows {t}. What does it show {d} later?|My watch says {t}. What will it say after {d}?
Add {d} to {t}.|add {d} to {t}|Start at {t} and go {d} forward.|Go {d} forward from {t}.|{t}, {d} later?|{d} after {t}?|Move the clock from {t} forward by {d}.
A {e} starts at {t} and lasts {d}. When does it end?|A {e} starts at {t} and lasts {d}. When is it over?|The {e} begins at {t} and takes {d}. What time does it finish?
The {e} starts at {t}. It lasts {d}. When does it end?|If the {e} starts at {t} and lasts {d}, when does it end?|When does a {e} end that starts at {t} and lasts {d}?
{n} has a {e} at {t}. It lasts {d}. When is {n} done?|{n} leaves at {t} and needs {d}. When does {n} arrive?|{n} leaves home at {t} and travels {d}. What time is it on arrival?
A train leaves at {t} and takes {d}. When does it arrive?|The bus departs at {t} and arrives {d} later. When is that?|A plane takes off at {t} and flies {d}. When does it land?
The train should come at {t} but is {d} late. When does it come?|The {e} was planned for {t} and is delayed by {d}. When is it now?|The {e} is put off by {d} from {t}. When is it?
{n} puts a cake in the oven at {t}. It bakes {d}. When is it ready?|{n} starts to work at {t} and works for {d}. When does the work stop?|{n} falls asleep at {t} and sleeps {d}. When does {n} wake up?
I start at {t} and work {d}. When do I stop?|I have to wait {d} from {t}. Until when?|We meet at {t} for {d}. When is the meeting over?|My {e} is at {t} and goes on for {d}, when is it over?
Starting at {t}, what time is it after {d}?|What time do you get when you add {d} to {t}?|Starting from {t}, {d} pass. What is the time?|{d} have passed since {t}. What time is it?
When it is {t} and {d} go by, what time is it?|A {e} of {d} begins at {t}. End time?|start {t}, duration {d}, end?|Start: {t}. Length: {d}. End?|What is the end time of a {e} from {t} that takes {d}?
Tell me the time {d} after {t}.|Which time is {d} after {t}?|At what time does a {d} {e} end if it begins at {t}?|{n} set a timer of {d} at {t}. When does it ring?|The shop opens at {t} and closes {d} later. When does it close?""".replace("\n", "|").split("|")

BEFORE_TERMS = """{t} minus {d}|{t} - {d}|{d} before {t}|{d} earlier than {t}|the time {d} before {t}|{t} less {d}|{d} ahead of {t}|{d} taken from {t}
the time that is {d} before {t}|the clock time {d} before {t}""".replace("\n", "|").split("|")

BEFORE = """What time is it {d} before {t}?|What time was it {d} before {t}?|What time is {d} earlier than {t}?|It is {t}. What time was it {d} ago?|It's {t} now. What time was it {d} ago?
If it is {t} now, what time was it {d} earlier?|The clock shows {t}. What did it show {d} ago?|Subtract {d} from {t}.|Take {d} away from {t}.|Go {d} back from {t}.|{t}, {d} earlier?
The {e} ends at {t} and lasts {d}. When does it start?|A {e} lasted {d} and was over at {t}. When did it begin?|If a {e} ends at {t} after {d}, when did it begin?
{n} must be there at {t} and needs {d}. When must {n} leave?|{n} arrived at {t} after {d}. When did {n} leave?|{n} wants to arrive at {t}. The way takes {d}. When should {n} leave?
The train arrived at {t} after a ride of {d}. When did it leave?|{n} woke up at {t} after {d} of sleep. When did {n} fall asleep?|I want to eat at {t} and cooking takes {d}. When do I start?
Dinner is at {t} and takes {d} to make. When must {n} begin?|My {e} is over at {t}. It took {d}. When did it start?|The {e} at {t} was moved {d} earlier. When is it now?
Move the clock from {t} back by {d}.|Tell me the time {d} before {t}.|Which time is {d} before {t}?|end {t}, duration {d}, start?|When should I leave to be there by {t} if it takes {d}?""".replace("\n", "|").split("|")

BETWEEN_TERMS = """the time from {t} to {u}|the time between {t} and {u}|the difference between {t} and {u}|the duration from {t} to {u}|the number of hours and minutes between {t} and {u}
the time that passes from {t} to {u}|the length of a {e} from {t} to {u}|the time from {t} until {u}""".replace("\n", "|").split("|")

BETWEEN = """How long is it from {t} to {u}?|How long is it from {t} to {u}?|how long is it from {t} till {u}|How long is it from {t} until {u}?|How much time is between {t} and {u}?|How much time passes from {t} to {u}?
How many hours and minutes are there from {t} to {u}?|How much time is there between {t} and {u}?|from {t} to {u}, how long?|{t} to {u}, how long is that?|{t} - {u}, how long?|{t} until {u}?
It is {t}. How long until {u}?|It's {t} now. How long is it till {u}?|How long do I wait from {t} to {u}?|A {e} starts at {t} and ends at {u}. How long does it last?|The {e} is from {t} to {u}. How long is it?
A {e} goes from {t} to {u}. How long does it take?|The {e} began at {t} and was over at {u}. How long did it last?|If the {e} starts at {t} and stops at {u}, how long is it?|How long is a {e} from {t} to {u}?
{n} leaves at {t} and arrives at {u}. How long does it take?|{n} slept from {t} to {u}. How long did {n} sleep?|{n} worked from {t} until {u}. How long was that?|A train leaves at {t} and arrives at {u}. How long is the ride?
The shop opens at {t} and closes at {u}. How long is it open?|The plane takes off at {t} and lands at {u}. How long is the flight?|I started at {t} and finished at {u}. How long did I take?|start {t}, end {u}, duration?
What is the difference between {t} and {u} on the clock?|How long does a {e} last that begins at {t} and ends at {u}?|{n} waited from {t} to {u}. How long?|What time passes between {t} and {u}?|Count the time from {t} to {u}.""".replace("\n", "|").split("|")

ON = "I put the minutes together, and 60 minutes make a new hour.\nThen I go on by the hours, and after 24 hours a new day begins"
BACK = "I take the minutes away, and where they are too few I take 60 from an hour.\nThen I go back by the hours, through midnight if need be"
TAKE = "I take the first time from the second.\nWhere there are too few minutes I take 60 from an hour, and through midnight I add 24 hours"


def clock(h, m, half):
    """A time as it is read: 15:45, or 3:45 pm with half."""
    return f"{(h + 11) % 12 + 1}:{m:02d} {'am' if h < 12 else 'pm'}" if half else f"{h}:{m:02d}"


def typed(rng, h, m, half):
    """A time as it may be typed."""
    if not half:
        if m == 0 and h and h < 13 and rng.random() < 0.3:
            return f"{h} o'clock"
        return f"{h:02d}:{m:02d}" if rng.random() < 0.15 else f"{h}:{m:02d}"
    word = rng.choice((" am", " am", " am", "am", "am", " a.m.", " AM", "AM"))
    hour = (h + 11) % 12 + 1
    return (f"{hour}" if m == 0 and rng.random() < 0.5 else f"{hour}:{m:02d}") + (word if h < 12 else word.replace("a",
        "p").replace("A", "P"))


def span(h, m):
    """How long something takes: 1 hour 35 minutes."""
    parts = [f"{n} {unit}{'s' if n != 1 else ''}" for n, unit in ((h, "hour"), (m, "minute")) if n]
    return " ".join(parts) or "0 minutes"


def typed_span(rng, h, m):
    if not h and m == 30 and rng.random() < 0.3:
        return "half an hour"
    if h == 1 and not m and rng.random() < 0.3:
        return rng.choice(("an hour", "one hour"))
    hour, minute = rng.choice(((" hours", " minutes"), (" hours", " minutes"), (" hours", " minutes"),
        (" hrs", " mins"), (" h", " min"), ("h", "min")))
    one = lambda n, unit: number(rng, n) + (unit[:-1] if n == 1 and unit.endswith("s")
        else unit) if unit[0] == " " else f"{n}{unit}"
    parts = [one(n, unit) for n, unit in ((h, hour), (m, minute)) if n]
    return rng.choice((" ", " ", " and ")).join(parts)


def moment(rng):
    """An hour and a minute of the day; people like round ones."""
    return rng.randrange(24), rng.choice((0, 15, 30, 45)) if rng.random() < 0.2 else rng.randrange(0, 60,
        5) if rng.random() < 0.5 else rng.randrange(60)


def length(rng):
    """Hours and minutes that something takes, and whether they are given in minutes alone."""
    roll = rng.random()
    if roll < 0.45:
        return 0, rng.choice((rng.randrange(5, 60, 5), rng.randrange(1, 60))), False
    if roll < 0.6:
        return rng.randrange(1, 13), 0, False
    if roll < 0.8:
        return rng.randrange(1, 10), rng.choice((rng.randrange(5, 60, 5), rng.randrange(1, 60))), False
    n = rng.choice((rng.randrange(60, 300, 5), rng.randrange(60, 300)))
    return n // 60, n % 60, True


def later(page, h, m, dh, dm):
    """Writes the time of the day that is dh hours and dm minutes after h:m, and returns it."""
    c, carry = page.c, False
    if dm:
        page.step("First the minutes. ")
        m = c.add(m, dm)
        page.next()
        carry = not c.less(m, 60)
        if carry:
            page.next()
            m = within(c.sub(m, 60), 60)
            c.say(", 1 hour more")
    page.step("Then the hours. ")
    if carry and dh:
        dh = c.add(dh, 1)
        page.next()
    elif carry:
        dh = 1
    if not dh:
        c.say(f"{h} stays")
        return h, m
    h = c.add(h, dh)
    page.next()
    if not c.less(h, 24):
        page.next()
        h = within(c.sub(h, 24), 24)
    return h, m


def earlier(page, h, m, dh, dm):
    """Writes the time that is dh hours and dm minutes before h:m, and returns it."""
    c, borrow = page.c, False
    if dm:
        page.step("First the minutes. ")
        borrow = c.less(m, dm)
        page.next()
        if borrow:
            m = c.add(m, 60)
            page.next()
        m = within(c.sub(m, dm), 60)
        if borrow:
            c.say(", 1 hour less")
    page.step("Then the hours. ")
    if borrow and dh:
        dh = c.add(dh, 1)
        page.next()
    elif borrow:
        dh = 1
    if not dh:
        c.say(f"{h} stays")
        return h, m
    if c.less(h, dh):
        page.next()
        h = c.add(h, 24)
    page.next()
    return within(c.sub(h, dh), 24), m


def of_day(page, h, m, half):
    """Writes a time with am or pm as one of the 24-hour clock, and returns it."""
    if not half:
        return h, m
    page.step()
    page.quote(clock(h, m, half))
    page.c.say(" is ")
    if h > 12:
        h = within(page.c.add(h - 12, 12), 24)
        page.c.say(", so ")
    return tell_clock(page, (h, m), False)


def of_half(page, h, m):
    """Writes the hour of a time of the 24-hour clock as am and pm count it; the hour stays one of 24."""
    if h > 12:
        page.step()
        hour = page.c.sub(h, 12)
        require(0 < hour < 12)
        h = hour + 12
    return h, m


def tell_clock(page, value, half):
    """Writes a time of the day as clock does, and returns the one that stands there."""
    c, (h, m) = page.c, value
    hour = c.result((h + 11) % 12 + 1 if half else h)
    page.quote(":")
    m = within(c.digit(m // 10) * 10 + c.digit(m % 10), 60)
    if half:
        require(0 < hour < 13)
        c.hard(" am" if h < 12 else " pm")
        hour = hour % 12 + (12 if h >= 12 else 0)
    return within(hour, 24), m


def tell_span(page, value):
    h, m = value
    if h:
        h = page.count(h, " hour", " hours")
    if h and m:
        page.c.say(" ")
    if m or not h:
        m = page.count(m, " minute", " minutes")
    return h, m


def shifted(rng, fresh, back):
    """The time some time after another, or before it."""
    half = rng.random() < 0.45
    _, h, m, dh, dm, minutes = drawn(rng, lambda r: (lambda a, b: ([1 + back, *a, b[0], b[1]], *a, *b))(moment(r),
        length(r)), fresh)
    whole = dh * 60 + dm
    t = typed(rng, h, m, half)
    d = typed_span(rng, 0, whole) if minutes else typed_span(rng, dh, dm)
    read = f"{whole} minutes" if minutes else span(dh, dm)
    start = clock(h, m, half)

    def solve(page):
        p, q = (dh, dm)
        if minutes:
            page.step("1 hour is 60 minutes. ")
            p, q = from_small(page, whole, 60)
        end = (earlier if back else later)(page, *of_day(page, h, m, half), p, within(q, 60))
        return of_half(page, *end) if half else end

    def verify(page, value):
        got = (later if back else earlier)(page, *value, dh, dm)
        page.step("This leads to ")
        page.quote(clock(*got, False))
        return got == (h, m)

    text = worded(rng, BEFORE_TERMS if back else AFTER_TERMS, BEFORE if back else AFTER)
    return Task(
        dressed(rng, fill(rng, text, fresh, t=t, d=d), (t, d)), "time", f"take {read} from {start}" if back
        else f"add {read} to {start}",
        BACK if back else ON,
        "To check the result, I go the same time " + ("on" if back else "back")
        + " again.\nIf nothing went wrong, I come to the time that I started from",
        solve, lambda page, v: tell_clock(page, v, half), lambda v: clock(*v, half), verify, "It is {r}.",
        f"{read[:1].upper() + read[1:]} {'before' if back else 'after'} {start} it is {{r}}.", [h, m, dh, dm])


def between(rng, fresh):
    """How long it is from one time of the day to another."""
    half = rng.random() < 0.4

    def draw(r):
        h, m = moment(r)
        if half or h > 16:
            k, n = moment(r)
        else:
            k, n = r.randrange(h, 24), moment(r)[1]
        if r.random() < 0.5:
            k = min(h + r.randrange(4), 23)
        return [3, h, m, k, n], h, m, k, n

    while True:
        _, h, m, k, n = drawn(rng, draw, fresh)
        if h + m and ((h, m) < (k, n) or (half or h > 16 and k < 12) and (h, m) != (k, n)):
            break
    t, u = typed(rng, h, m, half), typed(rng, k, n, half)
    begin, end = clock(h, m, half), clock(k, n, half)

    def solve(page):
        first = of_day(page, h, m, half)
        return earlier(page, *of_day(page, k, n, half), *first)

    def verify(page, value):
        got = later(page, h, m, *value)
        page.step("This leads to ")
        page.quote(clock(*got, False))
        return got == (k, n)

    return Task(
        dressed(rng, fill(rng, worded(rng, BETWEEN_TERMS, BETWEEN, 0.2), fresh, t=t, u=u), (t, u)), "time",
        f"count from {begin} to {end}",
        TAKE, "To check the result, I go on from the first time.\nIf nothing went wrong, I come to the second time",
        solve, tell_span, lambda v: span(*v), verify, "It takes {r}.", f"From {begin} to {end} it takes {{r}}.",
        [h, m, k, n])


def task(rng, fresh):
    roll = rng.random()
    return shifted(rng, fresh, False) if roll < 0.45 else shifted(rng, fresh, True) if roll < 0.65 else between(rng,
        fresh)
