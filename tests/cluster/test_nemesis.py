# SPDX-License-Identifier: MIT
"""Real nodes and clients under all that may happen to them, and whether an
order of what was asked explains all that was answered. README.md has the
faults, the judges, and how to run more:

    NEMESIS_SECONDS=600 NEMESIS_NODES=5 NEMESIS_FAULTS=all NEMESIS_SEED=7 \\
        make cluster T=nemesis
"""

import collections
import json
import os
import shutil
import time

import pytest

from cluster import HASPD, Session, wait_until
from nemesis import World, wait_progress
from nemesis_check import Belief, Counter, check, read_beliefs
from nemesis_client import KINDS, LOCKS
from nemesis_events import check_events
from nemesis_faults import FAULTS, kinds, schedule
from nemesis_history import read_files, read_records
from nemesis_net import why_not
from nemesis_rules import grants, judge

SECONDS = float(os.environ.get("NEMESIS_SECONDS", "0"))
SEED = int(os.environ.get("NEMESIS_SEED", "1"))
NODES = int(os.environ.get("NEMESIS_NODES", "0"))
PLANT = os.environ.get("NEMESIS_PLANT", "")
FAULTS_ASKED = os.environ.get("NEMESIS_FAULTS", "").split(",")
FAULTS_ASKED = tuple(f for f in FAULTS_ASKED if f)
if FAULTS_ASKED == ("all",):
    FAULTS_ASKED = tuple(FAULTS)
THREE = ("process", "client", "network", "weather", "disk", "power")
THREE += ("clock", "restore")
FIVE = ("client", "network", "weather", "clock", "rolling", "members")
# As in `make test`; with the start, the end and the judges 25 s at most.
SHORT_S = 16.0
# From here on each kind of fault must have had an effect.
LONG_RUN_S = 300.0
REASON = why_not()

needs_namespaces = pytest.mark.skipif(
    REASON is not None, reason="no network namespaces: %s" % REASON
)
Outcome = collections.namedtuple(
    "Outcome", "found beliefs counts leaders world"
)


def belief(begin, end, token, mode="exclusive", call=None, lock="a"):
    call = begin if call is None else call
    return Belief(0, lock, mode, token, call, begin, end)


def test_the_checker_sees_what_is_wrong():
    right = [belief(0, 1, 5), belief(1, 2, 6), belief(2, 2, 9)]
    assert check(right) == []
    assert check([belief(0, 1, 5), belief(0.9, 2, 6)])
    assert check([belief(0, 5, 5), belief(1, 2, 6), belief(6, 7, 7)])
    assert check([belief(0, 1, 5), belief(2, 3, 4)])
    other = belief(2, 3, 5)._replace(client=1)
    assert check([belief(0, 1, 5), belief(1, 2, 5, call=0)]) == []
    assert check([belief(0, 1, 5), other])
    readers = [belief(0, 2, 5, "shared"), belief(1, 3, 5, "shared", 0)]
    assert check(readers) == []
    assert check(readers + [belief(2.5, 4, 6)])
    assert check([belief(0, 2, 6, "shared"), belief(3, 4, 5, "shared")])
    slots = [belief(0, 2, 5, "slots"), belief(0.5, 3, 6, "slots")]
    assert check(slots) == []
    assert check(slots + [belief(1, 2, 7, "slots")])
    other = [belief(0, 2, 5), belief(1, 3, 6, lock="b")]
    assert check(other) == []


def test_the_counter_sees_a_lost_update():
    counter = Counter()
    read = {"op": "read", "lock": "a", "token": 1}
    write = {"op": "write", "lock": "a", "token": 1, "value": 1}
    assert counter.ask(read)["value"] == 0
    assert counter.ask(write)["ok"]
    assert counter.found() == []
    assert counter.ask(write)["ok"]
    assert counter.found()
    assert counter.ask(dict(read, token=2))["ok"]
    assert not counter.ask(write)["ok"]


def take_all(world, beliefs):
    """Every lock can be acquired again within a lease and a few seconds,
    whatever its holder, with a token greater than all before."""
    leader = world.cluster.leader()
    greatest = collections.Counter()
    for one in beliefs:
        greatest[one.lock] = max(greatest[one.lock], one.token)
    by = time.monotonic() + world.ttl_s + 5
    with leader.connect(15) as client:
        Session(client, ttl=60000)
        for lock in LOCKS:
            left_ms = max(1, int((by - time.monotonic()) * 1000))
            token = client.do("LOCK.ACQUIRE", lock, "WAIT", left_ms)
            if token is None:
                yield "%s cannot be had after the faults: %r" % (
                    lock,
                    client.do("LOCK.SHOW", lock),
                )
            elif token <= greatest[lock]:
                yield "%s: token %d after %d" % (lock, token, greatest[lock])
        client.do("SESSION.CLOSE")


def kept(world, seed):
    """Copies the clients' records to a place that stays."""
    folder = os.path.join(os.path.dirname(HASPD), "nemesis-%d" % seed)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for path in world.records():
        shutil.copy(path, folder)
    with open(os.path.join(folder, "lives"), "w") as out:
        lines = world.lives + world.listings
        out.writelines(json.dumps(line) + "\n" for line in lines)
    return folder


def run(nodes, seconds, seed, faults, plant="", plan=None):
    if plan is None:
        plan = schedule(seed, seconds, faults, nodes)
    with World(nodes, seed=seed, plant=plant, faults=faults) as world:
        world.run(plan, seconds)
        stuck = goes_on(world)
        world.stop_clients()
        found, beliefs, counts = judged(world)
        found += stuck
        if not stuck:
            found += take_all(world, beliefs)
            world.cluster.converged(10)
        world.watch_deaths()
        leaders = sum(
            n.log().count("became leader") for n in world.cluster.nodes
        )
        found += [f for f in world.found if f not in found]
        print("\n".join(world.log + list(world.report())))
        print("%d beliefs, %d terms, %r" % (len(beliefs), leaders, counts))
        for sentence in found:
            print("found: %s" % sentence)
        if found and not plant:
            world.cluster.print_logs()
            print("the history is kept in %s" % kept(world, seed))
    return Outcome(found, beliefs, counts, leaders, world)


def goes_on(world):
    """The checks that fail after the faults, in words."""
    try:
        world.cluster.leader(20)
        wait_progress(world, 20)
        return []
    except AssertionError as error:
        return [str(error)]


def judged(world):
    restored = [life["t"] for life in world.lives]
    world_records = world.lives + world.listings
    beliefs, bad, counts = read_beliefs(world.records(), restored)
    begun = time.process_time()
    history = read_files(world.records(), world_records)
    found = world.found + bad + check(beliefs) + judge(history)
    told, counts["grants watched"] = check_events(
        map(read_records, world.records()), history
    )
    found += told
    found += world.server.counter.found()
    counts["requests"] = len(history.ops)
    counts.update(acquired_by(history))
    counts["seconds to judge"] = round(time.process_time() - begun, 1)
    return found, beliefs, counts


def acquired_by(history):
    """{"by http": how many locks were acquired by clients of that kind}"""
    kinds = {
        op.value: "by " + op.args["by"]
        for op in history.ops
        if op.kind == "open" and op.is_known and op.refusal is None
    }
    acquires = [op for op, _ in grants(history) if op.kind != "open"]
    return collections.Counter(kinds[op.session] for op in acquires)


def check_run(nodes, seconds, seed, faults):
    outcome = run(nodes, seconds, seed, faults, PLANT)
    assert outcome.found == []
    # A run in which nothing happened proves nothing.
    world = outcome.world
    assert outcome.counts["requests"] > seconds
    assert outcome.beliefs and sum(world.reached.values()) > 0
    # How much happens in a short one is the machine's matter.
    if seconds >= LONG_RUN_S:
        assert outcome.counts["requests"] > 10 * seconds
        assert len(outcome.beliefs) > seconds
        assert outcome.counts.get("repeated", 0) > 0
        assert outcome.counts["grants watched"] > seconds / 4
        assert outcome.leaders >= 2
        assert all(outcome.counts.get("by " + kind, 0) > 0 for kind in KINDS)
        assert 2 * sum(world.reached.values()) > sum(world.begun.values())
        wanted = set(kinds(faults, nodes)) | ({"restore"} & set(faults))
        never = wanted - set(+world.reached)
        assert not never, "never had an effect: %s" % ", ".join(sorted(never))
    if "clock" in faults:
        drawn = {key for key in world.cluster.rates if key[1] != 1.0}
        assert {whose for whose, _ in drawn} == {"nodes", "clients"}


@pytest.mark.parametrize("nodes", [3, 5])
def test_a_long_schedule_has_each_fault(nodes):
    groups = tuple(FAULTS)
    wanted = set(kinds(groups, nodes)) | {"restore"}
    for seed in range(1, 30):
        plan = schedule(seed, LONG_RUN_S, groups, nodes)
        drawn = collections.Counter(kind for _, _, kind, _ in plan)
        assert set(drawn) == wanted
        assert min(drawn.values()) >= 2
        assert all(at + length <= LONG_RUN_S for at, length, _, _ in plan)


@needs_namespaces
def test_what_three_nodes_answer_is_explained(long_run):
    faults = FAULTS_ASKED or THREE
    check_run(NODES or 3, SECONDS or SHORT_S, SEED, faults)


@needs_namespaces
@pytest.mark.skipif(NODES != 0, reason="NEMESIS_NODES asks for one run")
def test_what_five_nodes_answer_is_explained(long_run):
    check_run(5, SECONDS or SHORT_S, SEED, FAULTS_ASKED or FIVE)


@needs_namespaces
def test_a_client_that_trusts_its_lease_for_ever_is_found_out():
    """Stopped for two leases, with most of the others, while it holds."""
    plan = [
        (at, 4.0, "stop two clients", number)
        for at in (1.5, 6.5)
        for number in (1, 2, 3)
    ]
    outcome = run(3, 11, 3, (), "forever", plan)
    assert any("began to believe" in f for f in outcome.found)


@pytest.fixture
def long_run():
    """The usual bound on a test's time, extended by what was asked for."""
    import signal

    signal.alarm(240 + int(SECONDS))
