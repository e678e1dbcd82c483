"""What the model can do. A skill is a module with `turn(rng, effort, slips=True, fresh=False) -> Turn`.

fresh asks for what training never sees: held-out numbers, names and objects. Evaluation draws its questions so.
"""

from dataclasses import dataclass, field

EFFORTS = ("low", "medium", "high")


@dataclass
class Turn:
    """One question with everything the model may be asked to write about it.

    Analysis is a list of (text, weight) pieces, weight being the loss weight of the piece's tokens: 0 makes a piece (a planted
    error) context only. A piece with a weight of its own must be whole tokens. Complete tells from which piece on the result is known.
    Concise and detailed are the two summaries; they are empty where there is none to learn, as after an error that the check found.
    Result is what the question asks for alone: a whole number, or text such as "4:35", "$6.25", "12, 33, 45" or "142 remainder 5".
    Numbers are the whole numbers that answer and question are about, as a list that JSON could hold: the operands, or what was sorted in order.
    """

    question: str
    analysis: list
    final: str
    concise: str = ""
    detailed: str = ""
    posthoc: str = ""
    direct: bool = True
    complete: int = 0
    kind: str = ""
    result: object = None
    numbers: list = field(default_factory=list)

    def text(self):
        return "".join(t for t, _ in self.analysis)


def plain(text):
    return [(text, 1.0)]


def mix():
    """The skills and how often each is drawn."""
    from . import arithmetic, chains, identity, measures, ordering, stories

    return ((arithmetic.turn, 0.15), (chains.turn, 0.06), (ordering.turn, 0.21), (stories.turn, 0.17), (measures.turn, 0.27), (identity.turn, 0.14))
