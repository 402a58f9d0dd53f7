# SPDX-License-Identifier: MIT
"""Histories of old data directories that are drawn by chance: members are
replaced, links cut, tables lost, old directories run on or come back. No lock
ever has a second holder, and in the end every acknowledged lock is held.

    IDENTITY_DRAWN=20 make cluster T=identity_drawn     number of histories
    IDENTITY_SEED=7                                     the first one's seed
"""

import contextlib
import os
import random

import pytest

from cluster import ReplyError, as_map, text, wait_until
from identity_world import World
from nemesis_net import why_not

DRAWN = int(os.environ.get("IDENTITY_DRAWN", "0"))
FIRST = int(os.environ.get("IDENTITY_SEED", "1"))
STEPS = 14

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]


class Drawn:
    def __init__(self, world, seed):
        self.world, self.rng = world, random.Random(seed)
        self.present, self.olds = list(world.founders), []
        self.cuts, self.count = [], 0
        self.numbers = {founder.id for founder in world.founders}

    def run(self):
        for _ in range(STEPS):
            name = self.rng.choice(
                "replace replace cut cut mend restart old old transfer".split()
            )
            print("step %s" % name)
            getattr(self, name)()
            self.look()
        self.mend()
        for place in self.present:
            if not place.is_running:
                place.start()
        self.settle()
        self.world.kept()
        self.world.whole(self.present, self.olds)

    def look(self):
        """Takes a lock somewhere; and those that are held, nowhere."""
        world = self.world
        running = [p for p in self.present + self.olds if p.is_running]
        for place in self.rng.sample(running, len(running)):
            self.count += 1
            with contextlib.suppress(OSError, ReplyError, AssertionError):
                world.take(place, "lock%d" % self.count)
                break
        world.never_granted_quickly(running)

    # --- Steps ----------------------------------------------------------------

    def cut(self):
        pair = self.rng.sample(self.present + self.olds, 2)
        self.world.cut([pair[0]], [pair[1]])
        self.cuts.append(pair)

    def mend(self):
        for one, other in self.cuts:
            self.world.mend([one], [other])
        self.cuts.clear()

    def restart(self):
        place = self.rng.choice(self.present)
        self.stop(place)
        place.start()

    def stop(self, place):
        if place.is_running:
            place.kill()
        if self.rng.random() < 0.6 and os.path.exists(place.dir + "/trust"):
            place.forget_table()

    def old(self):
        """An old directory comes back, or goes."""
        if not self.olds:
            return
        place = self.rng.choice(self.olds)
        was_running = place.is_running
        self.stop(place)
        if not was_running:
            place.start()

    def transfer(self):
        successor = self.rng.choice(self.present)
        with contextlib.suppress(OSError, ReplyError, AssertionError):
            with self.world.leader(timeout=3).connect(3) as client:
                client.do("RAFT.TRANSFER", successor.id)

    def place(self, number):
        """Names the members that are present, as it has to."""
        self.count += 1
        self.world.founders = self.present
        return self.world.place(number, "n%dr%d" % (number, self.count))

    def replace(self):
        """Up to a failure: the next leader knows the outcome."""
        victim = self.rng.choice(self.present)
        if self.rng.random() < 0.3:
            self.stop(victim)
        new = None
        with contextlib.suppress(OSError, ReplyError, AssertionError):
            leader = self.world.leader(timeout=3, besides=[victim, *self.olds])
            self.world.order(leader, "RAFT.REMOVE", victim.id, timeout=5)
            new = self.place(victim.id)
            self.world.order(
                leader, "RAFT.ADD", victim.id, new.addresses, timeout=8
            )
        self.olds += [new] if new is not None else []
        self.settle()

    # --- Who is a member ------------------------------------------------------

    def members(self):
        """{id: (incarnation, role)} as a leader that serves says."""
        for place in self.present + self.olds:
            if place.is_running and place.is_serving():
                status = place.status() or {"members": []}
                return place, {
                    m["id"]: (text(m["incarnation"]), text(m["role"]))
                    for m in map(as_map, status["members"])
                }
        return None, {}

    def settle(self):
        """All links work again, and each number is a voter; the named ones are
        present, all others are old."""
        self.mend()
        for place in self.present:
            if not place.is_running:
                place.start()
        every = self.present + self.olds

        def is_settled():
            leader, members = self.members()
            if leader is None:
                return False
            named = {i: incarnation for i, (incarnation, _) in members.items()}
            self.present = [
                p for p in every if named.get(p.id) == p.incarnation
            ]
            self.olds = [p for p in every if p not in self.present]
            for place in self.present:
                if not place.is_running:
                    place.start()
            return self.complete(leader, members)

        wait_until(is_settled, 60, "every number is a voter")

    def complete(self, leader, members):
        """Finishes what was begun; true if there was nothing left."""
        for number in self.numbers:
            role = members.get(number, (None, None))[1]
            if role == "voter":
                continue
            with contextlib.suppress(OSError, ReplyError, AssertionError):
                if role == "standby":
                    self.world.order(leader, "RAFT.PROMOTE", number, timeout=5)
                else:
                    new = self.place(number)
                    self.olds.append(new)
                    self.world.order(
                        leader, "RAFT.ADD", number, new.addresses, timeout=8
                    )
            return False
        return len(self.present) == len(self.numbers)


if DRAWN > 0:  # Otherwise there is nothing to collect.

    @pytest.mark.parametrize("seed", range(FIRST, FIRST + DRAWN))
    def test_a_drawn_history(seed):
        with World(5 if seed % 3 == 0 else 3) as world:
            drawn = Drawn(world, seed)
            drawn.run()
