"""Time, money and units: what is measured is turned into whole numbers, worked out in columns, and turned back."""

from . import money, time, units
from .page import build


def turn(rng, effort, slips=True, fresh=False):
    make = rng.choice((time.task, money.task, units.task))
    return build(rng, make(rng, fresh), effort, slips and rng.random() < 0.2)
