"""What the model can do. A skill is a module with `turn(rng, effort, slips=True, fresh=False) -> Turn`.

fresh draws only what training never sees: held-out numbers, names and objects. Evaluation draws its questions so.
"""

from dataclasses import dataclass, field

EFFORTS = ("low", "medium", "high")


@dataclass
class Turn:
    """One question with everything the model may be asked to write about it.

    analysis is a list of (text, weight) pieces, where weight is the loss weight of the piece's tokens. A piece with
    weight 0 (a planted error) is context only. A piece with a different weight must be whole tokens. complete is the
    piece from which on the result is known. concise and detailed are the two summaries. They are empty if there is
    none to learn, for instance after an error that the check found. result is only what the question asks for: a
    whole number, or text such as "4:35", "$6.25", "12, 33, 45" or "142 remainder 5". numbers are the whole numbers of
    question and answer, as a JSON list could hold them: the operands, or the numbers that were sorted, in order.
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
    """The skills and their shares."""
    from . import arithmetic, chains, identity, measures, ordering, stories

    return ((arithmetic.turn, 0.15), (chains.turn, 0.06), (ordering.turn, 0.21), (stories.turn, 0.17),
        (measures.turn, 0.27), (identity.turn, 0.14))
