# SPDX-License-Identifier: MIT
"""A flipped bit on the disk of one node, or of two, in each kind of file: some
of what flipped_bits_long.py draws."""

import pytest

from flipped_bits import PLACES, World


@pytest.fixture(scope="module", name="bits")
def bits_(tmp_path_factory):
    world = World(tmp_path_factory.mktemp("bits"))
    yield world
    world.close()


@pytest.mark.parametrize("count", (1, 2))
@pytest.mark.parametrize("place", PLACES)
def test_nothing_is_wrong_in_silence(bits, place, count):
    bits.trial(place, count)
