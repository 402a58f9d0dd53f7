# SPDX-License-Identifier: MIT
"""A member whose data directory was replaced, while the old one lives on, or
comes back: the old one has no link and no vote, there are never two holders,
and no acknowledged lock is lost.

By default some histories run once. IDENTITY_TIMES=N runs all of them N times,
with pauses of random length between their steps from the second time on.
"""

import os
import random
import time

import pytest

from cluster import wait_until
from identity_world import PART_S, PATIENCE_S, World
from nemesis_net import why_not

TIMES = int(os.environ.get("IDENTITY_TIMES", "0"))

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.parametrize("turn", range(max(1, TIMES))),
]


def only_long(test):
    """Not collected unless all are asked for."""
    return test if TIMES > 0 else None


def if_long(*cases):
    return cases if TIMES > 0 else ()



def pause(turn):
    """Between two steps of a history, in all turns but the first."""
    time.sleep(random.choice((0, 0.05, 0.3, 1.0)) * min(turn, 1))


def cut_off(world, leader, *olds):
    """The leader does not hear these members: that is when people replace
    one."""
    world.cut([leader], olds)
    for old in olds:
        wait_until(
            lambda: not 0 <= leader.member(old.id)["last_contact_ms"] < 700,
            10,
            "%s is silent" % old.host,
        )


def part(world, present, others, olds):
    """The present members, a majority, lose all links with the others and with
    the old directories, and serve; these never do. In the end all is well."""
    world.try_to_link(present + others)
    world.cut(present, others)
    world.cut(present, olds)
    world.take(world.leader(besides=others + olds), "parted")
    world.never_granted(others + olds)
    world.named(olds, others)
    world.mend(present, others)
    world.kept()
    world.whole(present + others, olds)
    world.named(olds, others)


def test_an_old_directory_that_one_member_hears(turn):
    """Two leaders, two holders."""
    with World(3) as world:
        one, two, old = world.founders
        world.make_leader(one)
        world.take(one, "before")
        cut_off(world, one, old)
        pause(turn)
        new = world.replace(one, old, "n3b")
        pause(turn)
        part(world, [one, new], [two], [old])


@only_long
def test_of_five_an_old_directory_that_two_hear(turn):
    with World(5) as world:
        one, two, three, four, old = world.founders
        world.make_leader(one)
        world.take(one, "before")
        cut_off(world, one, old)
        world.cut([two], [old])
        new = world.replace(one, old, "n5b")
        pause(turn)
        part(world, [one, two, new], [three, four], [old])


def test_two_old_directories_of_two_members(turn):
    with World(5) as world:
        one, two, three, *olds = world.founders
        world.make_leader(one)
        world.take(one, "before")
        cut_off(world, one, *olds)
        world.cut([two], olds)
        news = [world.replace(one, old, "n%db" % old.id) for old in olds]
        pause(turn)
        part(world, [one, two, *news], [three], olds)


def test_two_old_directories_of_one_member(turn):
    """The new one was wiped again, and all three live."""
    with World(3) as world:
        one, two, first = world.founders
        world.make_leader(one)
        world.take(one, "before")
        cut_off(world, one, first)
        second = world.replace(one, first, "n3b")
        pause(turn)
        cut_off(world, one, second)
        third = world.replace(one, second, "n3c")
        pause(turn)
        part(world, [one, third], [two], [first, second])


@only_long
def test_an_old_directory_that_was_demoted(turn):
    """Demoted, removed, added as a standby and promoted."""
    with World(3) as world:
        one, two, old = world.founders
        world.make_leader(one)
        world.take(one, "before")
        cut_off(world, one, old)
        assert world.order(one, "RAFT.DEMOTE", 3) == "OK"
        pause(turn)
        new = world.replace(one, old, "n3b", "STANDBY")
        pause(turn)
        assert world.order(one, "RAFT.PROMOTE", 3) == "OK"
        part(world, [one, new], [two], [old])


def test_an_old_directory_of_a_standby(turn):
    """The old one never had a vote after its member was demoted, nor has it
    the vote of the new one."""
    with World(3) as world:
        one, two, old = world.founders
        world.make_leader(one)
        world.take(one, "before")
        assert world.order(one, "RAFT.DEMOTE", 3) == "OK"
        wait_until(lambda: old.member(3).get("role") == "standby", 10, "told")
        cut_off(world, one, old)
        new = world.replace(one, old, "n3b")
        pause(turn)
        part(world, [one, new], [two], [old])


def test_leaders_change_while_a_member_is_replaced(turn):
    with World(3) as world:
        one, two, old = world.founders
        world.make_leader(one)
        world.take(one, "before")
        cut_off(world, one, old)
        assert world.order(one, "RAFT.REMOVE", 3) == "OK"
        pause(turn)
        world.make_leader(two)
        new = world.place(3, "n3b")
        world.add(two, new, "STANDBY")
        pause(turn)
        world.make_leader(one)
        assert world.order(one, "RAFT.PROMOTE", 3) == "OK"
        part(world, [one, new], [two], [old])


def test_a_former_leader_that_one_member_hears(turn):
    """The one that was replaced led before."""
    with World(3) as world:
        old, two, three = world.founders
        world.make_leader(old)
        world.take(old, "before")
        world.make_leader(two)
        cut_off(world, two, old)
        new = world.replace(two, old, "n1b")
        pause(turn)
        part(world, [two, new], [three], [old])


@only_long
def test_an_old_directory_beside_a_member_that_restarts(turn):
    """Its link comes up with a process that has applied nothing."""
    with World(3) as world:
        one, two, old = world.founders
        world.make_leader(one)
        world.take(one, "before")
        cut_off(world, one, old)
        new = world.replace(one, old, "n3b")
        wait_until(
            lambda: two.member(3).get("role") == "voter", 10, "two knows it"
        )
        pause(turn)
        world.cut([one, new], [two, old])
        two.kill()
        two.forget_table()
        two.start()
        world.take(one, "parted")
        world.never_granted([two, old], PATIENCE_S)
        world.mend([one, new], [two])
        world.kept()
        world.whole([one, two, new], [old])


@only_long
def test_an_old_directory_that_is_up_first_after_all_lost_power(turn):
    with World(3) as world:
        old, two, three = world.founders
        world.make_leader(two)
        world.take(two, "before")
        old.kill()
        new = world.replace(two, old, "n1b")
        world.take(two, "after")
        world.kill(two, three, new)
        for place in (two, three, new):
            place.forget_table()
        old.start()
        three.start()
        pause(turn)
        world.never_granted([old, three], PATIENCE_S)
        new.start()
        two.start()
        world.kept()
        world.whole([new, two, three], [old])


def test_a_removal_that_is_rolled_back_removes_nobody(turn):
    """A leader without a majority has it in its log, and closes the link; then
    another leads, and the member counts as before."""
    with World(3) as world:
        one, two, three = world.founders
        world.make_leader(one)
        world.take(one, "before")
        world.cut([one], [two, three])
        with one.connect() as client:
            client.send("RAFT.REMOVE", 3, "FORCE")
            pause(turn)
            world.make_leader_of([two, three])
            world.take(world.leader(besides=[one]), "meanwhile")
        world.mend([one], [two, three])
        world.whole([one, two, three], [])
        assert one.member(3)["role"] == "voter"
        two.kill()
        world.kept()


@only_long
def test_two_directories_that_two_leaders_add(turn):
    """One of them no longer leads: the node that it added is not a member, and
    its vote does not count when the old leader is back."""
    with World(5) as world:
        one, two, three, four, old = world.founders
        world.make_leader(one)
        world.take(one, "before")
        old.kill()
        world.nodes.remove(old)
        assert world.order(one, "RAFT.REMOVE", 5) == "OK"
        others = [two, three, four]
        wait_until(
            lambda: all(p.member(5) == {} for p in [one, *others]), 10, "told"
        )
        first = world.place(5, "n5b")
        second = world.place(5, "n5c")
        world.cut([one], [*others, second])
        world.cut([first], [*others, second])
        with one.connect() as client:
            client.send("RAFT.ADD", 5, first.addresses)
            wait_until(
                lambda: one.member(5).get("role") == "standby"
                or world.leads(others),
                10,
                "the first one is in a log",
            )
            pause(turn)
            leader = world.make_leader_of(others)
            world.add(leader, second)
        world.take(leader, "meanwhile")
        world.mend([one], [*others, second])
        world.mend([first], [*others, second])
        world.whole([one, *others, second], [first])
        others.remove(leader)
        part(world, [one, leader, second], others, [first])


@only_long
def test_an_empty_directory_that_is_not_the_announced_one(turn):
    """The operator names the directory that is to come; another one comes."""
    with World(3) as world:
        one, two, old = world.founders
        world.make_leader(one)
        world.take(one, "before")
        old.kill()
        world.nodes.remove(old)
        assert world.order(one, "RAFT.REMOVE", 3) == "OK"
        other = world.place(3, "n3b")
        wait_until(lambda: "waiting to be added" in other.log(), 10, "waits")
        named = "%016x" % (int(other.incarnation, 16) ^ 1)
        words = ["RAFT.ADD", 3, other.addresses, "STANDBY", "INCARNATION", named]
        assert world.order(one, *words) == "OK"
        pause(turn)
        two.kill()
        world.commits_nothing(one)
        two.start()
        world.kept()
        assert world.is_cast_out(other, [one, two])
        assert world.order(one, "RAFT.REMOVE", 3) == "OK"
        world.add(world.kept(), other)
        world.whole([one, two, other], [])


def fill_the_log(leader, count):
    """Writes 'count' entries, and takes a snapshot after which the log is
    trimmed."""
    with leader.connect(30) as client:
        client.do("SESSION.OPEN", "TTL", 60000)
        for _ in range(count // 200):
            for _ in range(100):
                client.send("LOCK.ACQUIRE", "filler")
                client.send("LOCK.RELEASE", "filler")
            for _ in range(200):
                client.receive()
        assert client.do("RAFT.SNAPSHOT") == "OK"


def test_a_member_learns_of_the_replacement_by_a_snapshot(turn):
    with World(5, "requests_in_flight = 300\n") as world:
        one, two, three, away, old = world.founders
        world.make_leader(one)
        world.take(one, "before")
        away.kill()
        cut_off(world, one, old)
        world.cut([two], [old])
        new = world.replace(one, old, "n5b")
        fill_the_log(one, 20000)
        pause(turn)
        away.start()
        wait_until(lambda: "snapshot installed" in away.log(), 20, "a snapshot")
        part(world, [one, two, new], [three, away], [old])


def test_a_member_returns_and_the_leader_has_moved(turn):
    """It knows the leader's number, and where the former directory was."""
    with World(5) as world:
        old, two, three, four, away = world.founders
        world.make_leader(two)
        world.take(two, "before")
        world.kill(away, old)
        new = world.replace(two, old, "n1b")
        pause(turn)
        world.make_leader(new)
        world.take(new, "after")
        away.start()
        world.whole([new, two, three, four, away], [])


def lose_what_was_applied(how, place):
    """Its log is whole, and its state is an older one."""
    place.kill()
    if how != "flush":
        place.forget_table()


@pytest.mark.parametrize(
    "how, volume",
    [
        ("log", "moved"),
        ("flush", "moved"),
        *if_long(
            ("snapshot", "moved"),
            ("log", "in place"),
            ("snapshot", "in place"),
            ("flush", "in place"),
        ),
    ],
)
def test_an_old_volume_comes_up_beside_an_old_state(turn, how, volume):
    """A member is replaced, and a lock acknowledged by the new one; then that is
    gone, its old volume comes back, and a third member that missed the lock has
    all of its log but an older state: from a snapshot, or none."""
    extra = "flush_ms = 600000\n" if how == "flush" else ""
    with World(3, extra) as world:
        old, two, three = world.founders
        world.make_leader(two)
        world.take(two, "before")
        world.converged()
        if how == "snapshot":
            with three.connect() as client:
                assert client.do("RAFT.SNAPSHOT") == "OK"
        old.kill()
        new = world.replace(two, old, "n1b")
        wait_until(
            lambda: three.member(1).get("role") == "voter"
            and three.status()["applied"] == two.status()["applied"],
            10,
            "all know the new one",
        )
        pause(turn)
        lose_what_was_applied(how, three)
        world.take(two, "acknowledged")
        world.kill(two, new)
        if volume == "moved":
            os.rename(new.dir, new.dir + ".gone")
            os.rename(old.dir, new.dir)
            old = new
        pause(turn)
        old.start()
        three.start()
        seconds = PART_S if volume == "moved" else PATIENCE_S
        world.never_granted([old, three], seconds)
        two.start()
        world.kept()


@pytest.mark.parametrize(
    "has_snapshot", [False, *if_long(True)]
)
def test_an_empty_directory_under_the_number_of_one_that_was_added(
    turn, has_snapshot
):
    """Founders 1 to 3, 4 added, 1 removed: 4's disk is gone, and those who let
    it in had applied nothing of all that after a power failure."""
    with World(3) as world:
        one, two, three = world.founders
        world.make_leader(two)
        world.take(two, "before")
        if has_snapshot:
            for node in (two, three):
                with node.connect() as client:
                    assert client.do("RAFT.SNAPSHOT") == "OK"
        four = world.place(4, "n4")
        world.add(two, four)
        assert world.order(two, "RAFT.REMOVE", 1) == "OK"
        one.kill()
        world.nodes.remove(one)
        world.take(two, "acknowledged")
        wait_until(
            lambda: three.status()["applied"] == two.status()["applied"],
            10,
            "they have the same",
        )
        world.kill(two, three, four)
        two.forget_table()
        three.forget_table()
        four.wipe()
        pause(turn)
        two.start()
        four.start()
        world.never_granted([two, four], 1.5)
        three.start()
        world.kept()
        world.make_leader(two)
        pause(turn)
        three.kill()
        world.commits_nothing(two)
        three.start()
        leader = world.kept()
        # The operator's remedy.
        assert world.order(leader, "RAFT.REMOVE", 4) == "OK"
        world.add(leader, four)
        world.whole([two, three, four], [])
