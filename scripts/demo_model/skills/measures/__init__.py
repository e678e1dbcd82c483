"""Time, money and units: measures are converted to whole numbers, computed in columns, and converted back."""

from . import money, time, units
from .page import build


def turn(rng, effort, slips=True, fresh=False):
    make = rng.choice((time.task, money.task, units.task))
    return build(rng, make(rng, fresh), effort, slips and rng.random() < 0.2)
