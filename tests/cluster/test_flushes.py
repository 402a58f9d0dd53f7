# SPDX-License-Identifier: MIT
"""A node writes to the disk before it answers: a machine that crashes at any
moment, with a disk that forgets all that was not flushed, has lost nothing.

A node runs under strace(1); shadow_disk.py replays its trace. If strace cannot
attach, these tests are skipped."""

import os
import re
import shutil
import struct

import pytest

from cluster import ROOT, Cluster, Session, wait_until
from shadow_disk import ShadowDisk, lines, strings, wrapper
from test_storage_errors import needs_strace

SMALL = (
    "snapshot_entries = 120\nwal_segment_size = 1M\nflush_ms = 20\n"
    "snapshot_log_size = 1M\nrequests_in_flight = 1000\n"
)
LOCKS = 500
VALUE = b"v" * 4000

# Early, around snapshots and the ends of segments, late.
COUNTS = [1, 2, 30, 100, 119, 121, 125, 180, 250, 300, 375, 401, 450]
COUNTS += [LOCKS, LOCKS + 1]


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    """A node of its own that has granted many locks, and was then killed; and
    in the folder the rest after a crash at a given number of answers."""
    folder = tmp_path_factory.mktemp("flushes")
    trace = str(folder / "trace")
    cluster = Cluster(1, SMALL, start=False)
    node = cluster.nodes[0]
    try:
        # The folder is made here, as mkdtemp makes the one above it: what is
        # below is the node's to flush.
        os.mkdir(node.dir)
        node.start(wrapper=wrapper(trace))
        cluster.leader(60)
        with node.connect(60) as client:
            Session(client, ttl=60000)
            tokens = []
            for i in range(LOCKS):
                if i == LOCKS // 2:
                    fill_log(client)
                tokens.append(
                    client.do("LOCK.ACQUIRE", "l%d" % i, "VALUE", VALUE)
                )
            wait_until(lambda: is_trimmed(node), 30, "the log is trimmed")
            tokens.append(client.do("LOCK.ACQUIRE", "last", "VALUE", VALUE))
            client.do("PING")  # The call that wrote that answer has returned.
        tracer = tracer_of(node.process.pid)
        node.kill()
        wait_until(
            lambda: not os.path.exists("/proc/%d" % tracer), 30, "all is traced"
        )
        disk = replay(node.dir, trace, folder, tokens)
        os.unlink(trace)
        yield cluster, node, folder, disk, tokens
    finally:
        cluster.close()


def fill_log(client):
    """More entries than a snapshot leaves in the log for followers."""
    for _ in range(60):
        for _ in range(500):
            client.send("FENCE.ADMIT", "f", 1)
        for _ in range(500):
            client.receive()


def is_trimmed(node):
    return not os.path.exists(
        os.path.join(node.dir, "wal", "segment-0000000000000001")
    )


def tracer_of(pid):
    with open("/proc/%d/status" % pid) as file:
        return int(re.search(r"TracerPid:\s+(\d+)", file.read()).group(1))


def replay(root, trace, folder, tokens):
    """Writes out what is left after each of COUNTS answers."""
    disk = ShadowDisk(root)
    left = list(COUNTS)
    for event in lines(trace):
        began, ended, call, arguments, result = event
        if left and call in ("write", "writev") and "TCP:[" in arguments:
            wanted = b":%d\r\n" % tokens[left[0] - 1]
            if wanted.hex() in arguments.replace("\\x", ""):
                disk.write_out(str(folder / ("after-%d" % left.pop(0))))
        disk.apply(event)
    assert not left, "an answer is not in the trace"
    return disk


def start_after_crash(traced, count):
    """From the rest after the crash, on a machine that has restarted."""
    _, node, folder, _, _ = traced
    shutil.rmtree(node.dir)
    shutil.copytree(folder / ("after-%d" % count), node.dir)
    trust = os.path.join(node.dir, "trust")
    if os.path.exists(trust):
        with open(trust) as file:
            text = file.read()
        with open(trust, "w") as file:
            file.write(re.sub(r"boot \S+", "boot of-an-earlier-day", text))
    node.start()
    wait_until(
        lambda: node.is_serving() or not node.is_running, 60, "it has started"
    )
    assert node.is_running, node.log()[-2000:]


@needs_strace
@pytest.mark.parametrize("count", COUNTS)
def test_a_crash_loses_nothing_that_was_answered(traced, count):
    _, node, _, _, tokens = traced
    start_after_crash(traced, count)
    try:
        with node.connect(30) as client:
            for i in range(count):
                name = "l%d" % i if i < LOCKS else "last"
                assert client.do("LOCK.CHECK", name, tokens[i]) == 1, name
    finally:
        node.kill()


@needs_strace
def test_what_the_trace_must_show(traced):
    """Otherwise the tests above would have seen nothing."""
    _, _, _, disk, _ = traced
    assert {"fsync", "openat", "unlinkat"} <= disk.seen
    assert disk.seen & {"io_submit", "pwritev2"}
    names = disk.folders[disk.root].names
    assert {"identity", "vote", "wal", "snapshot"} <= set(names)
    assert any(n.startswith("snapshot-") for n in names["snapshot"].names)
    # The log was trimmed: only the snapshot has those entries.
    assert "segment-0000000000000001" not in names["wal"].names


FRAME_RAFT = 2
KINDS = {1: "APPEND", 2: "APPEND_RESULT", 3: "VOTE", 4: "VOTE_RESULT"}


def durable_vote(disk):
    """(term, voted for) of the newest record that is flushed."""
    folder = disk.folders[disk.root]
    file = folder.flushed.get("vote")
    records = [(0, 0, 0)]
    for place in range(0, len(file.flushed) if file else 0, 4096):
        record = bytes(file.flushed[place : place + 36])
        if len(record) == 36 and record.startswith(b"haspvote"):
            records.append(struct.unpack("<QQQ", record[8:32]))
    return max(records)[1:]


def raft_messages(stream):
    """Takes whole frames off the stream; yields (kind, term, last flags)."""
    while len(stream) >= 8:
        size, kind = struct.unpack("<IB", stream[:5])
        if len(stream) < 8 + size:
            return
        body = bytes(stream[8 : 8 + size])
        del stream[: 8 + size]
        if kind == FRAME_RAFT and body[0] in KINDS:
            # A u32 follows the flags of a vote.
            flags = body[-5] if body[0] in (3, 4) else 0
            yield KINDS[body[0]], struct.unpack("<Q", body[2:10])[0], flags


def flag_of(kind):
    """The bit of raft/message.c."""
    with open(os.path.join(ROOT, "raft", "message.c")) as file:
        found = re.search(r"VOTE_%s\D+(\d+)u" % kind, file.read())
    return int(found.group(1))


@needs_strace
def test_terms_and_votes_are_on_the_disk_before_they_are_sent(tmp_path):
    with Cluster(3, start=False) as cluster:
        for node in cluster.nodes:
            os.mkdir(node.dir)
            node.start(wrapper=wrapper(str(tmp_path / str(node.id))))
        leader = cluster.leader(60)
        leader.kill()
        cluster.leader(60, besides=[leader])
        tracers = []
        for node in cluster.nodes:
            if node.is_running:
                tracers.append(tracer_of(node.process.pid))
                node.kill()
        wait_until(
            lambda: not any(os.path.exists("/proc/%d" % t) for t in tracers),
            30, "all is traced",
        )  # fmt: skip
        # Neither asks for a vote, nor does anybody adopt its term.
        promises_nothing = flag_of("PRE_VOTE") | flag_of("STANDING")
        granted = flag_of("GRANTED")
        seen = set()
        for node in cluster.nodes:
            disk, streams = ShadowDisk(node.dir), {}
            for event in lines(str(tmp_path / str(node.id))):
                call, arguments, result = event[2:]
                disk.apply(event)
                if call != "write" and call != "writev":
                    continue
                peer = re.match(r"\d+<TCP:\[[^]]*\]>", arguments)
                if peer is None or ":%d" % node.client_port in peer.group(0):
                    continue
                stream = streams.setdefault(peer.group(0), bytearray())
                stream += strings(arguments)[:result]
                for kind, term, flags in raft_messages(stream):
                    if flags & promises_nothing:
                        continue
                    seen.add(kind)
                    own_term, own_vote = durable_vote(disk)
                    assert own_term >= term, (node.id, kind, term)
                    if kind == "VOTE" or flags & granted:
                        assert own_vote != 0 or own_term > term, kind
        assert seen == set(KINDS.values())
