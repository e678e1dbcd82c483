"""What the model can do. A skill is a module with `turn(rng, effort) -> Turn`; MIX says how often each is drawn."""

from dataclasses import dataclass, field

EFFORTS = ("low", "medium", "high")


@dataclass
class Turn:
    """One question with everything the model may be asked to write about it.

    Analysis is a list of (text, weight) pieces, weight being the loss weight of the piece's tokens: 0 makes a piece (a planted
    error) context only. A piece with a weight of its own must be whole tokens.
    Partial answers what is said when the reasoning was cut off; complete tells from which piece on the result is known.
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
    facts: dict = field(default_factory=dict)

    def text(self):
        return "".join(t for t, _ in self.analysis)


def plain(text):
    return [(text, 1.0)]


def mix():
    from . import arithmetic, identity

    return ((arithmetic.turn, 0.72), (identity.turn, 0.28))
