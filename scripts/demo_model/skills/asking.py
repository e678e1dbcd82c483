"""Many ways to ask for a sum, a product, a comparison, the largest of some numbers or their order, and wordings for
evaluation only."""

from .phrasing import (ADD_CLAUSES, ADD_ORDERS, ADD_TERMS, BARE, COMMANDS, GERUNDS, SUB_CLAUSES, SUB_ORDERS, SUB_TERMS,
                       WRAPS, dress,
                       gerund, in_words)


def lines(text):
    return text.replace("\n", "|").split("|")


# The first six terms of an operation are its signs and shortest words: what people type first.
MUL_TERMS = lines("""{a}*{b}|{a} * {b}|{a} times {b}|{a}x{b}|{a} x {b}|{a}×{b}|{a} × {b}|{a} multiplied by {b}|{a}*{b}|{a} * {b}|{a} times {b}|{a} X {b}|{a}·{b}
the product of {a} and {b}|the product {a} * {b}|the product {a} x {b}|{a} multiplied with {b}|multiplying {a} by {b}|multiplying {a} with {b}
the result of {a} * {b}|the result of {a} times {b}|the result of multiplying {a} by {b}|the answer to {a} * {b}|the answer to {a} x {b}|the value of {a} * {b}
({a} * {b})|({a}*{b})|{a} by {b}, multiplied|{a} multiplied {b} times|the product of the numbers {a} and {b}|the multiplication of {a} and {b}|{a} and {b} multiplied
the outcome of {a} times {b}|the solution to {a} * {b}|{a} taken {b} times|{a} lots of {b}|{a} groups of {b}|{a}-fold {b}|{a} and {b} multiplied together""")

MUL_ORDERS = lines("""Multiply {a} by {b}.|Multiply {a} by {b}|Multiply {a} and {b}.|Multiply {a} with {b}.|Multiply: {a}, {b}|multiply {a} {b}|Multiply {a} times {b}
Multiply the numbers {a} and {b}.|Multiply together {a} and {b}.|Product of {a} and {b}|Product of {a} and {b}?|product: {a}, {b}|mul({a}, {b})|multiply({a}, {b})
product({a}, {b})|times({a}, {b})|mul {a} {b}|product {a} {b}|What do you get when you multiply {a} by {b}?|What do you get if you multiply {a} and {b}?
If I multiply {a} by {b}, what do I get?|If you multiply {a} with {b}, what is the result?|What happens if I multiply {a} by {b}?|What do {a} and {b} multiply to?
Give me the product of {a} and {b}.|Find the product of {a} and {b}.|What is the product when {a} is multiplied by {b}?|When {a} is multiplied by {b}, what comes out?
Let a = {a} and b = {b}. What is a * b?|x is {a} and y is {b}. What is x times y?|The first number is {a}, the second is {b}. Multiply them.
Here are two numbers: {a} and {b}. What is their product?|Two numbers are {a} and {b}. Find their product.|Given {a} and {b}, multiply.|For {a} and {b} I need the product.
Numbers: {a}, {b}. Operation: multiplication.|Multiplication: {a}, {b}|Take {a} and multiply it by {b}.|Start with {a} and multiply by {b}.|{a}, then times {b}. What is it?
How much is {a} taken {b} times?|How much is {b} times as much as {a}?|What is {a} when you multiply it by {b}?|Someone asked me to multiply {a} by {b}.
The teacher wants us to multiply {a} by {b}.|Now multiply {a} by {b}.|Try multiplying {a} by {b}.|Go ahead and multiply {a} and {b}.|Can I have the product of {a} and {b}?
How big is the product of {a} and {b}?|How large is {a} times {b}?|I have {a} and multiply it by {b}. What is it now?|I need {a} multiplied by {b}|{a} times {b} makes?
Scale {a} by {b}.|What would multiplying {a} by {b} give?|By multiplying {a} and {b} I get what?|My first number is {a} and my second is {b}; multiply them.|{a} {b} times, how much?
Kindly multiply {a} by {b} for me.|What's {a} multiplied by {b} then?|{a} times {b}, go!|How much would {a} times {b} come out to?|What product do {a} and {b} have?|I'd love to know {a} times {b}.|Multiply the number {a} by the number {b}.|Times table question: {a} x {b}""")

MUL_CLAUSES = lines("""multiply {a} by {b}|multiply {a} and {b}|multiply {a} with {b}|take {a} times {b}|compute {a} times {b}|work out {a} times {b}|multiply {a} times {b}
take {a} and multiply it by {b}|multiply the number {a} by {b}|find the product of {a} and {b}|get the product of {a} and {b}|multiply {a} by the number {b}""")

# Words that replace the second factor or the divisor.
MUL_WORDS = {2: lines("double {a}|twice {a}|two times {a}|the double of {a}|{a} doubled|{a} twice|two lots of {a}|twice the number {a}|twice as much as {a}"),
             3: lines("triple {a}|three times {a}|{a} tripled|the triple of {a}|thrice {a}|{a} three times|three times as much as {a}"),
             4: lines("four times {a}|quadruple {a}|four times as much as {a}|{a} quadrupled")}
DIV_WORDS = {2: lines("half of {a}|half of {a}|a half of {a}|{a} halved|one half of {a}|half the number {a}|the half of {a}|half as much as {a}"),
             3: lines("a third of {a}|one third of {a}|the third part of {a}"),
             4: lines("a quarter of {a}|one quarter of {a}|a fourth of {a}|one fourth of {a}"),
             5: lines("a fifth of {a}|one fifth of {a}")}

DIV_TERMS = lines("""{a}/{b}|{a} / {b}|{a} divided by {b}|{a}÷{b}|{a} ÷ {b}|{a} over {b}|{a}:{b}|{a} : {b}|{a}/{b}|{a} / {b}|{a} divided by {b}|({a}/{b})|({a} / {b})
the quotient of {a} and {b}|the quotient {a} / {b}|dividing {a} by {b}|the result of {a} / {b}|the result of {a} divided by {b}|the result of dividing {a} by {b}
the answer to {a} / {b}|the answer to {a} divided by {b}|the value of {a} / {b}|{a} split into {b} equal parts|{a} shared among {b}|{a} shared by {b}
the outcome of {a} divided by {b}|the solution to {a} / {b}|{a} cut into {b} equal parts|{a} divided in {b}|{a} divided into {b} equal parts|the division of {a} by {b}
{a} mod {b}|{a} % {b}|{a} modulo {b}|the remainder of {a} divided by {b}|the remainder of {a} / {b}|the remainder when {a} is divided by {b}|{a} divided by {b} with remainder
the quotient and remainder of {a} and {b}|the remainder of dividing {a} by {b}|the rest of {a} divided by {b}""")

DIV_ORDERS = lines("""Divide {a} by {b}.|Divide {a} by {b}|divide {a} {b}|Divide: {a}, {b}|Divide {a} into {b} equal parts.|Divide {a} by {b} with remainder.|Divide the number {a} by {b}.
Split {a} into {b} equal parts.|Split {a} by {b}.|Split {a} {b} ways.|Split {a} evenly among {b}.|Share {a} among {b}.|Share {a} equally between {b}.|Cut {a} into {b} equal parts.
How often does {b} fit into {a}?|How often does {b} go into {a}?|How many times does {b} fit into {a}?|How many times does {b} go into {a}?|How many times is {b} in {a}?
How many {b}s are in {a}?|How many {b}s fit into {a}?|How often is {b} contained in {a}?|How often can I take {b} from {a}?|{b} goes into {a} how many times?|{b} into {a}?
What is the remainder of {a} divided by {b}?|What remains when {a} is divided by {b}?|What is left over when {a} is divided by {b}?|remainder of {a} / {b}|remainder({a}, {b})
Remainder when {a} is divided by {b}?|Give me the remainder of {a} by {b}.|mod({a}, {b})|div({a}, {b})|divide({a}, {b})|quotient({a}, {b})|divmod({a}, {b})|{a} % {b} = ?|{a} mod {b}?
What do you get when you divide {a} by {b}?|What do you get if you divide {a} by {b}?|If I divide {a} by {b}, what do I get?|If you divide {a} by {b}, what is the result?
What happens if I divide {a} by {b}?|If I split {a} into {b} parts, how big is each?|If {a} is shared among {b}, how much is that each?|How much does each get if {b} share {a}?
Quotient of {a} and {b}|Quotient of {a} and {b}?|Give me the quotient of {a} and {b}.|Find the quotient of {a} and {b}.|When {a} is divided by {b}, what comes out?
Let a = {a} and b = {b}. What is a / b?|x is {a} and y is {b}. What is x divided by y?|The first number is {a}, the second is {b}. Divide the first by the second.
Take {a} and divide it by {b}.|Start with {a} and divide by {b}.|{a}, then divided by {b}. What is it?|Given {a} and {b}, divide.|Numbers: {a}, {b}. Operation: division.|Division: {a}, {b}
Someone asked me to divide {a} by {b}.|The teacher wants us to divide {a} by {b}.|Now divide {a} by {b}.|Try dividing {a} by {b}.|Go ahead and divide {a} by {b}.
I have {a} and divide it by {b}. What is it now?|Do the division {a} by {b}.|I need {a} divided by {b}|{a} divided by {b} makes?|What would dividing {a} by {b} give?
Put {a} into {b} equal groups.|Make {b} equal groups out of {a}.|Into {b} equal parts: {a}|Is {a} divisible by {b}, and what is left over?
Kindly divide {a} by {b} for me.|What's {a} divided by {b} then?|{a} divided by {b}, go!|How many whole times does {b} fit in {a}, and what's left?|I'd love to know {a} divided by {b}.|Divide the number {a} by the number {b}.|If {a} gets split into {b} equal parts, what is one part?|What quotient do {a} and {b} have?""")

DIV_CLAUSES = lines("""divide {a} by {b}|split {a} into {b} equal parts|split {a} by {b}|share {a} among {b}|cut {a} into {b} equal parts|divide {a} into {b} equal parts
divide the number {a} by {b}|divide {a} by the number {b}|split {a} {b} ways|take {a} and divide it by {b}|share {a} equally among {b}|divide {a} by {b} with remainder""")

# For each operation: its terms, whole questions, clauses, and words that contain the second number.
OPERATIONS = {"add": (ADD_TERMS, ADD_ORDERS, ADD_CLAUSES, {}), "subtract": (SUB_TERMS, SUB_ORDERS, SUB_CLAUSES, {}),
              "multiply": (MUL_TERMS, MUL_ORDERS, MUL_CLAUSES, MUL_WORDS),
              "divide": (DIV_TERMS, DIV_ORDERS, DIV_CLAUSES, DIV_WORDS)}

# What a comparison asks for: the larger or the smaller number, whether the first is larger, smaller or equal, or how
# they compare.
COMPARE = {
    "larger": lines("""Which is larger, {a} or {b}?|Which is bigger, {a} or {b}?|Which is greater, {a} or {b}?|Which number is larger, {a} or {b}?|Which number is bigger: {a} or {b}?
What is larger, {a} or {b}?|What is bigger, {a} or {b}?|what's bigger {a} or {b}|which is more, {a} or {b}?|What is more, {a} or {b}?|Which one is larger: {a} or {b}?|{a} or {b}, which is larger?
{a} or {b}, which is bigger?|{a} or {b}, which one is greater?|Is {a} or {b} larger?|Is {a} or {b} bigger?|Tell me the larger of {a} and {b}.|Give me the bigger one of {a} and {b}.
The larger of {a} and {b}|the greater of {a} and {b}?|The bigger of {a} and {b}, please|Which of {a} and {b} is larger?|Which of {a} and {b} is the bigger number?|Of {a} and {b}, which is greater?
Of the numbers {a} and {b}, which is larger?|Between {a} and {b}, which is bigger?|Pick the larger number: {a} or {b}|Pick the bigger one, {a} or {b}.|Choose the larger: {a}, {b}
bigger: {a} or {b}?|larger: {a} or {b}?|Who has more, the one with {a} or the one with {b}?|Which number is higher, {a} or {b}?|What number is greater, {a} or {b}?|Name the larger number, {a} or {b}.
If I have {a} and you have {b}, which is more?|larger {a} {b}|Find the larger of {a} and {b}.|Say which is larger, {a} or {b}.
Out of {a} and {b}, which one is the larger?|Who wins by size, {a} or {b}? I mean the larger.|I wonder which is bigger, {a} or {b}."""),
    "smaller": lines("""Which is smaller, {a} or {b}?|Which is less, {a} or {b}?|Which is lower, {a} or {b}?|Which number is smaller, {a} or {b}?|Which number is less: {a} or {b}?|What is smaller, {a} or {b}?
what's smaller {a} or {b}|What is less, {a} or {b}?|Which one is smaller: {a} or {b}?|{a} or {b}, which is smaller?|{a} or {b}, which is less?|{a} or {b}, which one is lower?|Is {a} or {b} smaller?
Is {a} or {b} less?|Tell me the smaller of {a} and {b}.|Give me the smaller one of {a} and {b}.|The smaller of {a} and {b}|the lesser of {a} and {b}?|The smaller of {a} and {b}, please
Which of {a} and {b} is smaller?|Which of {a} and {b} is the smaller number?|Of {a} and {b}, which is less?|Of the numbers {a} and {b}, which is smaller?|Between {a} and {b}, which is smaller?
Pick the smaller number: {a} or {b}|Pick the lower one, {a} or {b}.|Choose the smaller: {a}, {b}|smaller: {a} or {b}?|less: {a} or {b}?|Which number is lower, {a} or {b}?|Which is fewer, {a} or {b}?
Name the smaller number, {a} or {b}.|If I have {a} and you have {b}, which is less?|smaller {a} {b}|Find the smaller of {a} and {b}.|Say which is smaller, {a} or {b}.
Out of {a} and {b}, which one is the smaller?|I wonder which is smaller, {a} or {b}.|Say, is {a} the smaller one or {b}?"""),
    "whether larger": lines("""Is {a} greater than {b}?|Is {a} larger than {b}?|Is {a} bigger than {b}?|Is {a} more than {b}?|{a} > {b}?|{a}>{b}?|{a} > {b}|is {a} > {b}|Is {a} > {b}?|{a}>{b}
Is it true that {a} is larger than {b}?|Is it true that {a} > {b}?|True or false: {a} > {b}|True or false: {a} is larger than {b}.|Is {a} above {b}?|Is {a} higher than {b}?|is {a} bigger than {b}
{a} is larger than {b}, right?|{a} is more than {b}, isn't it?|Does {a} exceed {b}?|Would you say {a} is bigger than {b}?|Yes or no: is {a} larger than {b}?|Check if {a} is larger than {b}.
Check whether {a} > {b}.|Tell me whether {a} is greater than {b}.|Tell me if {a} is bigger than {b}.|Can you tell if {a} is larger than {b}?|Do you think {a} is more than {b}?|{a} bigger than {b}?
{a} larger than {b}?|{a} greater than {b}?|I say {a} is larger than {b}. Am I right?|Is the number {a} larger than the number {b}?
Could {a} be larger than {b}?|Am I right that {a} is greater than {b}?|Say, is {a} really bigger than {b}?"""),
    "whether smaller": lines("""Is {a} less than {b}?|Is {a} smaller than {b}?|Is {a} lower than {b}?|Is {a} fewer than {b}?|{a} < {b}?|{a}<{b}?|{a} < {b}|is {a} < {b}|Is {a} < {b}?|{a}<{b}
Is it true that {a} is smaller than {b}?|Is it true that {a} < {b}?|True or false: {a} < {b}|True or false: {a} is less than {b}.|Is {a} below {b}?|Is {a} under {b}?|is {a} smaller than {b}
{a} is smaller than {b}, right?|{a} is less than {b}, isn't it?|Would you say {a} is smaller than {b}?|Yes or no: is {a} smaller than {b}?|Check if {a} is less than {b}.|Check whether {a} < {b}.
Tell me whether {a} is less than {b}.|Tell me if {a} is smaller than {b}.|Can you tell if {a} is smaller than {b}?|Do you think {a} is less than {b}?|{a} smaller than {b}?|{a} less than {b}?
I say {a} is smaller than {b}. Am I right?|Is the number {a} smaller than the number {b}?
Could {a} be smaller than {b}?|Am I right that {a} is less than {b}?|Say, is {a} really smaller than {b}?"""),
    "whether equal": lines("""Is {a} equal to {b}?|Are {a} and {b} equal?|Is {a} the same as {b}?|Are {a} and {b} the same?|{a} = {b}?|{a} == {b}|{a} == {b}?|{a}={b}?|is {a} = {b}|Does {a} equal {b}?|Is {a} == {b}?
Is it true that {a} equals {b}?|True or false: {a} = {b}|True or false: {a} equals {b}.|Yes or no: is {a} equal to {b}?|Check if {a} equals {b}.|Check whether {a} and {b} are equal.
Tell me whether {a} and {b} are equal.|Are {a} and {b} the same number?|Is the number {a} equal to the number {b}?|{a} equals {b}, right?|{a} same as {b}?
Could {a} be equal to {b}?|Am I right that {a} equals {b}?|Say, are {a} and {b} really equal?"""),
    "compared": lines("""Compare {a} and {b}.|Compare {a} with {b}.|Compare {a} to {b}.|compare {a} and {b}|Compare the numbers {a} and {b}.|How does {a} compare to {b}?|How do {a} and {b} compare?|compare({a}, {b})
compare {a} {b}|cmp({a}, {b})|{a} vs {b}|{a} versus {b}|Can you compare {a} and {b}?|Please compare {a} with {b}.|Put <, > or = between {a} and {b}.|{a} ? {b}, which sign belongs there?
Is {a} larger or smaller than {b}?|Is {a} smaller or larger than {b}?|Is {a} more or less than {b}?|Is {a} bigger or smaller than {b}?|Comparison: {a}, {b}|Do a comparison of {a} and {b}.
Make a comparison between {a} and {b}.|I'd like to see {a} compared with {b}.|Compare these two: {a}, {b}"""),
}

LARGEST = lines("""Which is the largest of {l}?|Which is the biggest of {l}?|Which is the greatest of {l}?|Which is largest: {l}?|Which number is the largest: {l}?|Which number is the biggest: {l}?|Largest of {l}
Largest of {l}?|What is the largest of {l}?|What is the biggest of {l}?|What's the biggest of {l}?|What is the greatest of {l}?|What is the maximum of {l}?|What is the largest number in {l}?|max({l})|max {l}
maximum of {l}|max of {l}?|max: {l}|largest: {l}|biggest number: {l}|biggest: {l}|Find the largest of {l}.|Find the biggest number in {l}.|Find the maximum of {l}.|Find the largest number: {l}
Give me the largest of {l}.|Give me the maximum of {l}.|Tell me the largest of {l}.|Tell me which is the largest of {l}.|Pick the largest of {l}.|Pick the biggest: {l}|Choose the largest number from {l}.
Of {l}, which is the largest?|Of {l} which one is the biggest?|From {l}, pick the largest.|Among {l}, which is the greatest?|{l}: which is the largest?|{l}. Which one is the biggest?|{l} - what is the maximum?
Here are some numbers: {l}. Which is the largest?|I have the numbers {l}. What is the biggest?|My numbers are {l}. Find the maximum.|The scores are {l}. Which is the highest?|Which is the highest of {l}?
The highest number of {l}|Highest of {l}?|Name the largest number of {l}.|Show me the biggest of {l}.|Can you find the largest of {l}?|Could you tell me the maximum of {l}?|What is the top number in {l}?|Which is the most, {l}?
Return the maximum of [{l}].|max([{l}])|Max of the list [{l}]|The list is {l}. What is its largest number?|Look at {l} and tell me the largest.|Say the largest of {l}.
Out of {l}, what's the largest?|I'd like the biggest number among {l}.|Would you spot the largest of {l}?|Which one of {l} is the very largest?""")

SORT = lines("""Sort {l}|Sort {l}.|Sort: {l}|sort {l}|Sort the numbers {l}.|Sort these numbers: {l}|Sort these: {l}|sort({l})|sort([{l}])|sorted([{l}])|Sort the list [{l}].|Order {l}.|Order these numbers: {l}
Order: {l}|order {l}|Put {l} in order.|Put these in order: {l}|Put these numbers in order: {l}|Bring {l} into order.|Arrange {l}.|Arrange these numbers: {l}|Arrange {l} in order.|Rank {l}.|Rank these: {l}
Can you sort {l}?|Could you sort {l} for me?|Please sort {l}.|Please put {l} in order.|I need {l} sorted.|I want to sort {l}.|Help me sort {l}.|What is {l} sorted?|What is {l} in order?|{l} sorted|{l}, sorted please
{l} in order|{l}: sort them|{l}. Sort these.|Here are some numbers: {l}. Sort them.|My numbers are {l}. Put them in order.|I have the numbers {l}. Sort them.|The list is {l}. Sort it.|Write {l} in order.|List {l} in order.
How do you sort {l}?|What is the order of {l}?|Give me {l} in order.|Show {l} in order.|Let's sort {l}|Line up {l}.|Tidy up {l} by size.|Order {l} by size.|Sort {l} by size.|Arrange {l} by value.
Kindly sort {l}.|I'd like {l} sorted.|Get {l} into order.|Would you arrange the numbers {l}?""")
ASCENDING = lines(""" from smallest to largest| in ascending order| ascending| from low to high| from small to large| from the smallest to the largest| in increasing order| smallest first| lowest first
 from least to greatest| upwards| (ascending)|, smallest first|, ascending|, starting with the smallest| from lowest to highest|, from small to big| in rising order|, low to high""")
DESCENDING = lines(""" from largest to smallest| in descending order| descending| from high to low| from large to small| from the largest to the smallest| in decreasing order| largest first| highest first
 from greatest to least| downwards| (descending)|, largest first|, descending|, starting with the largest| from highest to lowest|, from big to small| in falling order|, high to low| in reverse order|, biggest first""")

SMALLEST_OF = {"largest": "smallest", "Largest": "Smallest", "biggest": "smallest", "greatest": "least",
               "maximum": "minimum", "max": "min", "Max": "Min", "highest": "lowest",
               "Highest": "Lowest", "top": "bottom", "most": "least"}


def numeral(rng, n, chance):
    return in_words(rng, n) if n < 1000 and rng.random() < chance else str(n)


def finish(rng, text):
    if text[0].islower() and rng.random() < 0.5:
        text = text[0].upper() + text[1:]
    return dress(rng, text)


def clear_in_words(numbers):
    """Whether numbers in words stay separate: "one hundred and five" could be 100 and 5, or 105."""
    return not any(x > 19 and (x % 10 == 0 and y < 10 or x % 100 == 0 and y < 100)
        for x, y in zip(numbers, numbers[1:]))


def operands(rng, a, b, spelled=0.12):
    """The two numbers as people type them: mostly digits, sometimes both or one in words."""
    if rng.random() >= spelled or not clear_in_words((a, b)) or not clear_in_words((b, a)):
        return str(a), str(b)
    return numeral(rng, a, 0.9), numeral(rng, b, 0.9)


def operation_question(rng, kind, a, b):
    terms, orders, clauses, words = OPERATIONS[kind]
    sa, sb = operands(rng, a, b)
    roll = rng.random()
    if b in words and rng.random() < 0.5:
        text = rng.choice(WRAPS).replace("{x}", rng.choice(words[b]))
    elif roll < 0.18:
        return rng.choice(BARE).replace("{x}", rng.choice(terms[:6])).replace("{a}", str(a)).replace("{b}", str(b))
    elif roll < 0.50:
        text = rng.choice(WRAPS).replace("{x}", rng.choice(terms))
    elif roll < 0.78:
        text = rng.choice(orders)
    else:
        clause = rng.choice(clauses)
        text = rng.choice(COMMANDS).replace("{c}",
            clause) if rng.random() < 0.65 else rng.choice(GERUNDS).replace("{g}", gerund(clause))
    return finish(rng, text.replace("{a}", sa).replace("{b}", sb))


def compare_question(rng, asked, a, b):
    sa, sb = operands(rng, a, b)
    return finish(rng, rng.choice(COMPARE[asked]).replace("{a}", sa).replace("{b}", sb))


def listed(rng, numbers, last=(" and ", " and ", ", and ", " & ")):
    """Numbers as people write a list. last are the words that the last number may follow."""
    spelled = 0.9 if rng.random() < 0.06 and clear_in_words(numbers) else 0.0
    words = [numeral(rng, n, spelled) for n in numbers]
    roll = rng.random()
    if roll < 0.45 or (roll >= 0.75 and spelled):
        return ", ".join(words)
    if roll < 0.75:
        return ", ".join(words[:-1]) + rng.choice(last) + words[-1]
    return rng.choice((" ", " ", ",", "; ", " , ", " / ", "  ")).join(words)


def extreme_question(rng, largest, numbers):
    text = rng.choice(LARGEST)
    if not largest:
        for word, other in SMALLEST_OF.items():
            text = text.replace(word, other)
    return finish(rng, text.replace("{l}", listed(rng, numbers, (" and ", " and ", ", and ", " or "))))


def sort_question(rng, descending, numbers):
    order = rng.choice(DESCENDING) if descending else rng.choice(ASCENDING) if rng.random() < 0.5 else ""
    text = rng.choice(SORT)
    if order:
        end = len(text.rstrip(".?"))
        text = text[:end] + order + text[end:]
    return finish(rng, text.replace("{l}", listed(rng, numbers)))
