# SPDX-License-Identifier: MIT
"""Health and metrics."""

import contextlib
import re
import socket
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from cluster import Cluster, ReplyError, Session, wait_until
from test_storage_errors import log_writes, needs_strace


def get(node, path):
    """Status, content type and text."""
    url = "http://127.0.0.1:%d%s" % (node.http_port, path)
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return (
                reply.status,
                reply.headers["Content-Type"],
                reply.read().decode(),
            )
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def metrics(node):
    """{name with labels: value}; every line must be of Prometheus' format."""
    status, kind, text = get(node, "/metrics")
    assert status == 200 and kind.startswith("text/plain; version=0.0.4")
    values, typed = {}, set()
    for line in text.splitlines():
        if line.startswith("#"):
            kind, name = re.match(
                r"# (HELP|TYPE) ([a-z_]+) .+$", line
            ).groups()
            if kind == "TYPE":
                assert name not in typed
                typed.add(name)
            continue
        name, labels, value = re.match(
            r'([a-z_]+)(\{[a-z]+="[^"]*"(?:,(?:le|outcome)="[^"]*")?\})?'
            r' (-?[0-9.]+)$', line
        ).groups()
        assert name in typed or name.rsplit("_", 1)[0] in typed
        values[name + (labels or "")] = float(value)
    return values


def test_ready_says_whether_clients_are_served():
    with Cluster(3, start=False) as cluster:
        first = cluster.nodes[0]
        first.start()
        wait_until(lambda: "waiting to found" in first.log(), 10, "it waits")
        assert get(first, "/healthz")[0] == 200
        status, _, text = get(first, "/readyz")
        assert status == 503 and "waiting for members 2, 3" in text
        assert metrics(first)["hasp_ready"] == 0
        cluster.start()
        leader = cluster.leader()
        for node in cluster.nodes:
            wait_until(
                lambda: get(node, "/readyz")[0] == 200, 10, "it is ready"
            )
        assert "leader" in get(leader, "/readyz")[2]
        for node in cluster.followers(leader):
            node.kill()
        wait_until(
            lambda: get(leader, "/readyz")[0] == 503, 10, "it has no majority"
        )
        assert get(leader, "/healthz")[0] == 200
        assert get(leader, "/other")[0] == 404


def slow_writes(node):
    """Starts the node so that, from some time on, each write takes 5 s."""
    node.start(wrapper=log_writes("delay_enter=5000000:when=100+"))


@needs_strace
def test_half_heads_do_not_silence_the_probes():
    with Cluster(1) as cluster, contextlib.ExitStack() as stack:
        node = cluster.leader()
        for _ in range(100):
            half = stack.enter_context(
                socket.create_connection(("127.0.0.1", node.http_port), 5)
            )
            half.sendall(b"GET /healthz HTTP/1.1\r\nHost:")
        for path in ("/healthz", "/readyz", "/metrics"):
            assert get(node, path)[0] == 200
        # Nor those that send a byte now and then.
        by = time.monotonic() + 15
        gone = False
        while not gone and time.monotonic() < by:
            try:
                half.sendall(b"x")
                gone = half.recv(1, socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                time.sleep(0.3)
            except OSError:
                gone = True
        assert gone


def test_who_is_far_behind_is_not_ready():
    with Cluster(3, start=False) as cluster:
        node = cluster.nodes[0]
        slow_writes(node)
        cluster.start()
        cluster.leader()
        wait_until(lambda: get(node, "/readyz")[0] == 200, 10, "it is ready")
        seen = []

        def is_behind():
            try:
                with cluster.leader().connect(3) as client:
                    client.do("FENCE.ADMIT", "f", 1)
            except (OSError, ReplyError):
                pass  # If it leads, it hands over first.
            seen.append(get(node, "/readyz"))
            return seen[-1][2].startswith("behind: applied ")

        wait_until(is_behind, 40, "it lags behind")
        assert seen[-1][0] == 503
        assert metrics(node)["hasp_ready"] == 0


def test_metrics_tell_what_happens():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        with leader.connect() as client:
            Session(client, ttl=60000)
            before = metrics(leader)
            for i in range(10):
                client.do("LOCK.ACQUIRE", "m%d" % i)
            after = metrics(leader)
        assert after["hasp_sessions"] == 1 and after["hasp_locks"] == 10
        assert after["hasp_raft_is_serving"] == 1
        assert (
            after["hasp_requests_total"] == before["hasp_requests_total"] + 10
        )
        assert (
            after["hasp_raft_applied_index"]
            >= before["hasp_raft_applied_index"] + 10
        )
        assert after["hasp_log_write_seconds_count"] > 0
        assert after["hasp_log_write_seconds_sum"] > 0
        others = {n.id for n in cluster.followers(leader)}
        assert {k for k in after if k.startswith("hasp_member_up")} == {
            'hasp_member_up{member="%d"}' % i for i in others
        }


def test_the_clocks_of_the_others_are_measured():
    with Cluster(3) as cluster:
        leader = cluster.leader()

        def rates():
            found = metrics(leader)
            return {
                k: v
                for k, v in found.items()
                if k.startswith("hasp_clock_rate_ppm")
            }

        wait_until(lambda: len(rates()) == 2, 60, "both are measured")
        # One machine, one clock: what is left is how late messages were.
        assert all(abs(ppm) < 50000 for ppm in rates().values())


def check_metrics(text):
    """As 'promtool check metrics' does: what Prometheus parses, and its rules
    for names. Raises ValueError."""
    families = list(text_string_to_metric_families(text))
    names = [family.name for family in families]
    if not families or len(set(names)) != len(names):
        raise ValueError("families: %s" % names)
    if not text.endswith("\n"):
        raise ValueError("the last line has no end")
    series = set()
    for family in families:
        check_family(family, text)
        for sample in family.samples:
            one = (sample.name, tuple(sorted(sample.labels.items())))
            if one in series:
                raise ValueError("twice: %r" % (one,))
            series.add(one)


def check_family(family, text):
    """The parser takes '_total' off the name of a counter."""
    full = family.name + ("_total" if family.type == "counter" else "")
    wrong = []
    if family.type not in ("counter", "gauge", "histogram", "summary"):
        wrong.append("has no type")
    if not family.documentation:
        wrong.append("has no help")
    if not re.fullmatch("[a-z][a-z0-9_]*", full):
        wrong.append("is not written as names are")
    if "# TYPE %s %s\n" % (full, family.type) not in text:
        wrong.append("does not end as its type demands")
    if family.type != "counter" and re.search("_(total|count|sum)$", full):
        wrong.append("looks like a counter")
    if re.search("_(ms|us|ns|kb|mb|percent|minutes|hours)$", full):
        wrong.append("is not in a base unit")
    for sample in family.samples:
        if family.type == "counter" and not sample.value >= 0:
            wrong.append("is below 0")
    if wrong:
        raise ValueError("%s %s" % (full, ", ".join(wrong)))


def test_prometheus_likes_them():
    with Cluster(1) as cluster:
        text = get(cluster.leader(), "/metrics")[2]
    check_metrics(text)
    counter = text.index("# HELP hasp_grants_total")
    line = text[counter : text.index("\n", counter) + 1]
    for spoiled in (
        "",
        text.replace(line, ""),
        text.replace("# TYPE hasp_grants_total counter\n", ""),
        text.replace("hasp_grants_total", "hasp_grants"),
        text.replace("hasp_grants_total", "hasp_Grants_total"),
        text.replace("hasp_grants_total", "hasp_grants_ms"),
        text + "hasp_grants_total 1\n",
        text + "hasp_odd{a=b} 1\n",
        text + "hasp_odd one\n",
        text.rstrip("\n"),
    ):
        with pytest.raises(ValueError):
            check_metrics(spoiled)


def test_refusals_at_a_limit_are_counted():
    with Cluster(1, extra="[limits]\nlocks = 2\n") as cluster:
        node = cluster.leader()
        with node.connect() as client:
            Session(client, ttl=10000)
            before = metrics(node)['hasp_errors_total{word="LIMIT"}']
            assert client.do("LOCK.ACQUIRE", "a") and client.do("LOCK.ACQUIRE", "b")
            with pytest.raises(ReplyError) as refused:
                client.do("LOCK.ACQUIRE", "c")
            assert refused.value.code == "LIMIT"
            after = metrics(node)
            assert after['hasp_errors_total{word="LIMIT"}'] == before + 1
            assert after["hasp_grants_total"] == 2
