# SPDX-License-Identifier: MIT
"""The faults of nodes and clients, and their times: a schedule from a seed.

Each kind belongs to a group, and a run has some of the groups. Its length is
drawn between the shortest and the longest, in seconds; for a fault that ends by
itself, the length is its limit.
"""

import random

FAULTS = {
    "process": {
        "kill the leader": (0.1, 2.0),
        "kill any": (0.1, 3.0),
        "kill a majority": (0.1, 2.0),
        "kill all": (0.1, 0.5),
        "stop the leader": (0.3, 3.0),
        "stop any": (0.3, 3.0),
    },
    "client": {
        "stop a client": (0.3, 4.0),
        "stop two clients": (1.0, 3.0),
        "cut a client": (0.5, 4.0),
        "mute nodes to a client": (0.5, 4.0),
        "kill a client": (0.1, 1.0),
        "blacklist a client": (0.5, 4.0),
        "take a right away": (0.5, 3.0),
    },
    "network": {
        "cut the leader from its peers": (0.5, 3.0),
        "cut the leader from all": (0.5, 3.0),
        "cut the leader from its clients": (0.5, 3.0),
        "cut any from all": (0.5, 3.0),
        "leader deaf to its peers": (0.5, 3.0),
        "leader mute to its peers": (0.5, 3.0),
        "leader mute to its clients": (0.5, 3.0),
        "cut one pair": (0.5, 3.0),
        "halves": (0.5, 3.0),
        "bridge": (0.5, 3.0),
        "ring": (0.5, 3.0),
        "flapping": (1.0, 3.0),
        "loss": (1.0, 4.0),
    },
    "weather": {
        "weather between nodes": (1.0, 4.0),
        "weather everywhere": (1.0, 4.0),
    },
    "disk": {
        "slow disks": (1.0, 3.0),
        "the leader's disk hangs": (0.3, 3.0),
        "a disk hangs": (0.3, 3.0),
        "a disk fails": (0.3, 2.0),
        "the leader's disk is full": (1.0, 3.0),
    },
    "power": {
        "the leader loses power": (0.1, 2.0),
        "all lose power": (0.1, 0.5),
    },
    "rolling": {"rolling restart": (5.0, 8.0)},
    "members": {
        "add, promote, demote, remove": (5.0, 8.0),
        "replace the leader": (5.0, 8.0),
    },
    "restore": {},  # One after each RESTORE_S, or in the middle of a run.
    "clock": {},  # Rates are drawn at each start.
}


LONG_S = 5.0
RESTORE_S = 90.0


def kinds(groups, nodes):
    """{kind: (shortest, longest)} of what is drawn of these groups. In a ring
    of three each sees all."""
    all_kinds = {k: v for g in groups for k, v in FAULTS[g].items()}
    if nodes < 4:
        all_kinds.pop("ring", None)
    return all_kinds


def schedule(seed, seconds, groups, nodes):
    """(when, how long, kind, a number to choose the victim by). Each kind is
    drawn once before any is drawn again, what takes long first, so that a
    short run has most."""
    rng = random.Random(seed)
    lengths = kinds(groups, nodes)
    plan, deck, at = [], [], 1.5
    while lengths:
        if not deck:
            deck = sorted(lengths)
            rng.shuffle(deck)
            deck.sort(key=lambda kind: lengths[kind][0] >= LONG_S)
        kind = deck.pop()
        length = rng.uniform(*lengths[kind])
        if at + length > seconds:
            if at + 0.5 > seconds:
                break
            continue
        plan.append((at, length, kind, rng.randrange(1 << 30)))
        # One in two begins while the one before lasts, and so does what
        # follows a change that takes long.
        is_alone = rng.random() < 0.5 and length < LONG_S
        at += rng.uniform(0.2, 0.8) + (length if is_alone else 0)
    return with_restores(plan, seconds, groups)


def with_restores(plan, seconds, groups):
    """They are alone: a fault that would begin meanwhile begins afterwards."""
    if "restore" in groups:
        step = min(RESTORE_S, seconds / 2)
        count = int((seconds - 1) / step)
        plan += [((i + 1) * step, 0.0, "restore", 0) for i in range(count)]
    return sorted(plan)
