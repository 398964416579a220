"""A storm: many streams of many devices under mixed work, cancellations and faults.

Sailors, one task for each stream, enqueue at random, and know what every buffer must
hold. What may be uncertain, because a fault that was injected struck it, is not looked
at; everything else is compared byte by byte. All choices come from one seed.

The `Sea` is what crews on several event loops share; a `Storm` is one loop's crew.
"""

from helpers.storm.crew import Storm
from helpers.storm.sea import KINDS, Kind, Sea

__all__ = ["KINDS", "Kind", "Sea", "Storm"]
