"""Many ways to ask for a sum or a difference. Addition keeps the order of appearance; `{a}` minus `{b}` is a
subtraction."""

from .words import OBJECTS

ADD_TERMS = """{a}+{b}|{a} + {b}|{a} plus {b}|{a}+{b}|{a} + {b}|{a} plus {b}|the sum of {a} and {b}|the total of {a} and {b}
{a} and {b} together|{a} added to {b}|{a} and {b} added together|{a} increased by {b}|{a} more than {b}|{a} and {b} combined
the result of {a} + {b}|the result of adding {a} and {b}|the result of {a} plus {b}|the answer to {a} + {b}|the value of {a} + {b}
the sum {a} + {b}|adding {a} to {b}|adding {a} and {b}|{a} with {b} added|the sum of the numbers {a} and {b}|{a} plus another {b}
the addition of {a} and {b}|{a} together with {b}|{a} and {b} in total|the combined value of {a} and {b}|({a} + {b})|({a}+{b})
the outcome of {a} plus {b}|the solution to {a} + {b}|{a} and {b} summed up|a total of {a} and {b}|{a} and another {b}""".replace("\n", "|").split("|")

SUB_TERMS = """{a}-{b}|{a} - {b}|{a} minus {b}|{a}-{b}|{a} - {b}|{a} minus {b}|the difference between {a} and {b}
the difference of {a} and {b}|{a} take away {b}|{a} less {b}|{b} less than {a}|{b} subtracted from {a}|{b} taken from {a}
{b} taken away from {a}|{a} reduced by {b}|{a} decreased by {b}|{a} with {b} taken away|the result of {a} - {b}
the result of {a} minus {b}|the answer to {a} - {b}|the value of {a} - {b}|the difference {a} - {b}|subtracting {b} from {a}
taking {b} from {a}|taking {b} away from {a}|{b} deducted from {a}|({a} - {b})|({a}-{b})|{a} − {b}|{a} – {b}|{b} fewer than {a}
the result of subtracting {b} from {a}|the result of taking {b} from {a}|the outcome of {a} minus {b}|{a} without {b}
the solution to {a} - {b}|{a} diminished by {b}|{a} lowered by {b}|what remains of {a} after removing {b}""".replace("\n", "|").split("|")

WRAPS = """{x}|{x}|{x}=|{x} =|{x}?|{x} = ?|{x}=?|What is {x}?|What is {x}?|What is {x}?|What's {x}?|What's {x}?|what is {x}|whats {x}|what {x}
How much is {x}?|How much is {x}?|how much does {x} make|How much would {x} be?|Calculate {x}.|Calculate {x}|Compute {x}.
Compute {x}|Work out {x}.|Work out {x}|Figure out {x}.|Evaluate {x}.|Solve {x}.|Solve: {x}|Solve {x} for me|Find {x}.|Determine {x}.
Tell me {x}.|Tell me what {x} is.|Give me {x}.|Show me {x}|I need {x}.|I need to know {x}.|I want to know what {x} is.
Can you tell me {x}?|Can you tell me what {x} is?|Can you calculate {x}?|Can you work out {x}?|Could you compute {x}?
Could you tell me what {x} is?|Could you work out {x} for me?|Would you calculate {x}?|Do you know what {x} is?|Do you know {x}?
Can you do {x}?|Can you solve {x}?|Let me know what {x} is.|I wonder what {x} is.|I'd like to know {x}.|What does {x} equal?
What does {x} come to?|What does {x} make?|What do you get for {x}?|What would {x} be?|What will {x} be?|{x} equals what?
{x} is what?|{x} is?|{x} equals|{x} gives what?|{x} makes?|Answer this: {x}|Question: {x}|Q: {x}|Problem: {x}|Math: {x}|Task: {x}
Quick question: {x}?|Quick math: what is {x}?|Here is a sum for you: {x}|My homework says {x}.|My homework: what is {x}?
How do I calculate {x}?|Help me with {x}.|Help me find {x}|Say what {x} is.|Do the math: {x}|Just tell me {x}|Result of {x}?
The answer to {x}, please.|What's the answer to {x}?|What is the result of {x}?|What is the value of {x}?|Find the value of {x}.
Guess what {x} is.|Tell me the result of {x}|calc {x}|compute: {x}|solve this: {x}|Explain what {x} is.|{x} makes how much?
What number is {x}?|Which number is {x}?|Which number do you get from {x}?|How many is {x}?|Write down {x}.|State {x}.
Mind telling me {x}?|Care to work out {x}?|Any clue what {x} is?|Any idea about {x}?|Fancy doing {x}?|I am looking for {x}.|I was asked for {x}.|I can't figure out {x}.|I keep forgetting {x}.|Remind me, what is {x}?
Fast: {x}|A quick one, {x}|Here we go: {x}|Try this one: {x}|Work it out: {x}|Do {x}|Do {x} please|Run {x}|Check {x}|Enter: {x}|Input: {x}|{x} -> ?|{x} => ?|{x} :|= {x}|{x} = ...|{x} is equal to?|{x}, how much is that?
{x}, what is it?|{x}, what does it make?|What might {x} be?|What exactly is {x}?|What is, in your opinion, {x}?|So what is {x}?|And what is {x}?|But what is {x}?|Now what is {x}?|How does {x} come out?|What comes out of {x}?|Please give {x}.
Return {x}.|Print {x}|Output {x}|Name {x}.|Deliver {x}.|The task: {x}|The question is {x}.|I want {x}.|Would you tell me {x}?|Would you know {x}?|May I ask what {x} is?|How would you solve {x}?|Please compute: {x}|Please solve {x}.""".replace("\n", "|").split("|")

ADD_ORDERS = """Add {a} and {b}.|Add {a} to {b}.|Add {a} and {b}|Add {a} to {b}|Sum {a} and {b}.|Sum up {a} and {b}.|Sum: {a}, {b}|Total {a} and {b}.
Put {a} and {b} together.|Combine {a} and {b}.|Increase {a} by {b}.|Take {a} and add {b}.|Start with {a} and add {b}.
Start at {a} and go up by {b}.|Add up {a} and {b}.|Add the numbers {a} and {b}.|Add {a} plus {b}|Add together {a} and {b}.
If I add {a} and {b}, what do I get?|If you add {a} to {b}, what is the result?|What do you get when you add {a} and {b}?
What do you get if you add {a} to {b}?|What happens if I add {a} to {b}?|What do {a} and {b} make?|What do {a} and {b} add up to?
How much do {a} and {b} make?|How much are {a} and {b} together?|How much are {a} and {b}?|How many are {a} and {b}?
What number is {a} more than {b}?|Which number is {a} more than {b}?|What is {a} when you add {b}?|I have {a} and add {b}. What is it now?
{a} and {b} make what?|{a}, then add {b}. What is it?|Please sum these two numbers: {a} and {b}|Sum of {a} and {b}|Sum of {a} and {b}?
sum({a}, {b})|add({a}, {b})|add {a} {b}|sum {a} {b}|plus: {a} {b}|{a} add {b}|Give me the sum of {a} and {b}.|Join {a} and {b}.
What is the sum when {a} is added to {b}?|Count {b} up from {a}. Where do you land?|When {a} is added to {b}, what is the sum?
Let a = {a} and b = {b}. What is a + b?|x is {a} and y is {b}. What is x + y?|The first number is {a}, the second is {b}. Add them.
Here are two numbers: {a} and {b}. What is their sum?|What would adding {a} and {b} give?|What do I get by putting {a} with {b}?|By adding {a} and {b} I get what?|Put {a} next to {b} and add them.|What would I have after adding {a} and {b}?
What do we get by adding {a} and {b}?|Placing {a} and {b} together gives what?|What does putting {b} with {a} make?|Would you add {a} and {b}?
Please add up {a} and {b} for me|{a} on top of {b} makes how much?|I want to add {a} and {b}. What comes out?|Say I find {a} and then {b}. How many is that?|Two numbers are {a} and {b}. Find their total.
I take {a} and then {b} on top. What is that?|Pile {b} onto {a}.|Lay {b} on {a}. What number is that?|On top of {a} comes {b}. How much is it?|Throw in {b} with {a}.
Merge {a} with {b}.|Pool {a} and {b}.|Attach {b} to {a}.|Raise {a} by {b}.|Grow {a} by {b}.|Bump {a} up by {b}.|Go {b} further than {a}.|Step {b} beyond {a}.
Tack {b} onto {a}.|Give {a} another {b}.|Top {a} up with {b}.|Extend {a} by {b}.|Boost {a} by {b}.|Move up {b} from {a}.|{a} up by {b} is what?|{a} grows by {b}. What does it become?
total({a}, {b})|plus({a}, {b})|sum of ({a}, {b})|sum: {a} {b}|sum({a},{b})|add({a},{b})|SUM({a}; {b})|sum [{a}, {b}]|sum {a}, {b}|add: {a}, {b}|total: {a} and {b}|Addition: {a}, {b}
Can I have the sum of {a} and {b}?|Could I get {a} and {b} as one number?|How large is {a} together with {b}?|How big is the sum of {a} and {b}?|How high do I get with {a} and {b}?
Try adding {a} and {b}.|Would you mind to sum {a} and {b}?|Do add {a} and {b}.|Go ahead and add {a} and {b}.|Let us add {a} and {b}.|Now add {b} to {a}.|First {a}, then plus {b}.
Both {a} and {b}, how much in all?|All in all, {a} and {b}?|{a} and also {b}, what does that give?|{a} as well as {b}, in total?|Altogether {a} and {b} is?|{a} once and {b} once, in sum?
My first number is {a} and my second is {b}; add them up.|Given {a} and {b}, add.|With {a} and {b} given, what is the total?|For {a} and {b} I need the sum.|Numbers: {a}, {b}. Operation: addition.
I know that it is {a} and {b}, but what is the sum?|Someone asked me to add {a} and {b}.|The teacher wants us to add {a} to {b}.|If one is {a} and the other {b}, how much are both?|Where do I end when I go {b} up from {a}?
Adding {a} with {b} equals?|Summing {a} and {b} makes?|Combining {a} with {b} yields?|Plus {b}, starting from {a}.|{a} and then some more, namely {b}. How much?|What does {a} become with {b} more?|{b} more than {a} is?|{b} onto {a}
Kindly work out what {a} and {b} amount to.|If we lump {a} and {b} together, how much is it?|What's the grand total of {a} and {b}?|Add {b} on to {a}, will you?|My two numbers, {a} and {b}, sum to what?|Somebody gives me {a}, somebody else {b}: what's the sum?|{a} plus {b}, go!|How far up do I get with {a} and then {b} more?""".replace("\n", "|").split("|")

SUB_ORDERS = """Subtract {b} from {a}.|Subtract {b} from {a}|Take {b} from {a}.|Take {b} from {a}|Take {b} away from {a}.|Take away {b} from {a}.
Deduct {b} from {a}.|Remove {b} from {a}.|Reduce {a} by {b}.|Decrease {a} by {b}.|Lower {a} by {b}.|Start with {a} and take away {b}.
Start with {a} and subtract {b}.|Start at {a} and go down by {b}.|Take {a} and subtract {b}.|From {a} take {b}.|From {a} subtract {b}.
If I subtract {b} from {a}, what do I get?|If you take {b} from {a}, what is left?|What do you get when you subtract {b} from {a}?
What do you get if you take {b} away from {a}?|What happens if I take {b} from {a}?|What is left if you take {b} from {a}?
What is left when {b} is taken from {a}?|What remains when {b} is subtracted from {a}?|How much is left if I take {b} from {a}?
How much remains of {a} if {b} is removed?|What number is {b} less than {a}?|Which number is {b} less than {a}?
What is {a} when you subtract {b}?|I have {a} and take away {b}. What is it now?|{a}, then subtract {b}. What is it?|{a} subtract {b}
Difference of {a} and {b}|Difference between {a} and {b}?|sub({a}, {b})|subtract({a}, {b})|minus: {a} {b}|{b} from {a}|{b} from {a}?
{b} from {a} leaves what?|Give me the difference between {a} and {b}.|Find the difference between {a} and {b}.|Cut {a} by {b}.
When {b} is subtracted from {a}, what is the difference?|Count {b} down from {a}. Where do you land?
Let a = {a} and b = {b}. What is a - b?|x is {a} and y is {b}. What is x - y?|The first number is {a}, the second is {b}. Subtract the second from the first.
Here are two numbers: {a} and {b}. What is the first minus the second?|Knock {b} off {a}.|Take {b} out of {a}.|What is left if {b} is taken out of {a}?|Pull {b} out of {a}. What remains?|{b} off {a}|Drop {b} from {a}.|Strike {b} off {a}.
What would subtracting {b} from {a} give?|What would I have after taking {b} off {a}?|What do we get by taking {b} off {a}?|Would you subtract {b} from {a}?
Please take {b} off {a} for me|I want to subtract {b} from {a}. What comes out?|If {b} comes off {a}, what is left?|{a} with {b} off makes how much?
Strip {b} from {a}.|Trim {a} by {b}.|Shrink {a} by {b}.|Peel {b} off {a}.|Go {b} back from {a}.|Step back {b} from {a}.|Move down {b} from {a}.|Discount {a} by {b}.|Shorten {a} by {b}.
Withdraw {b} from {a}.|Discard {b} of {a}.|Throw {b} out of {a}. What is left?|Bring {a} down by {b}.|{a} down by {b} is what?|{a} shrinks by {b}. What does it become?|{a} falls by {b}. Where is it now?
minus({a}, {b})|difference({a}, {b})|sub({a},{b})|subtract({a},{b})|diff({a}, {b})|difference: {a}, {b}|subtract: {a}, {b}|Subtraction: {a}, {b}|subtract {a} {b}|sub {a} {b}
Can I have the difference of {a} and {b}?|How big is the difference between {a} and {b}?|How large is {a} without {b}?|How much more is {a} than {b}?|How much larger than {b} is {a}?|By how much does {a} exceed {b}?
Try subtracting {b} from {a}.|Would you mind to subtract {b} from {a}?|Do subtract {b} from {a}.|Go ahead and take {b} from {a}.|Let us take {b} from {a}.|Now take {b} from {a}.|First {a}, then minus {b}.
{a} but {b} less, what is that?|{a} except {b}, how much?|All of {a} but {b}, how much is it?|{a} with {b} gone, what is left?|{a} once {b} are gone?|Without {b}, what is {a}?|{b} short of {a} is?|{b} below {a} is?
My first number is {a} and my second is {b}; take the second from the first.|Given {a} and {b}, subtract.|From {a} I need to take {b}.|For {a} and {b} I need the difference.|Numbers: {a}, {b}. Operation: subtraction.
Someone asked me to take {b} from {a}.|The teacher wants us to subtract {b} from {a}.|Where do I end when I go {b} down from {a}?|How far is it from {b} up to {a}?|What must I add to {b} to get {a}?
Subtracting {b} from {a} equals?|Removing {b} from {a} leaves?|Taking {b} off {a} yields?|Minus {b}, starting from {a}.|What does {a} become with {b} fewer?|{b} less than {a} is?|{b} out of {a}|Off {a} goes {b}. How much is it?
Kindly work out what {a} less {b} amounts to.|What's left over of {a} once I subtract {b}?|Starting from {a}, subtract {b}, will you?|How much stays of {a} after taking {b} off?|{a} minus {b}, go!|Subtract the number {b} from the number {a}.|I had {a}, then {b} were subtracted. What's left?|Would subtracting {b} from {a} be hard? What is it?""".replace("\n", "|").split("|")

ADD_STORIES = """{n} has {a} {o} and gets {b} more. How many {o} does {n} have now?|{n} has {a} {o} and buys {b} more. How many {o} are there?
{n} had {a} {o}. Then {m} gave {n} {b} more. How many {o} does {n} have?|There are {a} {o} in a box and {b} in another. How many {o} are there in total?
I have {a} {o} and get {b} more. How many do I have?|I had {a} {o} and found {b} more. How many {o} do I have now?
{n} has {a} {o}. {m} has {b} {o}. How many {o} do they have together?|{n} has {a} {o} and {m} has {b}. How many in total?
{n} picked {a} {o} and {m} picked {b}. How many {o} did they pick altogether?|We saw {a} {o} on Monday and {b} on Tuesday. How many {o} did we see?
A shop sold {a} {o} in the morning and {b} in the afternoon. How many {o} did it sell?|If I have {a} {o} and you give me {b}, how many {o} do I have?
There were {a} {o} and {b} more arrived. How many are there now?|{n} read {a} pages yesterday and {b} today. How many pages is that?
{a} {o} are on the table and {b} more are added. How many {o} are on the table?|A bag holds {a} {o}. I put in {b} more. How many {o} are in it?
{n} scored {a} points and then {b} points. What is the total?|If {n} has {a} {o} and wins {b}, how many {o} does {n} have?
I bought {a} {o} and {b} {p}. How many things did I buy?|There are {a} {o} and {b} {p}. How many are there in all?
{n} walked {a} steps and then {b} more. How many steps in all?|{n} saved {a} dollars and earned {b} dollars. How much money does {n} have?
{n} collects {o}. {n} has {a} and gets {b} as a gift. How many {o} now?|Yesterday I counted {a} {o}, today {b} more. How many altogether?
One room has {a} {o}, the other has {b}. How many {o} in both?|A train has {a} people and {b} get on. How many people are on it?
My shelf holds {a} {o} and the cupboard holds {b}. How many {o} do I have?|{n} owns {a} {o} and inherits {b}. How many {o} does {n} own?|The museum shows {a} {o} and adds {b}. How many {o} does it show now?
A school has {a} {o} and orders {b} more. How many {o} will it have?|{n} drove {a} miles, then {b} miles. How far did {n} drive?|{n} swam {a} metres before lunch and {b} metres after. How many metres did {n} swim?
The first bus carries {a} people and the second {b}. How many people ride?|There were {a} {o} and {b} came along. How many are there?|{n} wrote {a} words and then another {b} words. How many words did {n} write?
Suppose {n} has {a} {o} and {m} brings {b} others. How many {o} is that?|Imagine I own {a} {o} and win {b} {o}. How many do I own then?|Say a garden has {a} {o} and we plant {b} more. How many {o} grow there?
A farmer keeps {a} {o} and buys {b} {o}. How many {o} does the farmer keep?|The shop got {a} {o} on Friday and {b} on Saturday. How many {o} did it get?|{n} paid {a} euros and later {b} euros. How much did {n} pay altogether?
{n} baked {a} {o} and {m} baked another {b}. How many were baked?|In spring {a} {o} were sold and in autumn {b}. How many {o} were sold in the year?|The hall seats {a} people, the balcony {b}. How many people fit?
{n} is {a} years old. How old will {n} be in {b} years?|The tower is {a} feet high and gets {b} feet taller. How high is it then?|A jar weighs {a} grams and the honey {b} grams. How much do they weigh together?
It was {a} degrees and got {b} degrees warmer. How warm is it?|My phone has {a} {o} and your phone has {b}. How many do both have?|{n} found {a} {o}, {m} found another {b}. How many {o} were found?
At first {a} {o}, later {b} more {o}. How many in the end?|{a} {o} came by train, {b} by ship. How many {o} came?|Our club has {a} members and {b} join. How many members has it?|{n} has {a} {o} left and receives {b} from {m}. How many {o} are that?""".replace("\n", "|").split("|")

SUB_STORIES = """{n} has {a} {o} and gives away {b}. How many {o} are left?|{n} has {a} {o} and loses {b}. How many {o} does {n} have now?
{n} had {a} {o} and sold {b}. How many {o} remain?|There are {a} {o} in a box. {n} takes {b}. How many {o} are left in the box?
I have {a} {o} and eat {b}. How many do I have left?|I had {a} {o} and gave {b} to {m}. How many {o} do I have now?
{n} has {a} {o}. {m} takes {b} of them. How many {o} does {n} still have?|If I have {a} {o} and lose {b}, how many {o} are left?
There were {a} {o} and {b} left. How many are there now?|A shop had {a} {o} and sold {b}. How many {o} are left?
{a} {o} are on the table and {b} are taken away. How many {o} remain?|A bag holds {a} {o}. I take out {b}. How many {o} are in it?
{n} had {a} dollars and spent {b}. How much money is left?|A book has {a} pages and {n} has read {b}. How many pages are left?
{n} bakes {a} {o} and {b} get eaten. How many {o} remain?|A train has {a} people and {b} get off. How many people are on it?
{n} had {a} {o}, but {b} broke. How many {o} are whole?|From {a} {o}, {b} are removed. How many are left?
If {n} has {a} {o} and uses {b}, how many {o} are left?|{n} has {a} {o} and {m} has {b} fewer. How many {o} does {m} have?
{n} needs {a} {o} and has {b}. How many more does {n} need?|Of {a} {o}, {b} were sold. How many {o} are left?
{n} has {a} {o} and {m} has {b}. How many more {o} does {n} have than {m}?|We had {a} {o} and lost {b} of them. How many do we still have?
My shelf holds {a} {o} and I throw out {b}. How many {o} stay?|{n} owns {a} {o} and donates {b}. How many {o} does {n} keep?|The museum shows {a} {o} and puts {b} away. How many {o} does it still show?
A school has {a} {o} and gives back {b}. How many {o} will it have?|The trip is {a} miles and {n} has done {b}. How many miles are left?|{n} has to swim {a} metres and has swum {b}. How many metres remain?
The bus carries {a} people and {b} leave. How many people stay on it?|There were {a} {o} and {b} went away. How many are still here?|{n} has to write {a} words and wrote {b}. How many words are missing?
Suppose {n} has {a} {o} and {m} steals {b}. How many {o} does {n} still have?|Imagine I own {a} {o} and drop {b}. How many do I own then?|Say a garden has {a} {o} and we pick {b}. How many {o} are left there?
A farmer keeps {a} {o} and sells {b}. How many {o} does the farmer keep?|The shop got {a} {o} and {b} were bad. How many {o} were good?|{n} had {a} euros and spent {b} euros. How much has {n} now?
{n} baked {a} {o} and {m} ate {b}. How many are there still?|The hall seats {a} people and {b} came. How many seats are free?|A library has {a} {o} and {b} are missing. How many {o} has it?|{n} lent {b} of {a} {o} to {m}. How many {o} are at home?
{n} is {a} years old. How old was {n} {b} years ago?|The rope is {a} feet long and {n} cuts {b} feet off. How long is it then?|A full jar weighs {a} grams, the honey in it {b}. How much does the jar weigh?
It was {a} degrees and got {b} degrees colder. How warm is it?|{n} paid {b} dollars with a note of {a} dollars. How much comes back?|Of {a} {o} {b} went missing. How many {o} are still there?
At first {a} {o}, later {b} fewer. How many in the end?|{a} {o} came and {b} left again. How many {o} are here?|Our club has {a} members and {b} quit. How many members has it?|{n} has {a} {o} and hands {b} to {m}. How many {o} does {n} hold?""".replace("\n", "|").split("|")

BEFORE = """Please |please |Hi, |Hello, |Hey, |Hello! |Hi! |Hi. |OK, |So, |Now |Quick: |Hey there, |Good morning. |Excuse me, |Could you help? |Dear model, |Well, |Alright, |Next: |Hello there. |Listen: |I am stuck: |I have a question. |One more: |Then """.replace("\n", "|").split("|")
AFTER = """ please| Please.| Thanks.| Thank you!| thanks|, please| Thanks!| Please show your work.| Think step by step.| I am not sure.| Be quick.| Answer with a number.| Just the number.| in your head| right now| exactly| for me| Show the steps.| It is for school.""".split("|")

UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def in_words(rng, n):
    if n < 20:
        return UNITS[n]
    if n < 100:
        return TENS[n // 10 - 2] + (rng.choice("- ") + UNITS[n % 10] if n % 10 else "")
    rest = n % 100
    return UNITS[n // 100] + " hundred" + (rng.choice((" ", " and ")) + in_words(rng, rest) if rest else "")


def thing(rng):
    if rng.random() < 0.15:
        return "".join(rng.choice("bdfgklmnprstvz") + rng.choice("aeiou")
            for _ in range(rng.choice((1, 2, 2)))) + rng.choice(("s", "ts", "ns"))
    return rng.choice(OBJECTS)


def lower_first(s):
    return s[:1].lower() + s[1:]


def spaced(rng, s):
    """Small errors of spacing and typing."""
    roll = rng.random()
    if roll < 0.35:
        return s.replace(" ", "  ", rng.choice((1, 1, 2)))
    if roll < 0.5:
        return " " * rng.choice((1, 2)) + s
    if roll < 0.65:
        return s + rng.choice((" ", "  ", "\n"))
    if roll < 0.8:
        return s[:-1] + " " + s[-1] if s[-1] in "?.!" else s.replace(" ", "", 1) if not any(c.isalpha()
            for c in s) else s
    if roll < 0.9:
        return s + rng.choice(("??", "!", "?!", "..", "...", " ?"))
    i = rng.randrange(len(s))
    return s[:i] + s[i + 1:] if s[i].isalpha() else s


FILLERS = """just really actually exactly quickly maybe perhaps now then again simply only also so very today here there kindly possibly
right again once more finally honestly well okay sir dear friend already still even though indeed""".split()


def padded(rng, s):
    """The text with one or two added words that change nothing, so that the wording around numbers matters less."""
    words = s.split(" ")
    for _ in range(rng.choice((1, 1, 2))):
        word = rng.choice(FILLERS) if rng.random() < 0.7 else thing(rng)
        words.insert(rng.randrange(len(words) + 1), word)
    return " ".join(words)


def dress(rng, s):
    if " " in s and rng.random() < 0.06:
        s = padded(rng, s)
    roll = rng.random()
    if roll < 0.16:
        s = rng.choice(BEFORE) + (s if rng.random() < 0.4 or s[:2] in ("I ", "I'") else lower_first(s))
    elif roll < 0.26:
        s = s + rng.choice(AFTER)
    elif roll < 0.29:
        s = rng.choice(BEFORE) + lower_first(s) + rng.choice(AFTER)
    roll = rng.random()
    if roll < 0.14:
        s = s.lower()
    elif roll < 0.18:
        s = s.upper()
    elif roll < 0.20:
        s = s.title()
    if rng.random() < 0.12:
        s = s.rstrip(".?!") or s
    if rng.random() < 0.10:
        s = spaced(rng, s)
    return s


BARE = "{x}|{x}|{x}|{x}|{x}=|{x} =|{x}?|{x} = ?|{x}=?|{x} ?|What is {x}?|what is {x}|Whats {x}".split("|")


# Clauses that ask for a sum or a difference, as commands and gerunds, and the sentences that contain them.
ADD_CLAUSES = """add {a} to {b}|add {a} and {b}|sum {a} and {b}|sum up {a} and {b}|put {b} on {a}|put {a} and {b} together|join {a} with {b}|combine {a} and {b}
total {a} and {b}|count {a} and {b} together|increase {a} by {b}|raise {a} by {b}|add {b} onto {a}|bring {a} and {b} together|take {a} and {b} together""".replace("\n", "|").split("|")
SUB_CLAUSES = """subtract {b} from {a}|take {b} from {a}|take {b} off {a}|take {b} away from {a}|remove {b} from {a}|deduct {b} from {a}|reduce {a} by {b}
lower {a} by {b}|cut {b} from {a}|take away {b} from {a}|drop {b} from {a}|draw {b} from {a}|decrease {a} by {b}|pull {b} from {a}""".replace("\n", "|").split("|")
COMMANDS = """I am trying to {c}.|I'm trying to {c}. What do I get?|I try to {c}, what is that?|I'm about to {c}. How much is it?|I want to {c}|I have to {c}, what comes out?|I need to {c}.
Help me {c}.|Help me to {c}|Could you {c}?|Can you {c} for me?|Would you please {c}?|Please {c}.|Let us {c}.|Let's {c}|Now {c}|Just {c}.|Try to {c}.|Go and {c}.
If I {c}, what is it?|If we {c}, how much is it?|If you {c}, what do you have?|When I {c}, what do I get?|Suppose I {c}. What is it then?|Say we {c}. How much is that?
What do I get if I {c}?|What is it when we {c}?|How much is it if you {c}?|What comes out when I {c}?|What number do I get when I {c}?|Which number is it if I {c}?
My task is to {c}.|The job: {c}|The exercise says to {c}.|I was told to {c}.|We should {c}. What is it?|Someone wants to {c}. What does it make?|How would you {c}?|{c}, what is it?|{c}, please|{c}!""".replace("\n", "|").split("|")
GERUNDS = """What do I get by {g}?|What would you have by {g}?|What does one get from {g}?|What is the outcome of {g}?|What comes from {g}?|How much do I have after {g}?|{g} makes what?|{g} gives?
What number results from {g}?|By {g} we have how much?|I am {g}. What is it?|I'm {g}, what do I have?|After {g}, what is there?|Tell me what {g} gives.|How about {g}?|What about {g}?|Result of {g}?""".replace("\n", "|").split("|")


def gerund(clause):
    verb, rest = clause.split(" ", 1)
    doubled = {"put": "putting", "sum": "summing", "total": "totalling", "cut": "cutting", "drop": "dropping",
        "get": "getting", "split": "splitting"}
    if verb in doubled:
        return doubled[verb] + " " + rest
    return (verb[:-1] if verb.endswith("e") else verb) + "ing " + rest


GAINS = "finds|gets|buys|receives|wins|picks up|collects|earns|gains|is given|discovers|makes|brings|takes in|is sent|adds".split("|")
LOSSES = "loses|sells|gives away|eats|drops|throws away|uses up|lends out|breaks|hands over|hides|leaves behind|forgets|donates|returns|misses".split("|")
OWNS = {"has": "have", "owns": "own", "keeps": "keep", "holds": "hold", "counts": "count"}


def story_question(rng, verbs, gain):
    """A small story assembled from parts: somebody has some things, and then more or fewer of them."""
    who = rng.choice(("I", "We", "{n}", "{n}", "{n}"))
    third = who == "{n}"
    plain = lambda v: v if third else v.replace("is ", "am " if who == "I" else "are ",
        1) if v.startswith("is ") else " ".join([base(v.split()[0])] + v.split()[1:])
    own, verb = rng.choice(list(OWNS)), rng.choice(verbs)
    extra = rng.choice((" more", " others", " further {o}", " {o}", "", " more {o}", " other {o}") if gain
        else ("", " of them", " {o}", " of the {o}"))
    lead = rng.choice(("", "", "", "Suppose ", "Say ", "Imagine ", "Let's say ", "Assume "))
    join = rng.choice((" and ", " and then ", ", then ", " and later ", ". Then "))
    again = who if join.startswith(".") or rng.random() < 0.2 else ""
    subject = "{n}" if third else who.lower() if who == "We" else "I"
    do = "does" if third else "do"
    left = "" if gain else rng.choice((" left", " still", " then", ""))
    end = rng.choice((f"How many {{o}} {do} {subject} {base(own)}{left or ' now'}?",
                      f"How many {{o}} {do} {subject} {base(rng.choice(list(OWNS)))}{left}?",
                      "How many are there" + (" in all" if gain else " left") + "?", f"How many is that?",
                      f"How many {do} {subject} have" + left + "?",
                      "How many {o} are that" + (" together" if gain else " then") + "?"))
    start = (who.lower() if who == "We" and lead else who)
    return f"{lead}{start} {plain(own)} {{a}} {{o}}{join}{again + ' ' if again else ''}{plain(verb)} {{b}}{extra}. {end}"


def base(verb):
    """The plain form of a verb in the third person."""
    known = {"has": "have", "loses": "lose", "uses": "use", "misses": "miss", "discovers": "discover", "takes": "take",
             "makes": "make", "gives": "give",
             "receives": "receive", "leaves": "leave", "donates": "donate", "hides": "hide"}
    return known.get(verb, verb[:-1] if verb.endswith("s") else verb)
