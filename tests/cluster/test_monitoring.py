# SPDX-License-Identifier: MIT
"""The metrics, and what is made of them: packaging/alerts.yml,
packaging/dashboard.json, docs/monitoring.md."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from cluster import ROOT, Cluster, ReplyError, Session, wait_until
from test_http import get, metrics

WORD = re.compile(r"\b(?:hasp|process)_[a-z_]+")
MATCHER = re.compile(r"\b(hasp_[a-z_]+){([^}]*)}")


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3, extra="[metrics]\nclass = a\n") as one:
        leader = one.leader()
        with leader.connect() as client:
            Session(client)
            client.do("SESSION.KEEP")
            client.do("LOCK.ACQUIRE", "a")
            client.do("LOCK.RELEASE", "a")
        one.metrics = get(leader, "/metrics")[2]
        yield one


def series(text):
    """{name: [{label: value}]} of a node's metrics, without slow ones such as
    the clocks' rates."""
    found = {name: [] for name in re.findall("^# TYPE (\\w+)", text, re.M)}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels = re.match(r"(\w+)(?:{(.*)})? ", line).groups()
            pairs = re.findall(r'(\w+)="([^"]*)"', labels or "")
            found.setdefault(name, []).append(dict(pairs))
    return found


def check_query(query, known):
    """Each metric of a query exists, and each label that it asks for."""
    for name in WORD.findall(query):
        if name not in known:
            raise ValueError("%s: there is no %s" % (query, name))
    for name, matchers in MATCHER.findall(query):
        for label, how, value in re.findall(r'(\w+)(=~|=)"([^"]*)"', matchers):
            if label in ("job", "cluster"):  # Added by the scrape.
                continue
            wanted = value.split("|") if how == "=~" else [value]
            told = {one.get(label) for one in known[name]}
            if not told.issuperset(wanted):
                raise ValueError("%s: %s is never %s" % (query, label, wanted))


def alerts():
    """[(name, query)]"""
    return re.findall(
        r"- alert: (\w+)\n +expr: (.+)", text_of("packaging", "alerts.yml")
    )


def test_every_alert_asks_for_what_is_told(cluster):
    known = series(cluster.metrics)
    assert len(alerts()) > 20
    for _, query in alerts():
        assert 'job="hasp"' in query
        check_query(query, known)
    for bad in (
        "hasp_nothing > 1",
        "rate(hasp_grants[5m])",
        'hasp_errors_total{job="hasp",word="LIMITS"}',
        'hasp_errors_total{word=~"LIMIT|BUSYY"}',
        'hasp_errors_total{words="LIMIT"}',
    ):
        with pytest.raises(ValueError):
            check_query(bad, known)


def test_every_panel_asks_for_what_is_told(cluster):
    known = series(cluster.metrics)
    dashboard = json.loads(text_of("packaging", "dashboard.json"))
    queries = [
        target["expr"]
        for panel in dashboard["panels"]
        for target in panel.get("targets", [])
    ]
    assert len(queries) > 25
    for query in queries:
        assert WORD.search(query)
        check_query(query, known)
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    places = [tuple(panel["gridPos"].values()) for panel in dashboard["panels"]]
    assert len(set(places)) == len(places)


def test_the_page_has_every_alert_and_every_metric_that_it_names(cluster):
    page = text_of("docs", "monitoring.md")
    rows = re.findall(r"^\| `(Hasp\w+)` \| (.+) \| (.+) \|$", page, re.M)
    assert [row[0] for row in rows] == [name for name, _ in alerts()]
    known = series(cluster.metrics)
    for name in set(WORD.findall(page)):
        assert name in known or name + "_bucket" in known, name


def anchor(heading):
    """As viewers of Markdown make it of a heading."""
    shown = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")


def test_every_alert_leads_to_its_runbook():
    urls = re.findall(r"- alert: (\w+)\n(?: {8,}(?!- ).*\n)*? +runbook_url: "
                      r'"(\S+)#(\S+)"', text_of("packaging", "alerts.yml"))
    assert [name for name, _, _ in urls] == [name for name, _ in alerts()]
    for name, page, place in urls:
        parts = re.split("^## (.+)$", text_of(*page.split("/")), flags=re.M)
        sections = dict(zip(map(anchor, parts[1::2]), parts[2::2]))
        assert place == name.lower() and place in sections, name
        rows = re.findall(r"^\| ([a-z ]+?)(?: \(\w+\))? \| (.+) \|$",
                          sections[place], re.M)
        assert [row[0] for row in rows] == ["means", "look", "do", "it helped"]
        assert all(len(row[1]) > 10 for row in rows), name
    # The page has no other alert, and its metrics are ones that there are.
    assert re.findall(r"^## (Hasp\w+)$", text_of("docs", "runbooks.md"),
                      re.M) == [name for name, _ in alerts()]


def test_the_runbooks_name_what_there_is(cluster):
    page = text_of("docs", "runbooks.md")
    known = series(cluster.metrics)
    for name in set(WORD.findall(page)):
        assert name in known, name
    subcommands = subprocess.run(
        [os.environ.get("HASP", os.path.join(ROOT, "build/release/hasp")),
         "help", "--man"], capture_output=True, text=True, check=True,
        timeout=20).stdout.replace("\\-", "-")
    for words in set(re.findall("`hasp ([a-z]+(?: [a-z]+)?)", page)):
        assert re.search(r"\b%s\b" % words.split()[0], subcommands), words
    settings = text_of("docs", "operations.md")
    for word in set(re.findall(r"`((?:limits|raft|node|audit|security)\.\w+)`",
                               page)):
        assert "| `%s` |" % word in settings, word


def test_what_the_page_says_to_do_can_be_done(cluster):
    """Each setting that it names is one; each page of a node answers."""
    page = re.sub("(?s)```.*?```", "", text_of("docs", "monitoring.md"))
    settings = text_of("docs", "operations.md")
    named = {word for word in re.findall("`([^`]+)`", page) if "." in word}
    pages = {word for word in named if "NODE" in word}
    files = {word for word in named - pages if re.search(r"(ya?ml|json)$", word)}
    words = {w for w in named - pages - files if re.match(r"[a-z_]+\.[a-z_]+$", w)}
    assert {"raft.election_ms", "limits.disk_reserve", "audit.file"} <= words
    for word in words:
        assert "| `%s` |" % word in settings, word
    for word in pages:
        path = re.search(r"NODE:7422(/\w+)", word).group(1)
        assert get(cluster.leader(), path)[0] == 200
    unit = text_of("packaging", "haspd.service")
    assert "LimitNOFILE=" in unit


def test_every_alert_looks_at_one_cluster_by_itself():
    """Each is tried with two clusters; a join of series joins those of one."""
    tests = text_of("packaging", "alerts_test.yml")
    tried = set()
    for part in tests.split("  - interval: ")[1:]:
        if 'cluster="one"' in part and "cluster: two" in part:
            tried.update(re.findall(r"alertname: (\w+)", part))
    for name, query in alerts():
        assert name in tried, name
        for labels in re.findall(r"\b(?:by|on) ?\(([^)]*)\)", query):
            assert "cluster" in labels.split(", "), query
        assert not re.search(r"\b(?:sum|max|min|avg|count)\(", query), query


def test_promtool_agrees():
    """tools/deps.sh takes it out of Debian's package of Prometheus."""
    taken = os.path.join(ROOT, "build", "promtool")
    promtool = os.environ.get("PROMTOOL") or shutil.which("promtool") or taken
    assert os.path.exists(promtool), "there is no promtool: make deps-test"
    for verb, name in (("check", "alerts.yml"), ("test", "alerts_test.yml")):
        folder = os.path.join(ROOT, "packaging")
        words = [promtool, verb, "rules", name]
        subprocess.run(words, cwd=folder, check=True, timeout=60)


# The numbers.


def bucket(found, name, le, label=""):
    return found['%s_bucket{%sle="%s"}' % (name, label, le)]


def check_stage(found, stage):
    name, label = "hasp_stage_seconds", 'stage="%s",' % stage
    total = found['%s_count{stage="%s"}' % (name, stage)]
    assert bucket(found, name, "+Inf", label) == total > 4
    longest = found['%s_max{stage="%s"}' % (name, stage)]
    assert 0 < longest < 60
    # Times below a microsecond do not add up.
    assert found['%s_sum{stage="%s"}' % (name, stage)] > longest - 1e-6


def test_waits_and_holds_are_timed():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        with leader.connect() as one, leader.connect() as two:
            Session(one, ttl=60000)
            Session(two, ttl=60000)
            one.do("LOCK.ACQUIRE", "a")
            two.send("LOCK.ACQUIRE", "a", "WAIT", 30000)
            wait_until(lambda: metrics(leader)["hasp_waits"] == 1, 5, "it waits")
            time.sleep(1.2)
            found = metrics(leader)
            assert 1.1 < found["hasp_oldest_wait_seconds"] < 10
            assert (found["hasp_holds"], found["hasp_locks"]) == (1, 1)
            one.do("LOCK.RELEASE", "a")
            two.receive()

            # Each node reports it, once it has applied it.
            def told(node):
                found = metrics(node)
                return found["hasp_wait_seconds_count"] == 1 == found[
                    "hasp_hold_seconds_count"
                ]

            for node in cluster.nodes:
                wait_until(lambda node=node: told(node), 5, "it is reported")
                found = metrics(node)
                for name in ("hasp_wait_seconds", "hasp_hold_seconds"):
                    assert bucket(found, name, "0.5") == 0
                    assert bucket(found, name, "10") == 1
                    assert bucket(found, name, "+Inf") == 1
                    assert 1 < found[name + "_sum"] < 10
                assert found["hasp_waits"] == found["hasp_oldest_wait_seconds"] == 0
            assert metrics(leader)["hasp_commit_seconds_count"] > 4
            # The leader can be slower than a majority, and write several
            # batches at once.
            for name in ("hasp_log_write_seconds", "hasp_turn_seconds"):
                found = metrics(leader)
                assert bucket(found, name, "+Inf") == found[name + "_count"] > 1
                assert 0 < found[name + "_sum"] < 60
            for stage in ("receive", "propose", "apply", "send", "reply"):
                check_stage(metrics(leader), stage)
            assert 4 < metrics(leader)["hasp_replicate_seconds_count"]
            follower = cluster.followers(leader)[0]
            check_stage(metrics(follower), "apply")
            assert metrics(follower)["hasp_replicate_seconds_count"] == 0
            assert metrics(follower)["hasp_commit_seconds_count"] == 0
            acquires = 'hasp_request_seconds_count{command="LOCK.ACQUIRE"}'
            assert metrics(leader)[acquires] == 2
            assert acquires not in metrics(follower)
        # A start is not the time when all that happened.
        follower.stop()
        follower.start()
        cluster.retry(lambda client: client.do("FENCE.SHOW", "f"), nodes=[follower])
        assert metrics(follower)["hasp_hold_seconds_count"] == 0


def test_errors_are_counted_by_their_word_where_they_are_told():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        follower = cluster.followers(leader)[0]
        before = [metrics(node) for node in (leader, follower)]
        with follower.connect() as client:
            Session(client)
            for word, *command in (
                ("NOTHELD", "LOCK.RELEASE", "a"),
                ("NOTHELD", "LOCK.RELEASE", "b"),
                ("BADARG", "LOCK.ACQUIRE"),
                ("NOSESSION", "SESSION.SHOW", 7),
                ("ERR", "LOCK.GRAB"),
                ("ERR", "EVAL", "return string.rep(1)", 1, "a", "b"),
            ):
                with pytest.raises(ReplyError) as refused:
                    client.do(*command)
                assert refused.value.code == word
        after = [metrics(node) for node in (leader, follower)]

        def more(i, word):
            name = 'hasp_errors_total{word="%s"}' % word
            return after[i][name] - before[i][name]

        assert more(1, "NOTHELD") == more(1, "ERR") == 2
        assert more(1, "BADARG") == more(1, "NOSESSION") == 1
        assert all(more(0, word) == 0 for word in ("NOTHELD", "BADARG", "ERR"))
        assert after[1]["hasp_unknown_scripts_total"] == 1


def share(client, first, last):
    """The session shares a lock as owners of these numbers."""
    for at in range(first, last, 500):
        owners = range(at, min(at + 500, last))
        for owner in owners:
            client.send("LOCK.ACQUIRE", "hot", "OWNER", owner, "SHARED")
        for _ in owners:
            client.receive()


def test_a_search_for_deadlocks_that_is_given_up_is_told():
    """A request that waits for 10,100 readers, and is waited for: the search
    asks 10,000 of them whether they wait for it, and the wait is accepted."""
    name = "hasp_deadlock_searches_given_up_total"
    with Cluster(1) as cluster:
        node = cluster.leader()
        with node.connect() as readers, node.connect() as writer, (
            node.connect()
        ) as other:
            for client in (readers, writer, other):
                Session(client, ttl=60000)
            writer.do("LOCK.ACQUIRE", "mine")
            other.send("LOCK.ACQUIRE", "mine", "WAIT", 60000)
            share(readers, 0, 9000)
            assert writer.do("LOCK.ACQUIRE", "hot", "WAIT", 100) is None
            assert metrics(node)[name] == 0
            share(readers, 9000, 10100)
            writer.send("LOCK.ACQUIRE", "hot", "WAIT", 60000)
            wait_until(lambda: metrics(node)[name] == 1, 10, "it is counted")
            readers.do("SESSION.CLOSE")
            assert writer.receive() > 0
        (line,) = [
            line
            for line in node.log().splitlines()
            if "deadlock search given up" in line
        ]
        assert 'lock="hot"' in line and "steps=10000" in line


def test_leaders_and_members_are_told():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        cluster.converged()  # All have heard of the first leader.
        with leader.connect() as client:
            client.do("RAFT.TRANSFER")
            client.do("RAFT.SNAPSHOT")
        wait_until(
            lambda: metrics(leader)["hasp_raft_is_leader"] == 0, 10, "it has moved"
        )
        heir = cluster.leader()
        assert heir is not leader
        assert metrics(leader)["hasp_transfers_total"] == 1
        assert metrics(leader)["hasp_transfers_failed_total"] == 0
        assert sum(metrics(n)["hasp_elections_won_total"] for n in cluster.nodes) >= 2
        cluster.converged()
        assert all(metrics(n)["hasp_leader_changes_total"] >= 2 for n in cluster.nodes)
        found = metrics(heir)
        for other in cluster.followers(heir):
            label = '{member="%d"}' % other.id
            assert found["hasp_member_match_index" + label] > 0
            assert 0 <= found["hasp_member_last_contact_seconds" + label] < 5
        taken = [metrics(n)["hasp_snapshots_total"] for n in cluster.nodes]
        assert max(taken) >= 1
        failed = [metrics(n)["hasp_snapshots_failed_total"] for n in cluster.nodes]
        assert failed == [0, 0, 0]


def test_the_process_is_told(cluster):
    node = cluster.leader()
    found = metrics(node)
    with open("/proc/%d/stat" % node.process.pid, encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    assert abs(found["process_start_time_seconds"] - time.time()) < 600
    assert found["process_virtual_memory_bytes"] >= 0.5 * int(fields[20])
    assert 1 << 20 < found["process_resident_memory_bytes"]
    files = len(os.listdir("/proc/%d/fd" % node.process.pid))
    assert abs(found["process_open_fds"] - files) <= 5
    assert found["process_max_fds"] > found["process_open_fds"]
    assert 0 < found["process_cpu_seconds_total"] < 600


def test_what_holds_up_the_loop_is_looked_for():
    build = os.environ.get("HASP_BUILD", os.path.join(ROOT, "build", "release"))
    tool = [sys.executable, os.path.join(ROOT, "tools", "stalls.py"), build]
    works = ["connections", "fill", "list"]
    done = subprocess.run(
        tool + ["--locks", "1600", "--only", ",".join(works)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    )
    lines = done.stdout.splitlines()
    # Three nodes report each piece of work, one of them as the leader.
    assert [line.split()[0] for line in lines[:-1]] == [w for w in works for _ in "123"]
    assert sum("leader" in line for line in lines) == len(works)
    assert re.match(r"longest: \w+, within [0-9.]+ ms; stages over 20 ms: \d+$",
                    lines[-1])
    # A leader that has taken 1,600 locks and said so was somewhere meanwhile.
    assert not any("longest: none" in line for line in lines if "leader" in line)
