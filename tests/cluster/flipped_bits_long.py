# SPDX-License-Identifier: MIT
"""Flipped bits on one, two and all three nodes, in each kind of file, for
FLIPS_SECONDS (300): make test-long T=flipped_bits."""

import collections
import os
import time

from bounded import bounded_to
from flipped_bits import PLACES, World

SECONDS = int(os.environ.get("FLIPS_SECONDS", "300"))
ROW = "%-9s %d of 3: %4d flips, %4d refused, %4d repaired, %4d not needed"

bounded = bounded_to(SECONDS + 120)


def test_nothing_is_wrong_in_silence(tmp_path, capsys):
    counts = collections.defaultdict(collections.Counter)
    world = World(tmp_path)
    try:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            for place in PLACES:
                for hurt in (1, 2, 3):
                    counts[place, hurt].update(world.trial(place, hurt))
    finally:
        world.close()
    with capsys.disabled():
        for (place, hurt), count in counts.items():
            print(ROW % (place, hurt, sum(count.values()), count["refused"],
                         count["repaired"], count["not needed"]))
    assert all(counts[place, 1]["refused"] for place in ("wal", "identity"))
