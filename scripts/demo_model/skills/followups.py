"""Questions about the result of the turn before: "add 8 to that", "now double it", "is that more than 40?"."""

from . import Turn, arithmetic
from .columns import work
from .ordering import about
from .phrasing import dress, in_words
from .stories import back


def lines(text):
    return text.strip().replace("\n", "|").split("|")


# {t} stands for the previous result, {b} for the new number.
THAT = lines("""that|that|that|that|it|it|it|this|the result|the result|the answer|that number|your answer|the last result|what you got|the total|this number|that result
the previous result|the last answer|the previous answer|the outcome|what we have|the number you got|that one""")
NOW = [w and w + " " for w in lines("""
|||||||||now|and now|then|and then|ok, now|okay|next|next,|please|and|so|now please|great, now|good, now|alright,|can you|could you|would you|let's|i want you to|i'd like to
go on and|after that|thanks, now|cool,|fine, now|one more:|from there""")]

ASK = {
    "add": lines("""
add {b} to {t}|add {b} to {t}|add {b} to {t}|add {b}|add {b}|add {b} more|add another {b}|add {b} to {t}, please|plus {b}|plus {b}?|+ {b}|+{b}|+{b}?
increase {t} by {b}|raise {t} by {b}|put {b} on top of {t}|put {b} on {t}|sum {t} and {b}|add {t} and {b}|add {t} to {b}|go up by {b}|go {b} higher
take {t} and add {b}|take {t} plus {b}|make {t} {b} bigger|make {t} {b} more|make {t} larger by {b}|give {t} another {b}|count {b} up from {t}|add on {b}
throw in another {b}|add {b} onto {t}|grow {t} by {b}|bring {t} up by {b}|combine {t} with {b}|join {t} with {b}|add the number {b} to {t}
work out {t} plus {b}|calculate {t} + {b}|compute {t} plus {b}|tell me {t} plus {b}|find the sum of {t} and {b}|put {b} more with {t}"""),
    "subtract": lines("""
subtract {b} from {t}|subtract {b} from {t}|take {b} from {t}|take {b} from {t}|subtract {b}|subtract {b}|take {b} away|take away {b}|minus {b}|minus {b}?
- {b}|-{b}|-{b}?|reduce {t} by {b}|lower {t} by {b}|decrease {t} by {b}|take {b} off {t}|take {b} off|take {b} away from {t}|deduct {b}|deduct {b} from {t}
remove {b} from {t}|remove {b}|take {t} and subtract {b}|take {t} minus {b}|make {t} {b} smaller|make {t} {b} less|go down by {b}|go {b} lower|cut {t} by {b}
cut {b} from {t}|drop {b} from {t}|count {b} down from {t}|bring {t} down by {b}|knock {b} off {t}|make {t} smaller by {b}|leave out {b} of {t}
work out {t} minus {b}|calculate {t} - {b}|compute {t} minus {b}|tell me {t} minus {b}|find the difference of {t} and {b}|take {b} out of {t}"""),
    "multiply": lines("""
multiply {t} by {b}|multiply {t} by {b}|multiply {t} by {b}|multiply by {b}|multiply by {b}|times {b}|times {b}?|times {b}|* {b}|*{b}|x {b}|x{b}|*{b}?|× {b}
multiply {t} with {b}|multiply {t} times {b}|take {t} times {b}|take {t} {b} times|multiply {b} with {t}|multiply {t} and {b}|make {t} {b} times as big
make {t} {b} times larger|multiply the number by {b}|scale {t} by {b}|take {t} and multiply it by {b}|work out {t} times {b}|calculate {t} * {b}|do {t} times {b}
compute {t} times {b}|tell me {t} times {b}|find the product of {t} and {b}|get {t} times {b}|blow {t} up {b} times|make {t} {b} times as much|multiplied by {b}"""),
    "divide": lines("""
divide {t} by {b}|divide {t} by {b}|divide {t} by {b}|divide by {b}|divide by {b}|divided by {b}|divided by {b}?|/ {b}|/{b}|/{b}?|÷ {b}|: {b}
split {t} by {b}|split {t} into {b} parts|split {t} {b} ways|share {t} among {b}|share {t} between {b} people|divide {t} into {b} equal parts|cut {t} into {b} equal parts
take {t} and divide it by {b}|work out {t} divided by {b}|calculate {t} / {b}|do {t} divided by {b}|compute {t} divided by {b}|tell me {t} divided by {b}
divide {t} between {b}|divide {t} among {b} people|break {t} into {b} equal parts|find {t} over {b}|get {t} divided by {b}|divide the number by {b}|put {t} into {b} equal groups
split {t} equally into {b}|share {t} equally by {b}|make {b} equal parts of {t}|find the quotient of {t} and {b}|divide {t} by {b} with remainder"""),
    "double": lines("""double {t}|double {t}|double {t}|take {t} twice|take twice {t}|make {t} twice as big|make {t} twice as much|two times {t}|twice {t}|multiply {t} by two
take it two times|take {t} two times|work out the double of {t}|double the number|tell me twice {t}|double up {t}|find the double|times two|x2|get twice as much"""),
    "triple": lines("triple {t}|triple {t}|three times {t}|take {t} three times|make {t} three times as big|times three|thrice {t}|tell me three times {t}"),
    "halve": lines("""halve {t}|halve {t}|half of {t}|half of {t}?|take half of {t}|cut {t} in half|divide {t} in two|split {t} in half|divide {t} by two|take one half of {t}
make {t} half as big|find half of {t}|tell me half of {t}|work out half of {t}|share {t} between two|half it|halve the number|divide by two|get half of {t}"""),
    "from": lines("""subtract {t} from {b}|take {t} from {b}|take {t} away from {b}|take {t} off {b}|{b} minus {t}|{b} - {t}|deduct {t} from {b}|remove {t} from {b}|calculate {b} minus {t}
tell me {b} minus {t}|work out {b} - {t}|reduce {b} by {t}|compute {b} minus {t}|lower {b} by {t}"""),
}
WHAT = {
    "add": lines("""
what if you add {b}?|what if I add {b} to {t}?|what if {b} more come?|what is {t} plus {b}?|what's {t} plus {b}?|whats {t} + {b}|how much is {t} plus {b}?|and plus {b}?
and if I add {b}?|and with {b} more?|and {b} more?|what is {b} more than {t}?|what do I get if I add {b}?|how much is it with {b} more?|and with another {b}?
what do you get when you add {b} to {t}?|which number is {b} more than {t}?|if I add {b} to {t}, what is it?|suppose I add {b}, what then?|how about plus {b}?|what about {b} more?
what would {t} be with {b} added?|how many is {t} and {b}?|what comes out if I add {b}?|{t} plus {b}?|{t} + {b}|{t}+{b}|{b} more?|what is {t} and {b} together?|and {t} plus {b} is?
I get {b} more. How many now?|{b} more arrive. How many is it then?|And when {b} are added?|what is the sum of {t} and {b}?|how far do I get with {b} more?|on top of {t} come {b} more, how much is that?|bump {t} up by {b}|stack {b} onto {t}|and {b} extra?|toss {b} more in|what does {t} become after adding {b}?|if it grew by {b}?"""),
    "subtract": lines("""
what if you take {b} away from {t}?|what if I take {b} away?|what if {b} are lost?|what is {t} minus {b}?|what's {t} minus {b}?|whats {t} - {b}|how much is {t} minus {b}?
and minus {b}?|and if I take {b} away?|and with {b} fewer?|and {b} less?|what is {b} less than {t}?|what do I get if I subtract {b}?|how much is left without {b}?
what do you get when you take {b} from {t}?|which number is {b} less than {t}?|if I take {b} from {t}, what is it?|suppose I take {b} off, what then?|how about minus {b}?
what about {b} less?|what would {t} be with {b} taken away?|what is left if {b} go?|what comes out if I subtract {b}?|{t} minus {b}?|{t} - {b}|{t}-{b}|{b} less?|and {t} minus {b} is?
I give {b} away. How many are left?|{b} go missing. How many are left then?|And when {b} are taken away?|how much more is {t} than {b}?|how much larger than {b} is {t}?
by how much is {t} more than {b}?|what is the difference between {t} and {b}?|how far is {t} above {b}?|what remains if I remove {b}?|shave {b} off {t}|strip {b} away from {t}|and without {b} of them?|what does {t} become after losing {b}?|peel off {b}|if it shrank by {b}?|pull {b} out of {t}"""),
    "multiply": lines("""
what if you multiply {t} by {b}?|what if I multiply {t} by {b}?|what is {t} times {b}?|what's {t} times {b}?|whats {t} * {b}|how much is {t} times {b}?|and times {b}?
and if I multiply by {b}?|and {b} times that?|what is {b} times {t}?|what do I get if I multiply by {b}?|how much is {b} times as much?|what do you get when you multiply {t} by {b}?
which number is {b} times {t}?|if I take {t} {b} times, what is it?|suppose I multiply it by {b}, what then?|how about times {b}?|what about {b} times as many?|{t} times {b}?
what would {t} be times {b}?|what comes out if I multiply by {b}?|{t} * {b}|{t}*{b}|{t} x {b}|{b} times that?|what is the product of {t} and {b}?|and {t} times {b} is?
I have {b} times as many. How many is that?|And if there are {b} times as many?|what are {b} of these?|how much are {b} times {t}?|and what is {t} multiplied by {b}?|what does {t} become when multiplied by {b}?|repeat {t} {b} times and sum up|{b} lots of {t}, how much?|and by a factor of {b}?|{b}-fold?|if there were {b} times as much?"""),
    "divide": lines("""
what if you divide {t} by {b}?|what if I divide {t} by {b}?|what is {t} divided by {b}?|what's {t} divided by {b}?|whats {t} / {b}|how much is {t} divided by {b}?|and divided by {b}?
and if I divide by {b}?|and split {b} ways?|what do I get if I divide by {b}?|what do you get when you divide {t} by {b}?|how often does {b} go into {t}?|how many times does {b} fit into {t}?
if I divide {t} by {b}, what is it?|suppose I divide it by {b}, what then?|how about divided by {b}?|what about dividing by {b}?|{t} divided by {b}?|{t} / {b}|{t}/{b}
what would {t} be divided by {b}?|what comes out if I divide by {b}?|what is {t} over {b}?|what is the quotient of {t} and {b}?|and {t} over {b} is?|how much does each of {b} get of {t}?
if {b} people share {t}, how much does each get?|and shared by {b}?|and for {b} people, how much each?|what is {t} shared among {b}?|how many {b}s are in {t}?|what if {b} people share {t}?|deal {t} out evenly to {b}|what does {t} become when divided by {b}?|and spread over {b}?|slice {t} into {b} equal pieces|if {b} of us split it?|chop {t} into {b} equal bits"""),
    "double": lines("what is twice {t}?|and doubled?|and twice that?|what's double that?|what is {t} doubled?|how much is twice {t}?|what if I double {t}?|and times two?|what do I get if I double {t}?|and two times {t}?|twofold?|what does {t} become when doubled?|once more the same on top?"),
    "triple": lines("what is three times {t}?|and tripled?|what if I triple {t}?|what is {t} tripled?|and three times that?|how much is three times {t}?|threefold?|what does {t} become when tripled?"),
    "halve": lines("what is half of {t}?|and half of {t}?|what's half of {t}?|and halved?|how much is half of {t}?|what if I halve {t}?|what is {t} halved?|and in half?|what do I get if I halve {t}?|half of {t}, what is that?|what does {t} become when halved?|and just one half?|fold {t} in half, how much?"),
    "from": lines("""how much more is {b} than {t}?|what is {b} minus {t}?|how much larger is {b} than {t}?|how far is {t} from {b}?|how much is missing to {b}?|how many more to get to {b}?
what must I add to {t} to get {b}?|how much is left if I take {t} from {b}?|by how much is {b} more than {t}?|how much is {b} minus {t}?|what if I take {t} from {b}?|I had {b} and lose {t}. What is left?
what do I need to reach {b}?|{b} minus {t}?|how far below {b} is {t}?|and {b} minus {t}?|how many are missing to {b}?|how much is left of {b} without {t}?|I pay {t} from {b} dollars. How much is left?|starting from {b}, what stays once {t} is gone?|what gap is there between {t} and {b}?|out of {b}, {t} is used; what stays?"""),
}
WHETHER = {
    "larger": lines("""is {t} more than {b}?|is {t} larger than {b}?|is {t} greater than {b}?|is {t} bigger than {b}?|is {t} over {b}?|is {t} above {b}?|is {t} higher than {b}?|{t} > {b}?|more than {b}?
larger than {b}?|over {b}?|greater than {b}?|bigger than {b}?|does {t} exceed {b}?|is {b} less than {t}?|is {t} at all more than {b}?|is {t} beyond {b}?|and is {t} more than {b}?
tell me if {t} is more than {b}|would you say {t} is more than {b}?|is {b} smaller than {t}?|can you tell whether {t} is larger than {b}?|so is {t} larger than {b}?|do I have more than {b}?
are there more than {b}?|have we got more than {b}?|is {t} larger or not than {b}?|does {t} come to more than {b}?|is {t} past {b}?|check if {t} is greater than {b}|does {t} beat {b}?|would {t} top {b}?|in excess of {b}?"""),
    "smaller": lines("""is {t} less than {b}?|is {t} smaller than {b}?|is {t} lower than {b}?|is {t} under {b}?|is {t} below {b}?|{t} < {b}?|less than {b}?|smaller than {b}?|under {b}?|below {b}?|fewer than {b}?
is {b} more than {t}?|is {b} larger than {t}?|and is {t} less than {b}?|tell me if {t} is less than {b}|would you say {t} is less than {b}?|can you tell whether {t} is smaller than {b}?
so is {t} smaller than {b}?|do I have less than {b}?|are there fewer than {b}?|have we got less than {b}?|does {t} come to less than {b}?|does {t} stay below {b}?|check if {t} is smaller than {b}
is {t} still under {b}?|is {t} short of {b}?|does {b} exceed {t}?|is {b} bigger than {t}?|is {t} fewer than {b}?|is {t} not even {b}, but less?|does {t} fall short of {b}?|would {t} stay beneath {b}?|short of {b}, is it?"""),
}
FIXED = {"double": ("multiply", 2), "triple": ("multiply", 3), "halve": ("divide", 2)}
ASKED = ("add",) * 6 + ("subtract",) * 6 + ("multiply",) * 4 + ("divide",) * 4 + ("double", "double", "halve", "halve",
    "triple", "from", "from", "larger", "larger", "smaller", "smaller")


def new_number(rng, asked, n):
    """A number to combine with n ("that"), or None if none fits."""
    if asked in FIXED:
        return FIXED[asked][1]
    if asked == "multiply":
        return rng.randrange(2, 100) if n < 100 and rng.random() < 0.25 else rng.randrange(2, 10)
    if asked == "divide":
        return rng.randrange(2, 10)
    if asked == "from":
        return rng.randrange(n, 1000) if rng.random() < 0.5 else min(999,
            rng.choice((10, 20, 50, 100, 200, 500, 1000)) + n // 10 * 10)
    if asked in WHETHER:
        return rng.randrange(1000) if rng.random() < 0.4 else min(999, max(0, n + rng.randrange(-30, 31)))
    b = rng.randrange(1, rng.choice((10, 21, 100, 100, 1000)))
    return b if asked == "add" or b <= n or rng.random() < 0.1 else rng.randrange(1, n + 1) if n else None


def ask(rng, asked, b):
    if asked in WHETHER:
        text = rng.choice(WHETHER[asked])
    elif rng.random() < 0.55:
        text = rng.choice(NOW) + rng.choice(ASK[asked])
    else:
        text = rng.choice(WHAT[asked])
    number = in_words(rng, b) if rng.random() < 0.08 else str(b)
    text = text.replace("{t}", rng.choice(THAT)).replace("{b}", number)
    if rng.random() < 0.35:
        text = text[0].upper() + text[1:]
    if text[-1].isalnum() and rng.random() < 0.3:
        text += "."
    return dress(rng, text) if rng.random() < 0.6 else text


def begin(c, n, effort):
    c.say("That is ")
    c.read(n)
    c.say(". " if effort == "low" else ", which was told in the last turn.\n")


def whether(rng, effort, n, b, asked):
    """The Turn for whether n is larger, or smaller, than b."""
    size = "larger" if n > b else "smaller" if n < b else None
    reply = "yes" if size == asked else "no"

    def write(c):
        low = effort == "low"
        begin(c, n, effort)
        about(c, f"whether {asked}", n, b, low)
        c.less(n, b)
        c.say(", so" if low else ".\nSo")
        c.hard(f" {reply}")
        c.say(",")
        if size:
            c.say(" it is" if low else " the first is")
            c.hard(f" {size}")
        else:
            c.say(" they are")
            c.hard(" equal")
        c.done()
        if effort == "high":
            c.say(".\nNow I check the result: the other way round the sign must turn.\n")
            c.less(b, n)
            c.say(", and that")
            c.hard(" fits")
        c.say(".")

    chain, _ = work(rng, write)
    final = f"{reply.capitalize()}, " + (f"{n} is {size} than {b}." if size else "they are equal.")
    gist = f"{reply.capitalize()}, it is {size}." if size else f"{reply.capitalize()}, they are equal."
    return Turn(question="", analysis=chain.parts, final=final, concise=gist, detailed=gist if effort == "low"
                else gist[:-1] + ", as the digits tell.",
                posthoc=final, complete=chain.known, kind="followup", result=reply, numbers=[n, b])


def worked(rng, effort, n, a, b, kind, slip):
    """The Turn for an operation on a and b, one of which is n."""
    def write(c):
        begin(c, n, effort)
        arithmetic.introduce(c, kind, a, b, effort)
        told = arithmetic.combine(c, kind, a, b, effort)
        c.done()
        c.say(".")
        if effort != "high":
            return told, True
        places, c.slip_at = c.places, None
        c.say("\nTo check the result, I go back.\n")
        sound = back(c, arithmetic.SIGNS[kind], a, b, *(told if kind == "divide" else (told, 0)))
        c.places = places
        return told, sound

    chain, (told, sound) = work(rng, write, slip)
    r = arithmetic.shown(told)
    concise, detailed = arithmetic.summaries(kind, "low", r)
    if effort != "low":
        detailed = f"The result is {r} now." if effort == "medium" else f"The result is {r} now, and the check agrees."
    return Turn(question="", analysis=chain.parts, final=f"{a} {arithmetic.SIGNS[kind]} {b} = {r}.",
                concise=concise if sound else "", detailed=detailed if sound else "",
                posthoc=arithmetic.POSTHOC[kind].format(a=a, b=b, r=r), direct=all(w for _, w in chain.parts),
                complete=chain.known, kind="followup",
                result=r if " " in r else int(r), numbers=[a, b])


def turn(rng, effort, previous, slips=True, fresh=False):
    """A question about the previous turn's result, or None if that is not a whole number to 999."""
    n = previous.result
    if type(n) is not int or not 0 <= n <= 999:
        return None
    for _ in range(200):
        asked = rng.choice(ASKED)
        b = new_number(rng, asked, n)
        if b is not None and arithmetic.held_out(n, b) == fresh:
            break
    else:
        return None
    if asked in WHETHER:
        made = whether(rng, effort, n, b, asked)
    else:
        kind = FIXED[asked][0] if asked in FIXED else "subtract" if asked == "from" else asked
        made = worked(rng, effort, n, *((b, n) if asked == "from" else (n, b)), kind, slips and rng.random() < 0.2)
    made.question = ask(rng, asked, b)
    return made
