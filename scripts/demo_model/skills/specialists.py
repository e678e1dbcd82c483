"""Delegation: how users ask for a specialist, the prompts of specialists, and how the main agent uses their work."""

from .words import ADJECTIVES, NOUNS

# The prompts that the model itself writes for a specialist.
AGENT = "You are a careful calculator. Work out step by step what the user asks, and return the result."

ASKS = """Ask a specialist: {q}|Let a specialist answer this: {q}|Delegate this: {q}|Hand this to a specialist: {q}|Please delegate: {q}|Get an expert to work this out: {q}|Have a specialist work it out: {q}
Use a specialist for this. {q}|Let somebody else do it: {q}|{q} Ask a specialist.|{q} Let a specialist work on it.|{q} Delegate it.|{q} Please delegate this.|{q} Hand it to an expert.|I want a specialist to do this: {q}
Delegate the reasoning: {q}|A specialist should answer: {q}|{q} Use delegation.|Give this to a specialist, please: {q}|Call a specialist: {q}""".replace("\n", "|").split("|")

ROLES = """You are a careful calculator.|You are a math tutor.|You are an accountant.|You are a patient teacher.|You check numbers.|You are a specialist for arithmetic.|You are an expert for numbers.|You are a shop assistant.
You work out what is asked.|You are a careful mathematician.|Act as a calculator.|You are precise and slow.|You are the arithmetic specialist.|You are an auditor.|You help children with homework.""".replace("\n", "|").split("|")
DUTIES = """Work it out.|Work out the result.|Work out step by step what the user asks.|Return the result.|Find the answer and return it.|Check your work.|Write down what you find.|Be exact.|Say only the result.|Answer the question.|Think in small steps.
Report the number.|Do the sum.|Return one line.|Give the result to the main agent.""".replace("\n", "|").split("|")
UNSEEN_ROLES = "You are a seasoned bookkeeper.|You are a quantity surveyor.|You keep the ledgers of a harbour.|You are a retired physics lecturer.|Imagine you are an abacus.|You are the treasurer of a chess club.".split("|")
UNSEEN_DUTIES = "Figure out the figure that is wanted.|Hand back your finding.|Reckon with care and report.|Settle the question, nothing more.|Tell the main agent what it needs.".split("|")


def ask(rng, question):
    return rng.choice(ASKS).replace("{q}", question)


def prompt(rng, fresh=False):
    """A specialist's prompt as users write it."""
    roles, duties = (UNSEEN_ROLES, UNSEEN_DUTIES) if fresh else (ROLES, DUTIES)
    if not fresh and rng.random() < 0.1:
        return f"You are a {rng.choice(ADJECTIVES)} {rng.choice(NOUNS)} expert. {rng.choice(duties)}"
    return " ".join([rng.choice(roles)] + [rng.choice(duties) for _ in range(rng.choice((0, 1, 1, 2)))])


def before(effort):
    """The analysis before the call."""
    return {"low": "I was asked to use a specialist, so I delegate.",
            "medium": "I was asked to have a specialist work on this.\nI delegate the reasoning and wait for what comes back.",
            "high": "I was asked to have a specialist work on this, so I do not work it out by myself.\n"
                    "I describe the specialist in a prompt that says what to do.\nI delegate the reasoning and wait for what comes back."}[effort]


def after(effort, final):
    """The analysis after the specialist's report, as (text, weight) pieces."""
    lead = {"low": "The specialist says: ", "medium": "The specialist has returned with this: ",
            "high": "The specialist has worked on the question and has returned control to me.\nThis is what came back: "}[effort]
    tail = {"low": "", "medium": "\nI pass it on.", "high": "\nIt answers what was asked, so I pass it on."}[effort]
    return [(lead, 1.0), (final, 2.0), (tail, 1.0)]


# The summaries of the analysis before a specialist works.
ASKED = ("A specialist works on it.", "A specialist was asked for, and works on it.")


def passed_on(turn):
    """The summaries of the analysis after a specialist's report on a turn."""
    if turn.kind == "identity" or str(turn.result) not in turn.final:
        return "The specialist's answer is passed on.", "A specialist worked on it, and the answer is passed on."
    return f"The specialist comes to {turn.result}.", f"A specialist worked on it and comes to {turn.result}."
