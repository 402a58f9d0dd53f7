# SPDX-License-Identifier: MIT
"""The door for Consul (docs/consul.md), by requests as its clients send them."""

import concurrent.futures
import contextlib
import json
import threading
import time

import pytest

from cluster import wait_until
from consul_cluster import (LOCK_FLAGS, NOBODY, acquire, call, consul_cluster,
                    open_session, release)
from test_users import Tool

SPARE_S = 60


@pytest.fixture(scope="module")
def cluster():
    with consul_cluster() as one:
        one.leader()
        yield one


@pytest.fixture
def key(request):
    return "%s/%d" % (request.node.name, time.monotonic_ns())


def get(node, key, more=""):
    return call(node, "GET", "/v1/kv/%s%s" % (key, more))


def test_a_key_is_held_by_one(cluster, key):
    one, two, three = cluster.nodes
    ours, other = open_session(one), open_session(two)
    assert get(one, key).status == 404
    assert acquire(one, key, ours, "me", more="&flags=7").body == b"true"
    assert acquire(two, key, other).body == b"false"
    # Repeated, at any node: the same hold.
    assert acquire(three, key, ours, "me", more="&flags=7").body == b"true"
    shown = get(three, key)
    held = shown.key()
    assert held["Session"] == ours and held["Value"] == b"me"
    assert held["Flags"] == 7 and held["Key"] == key
    assert held["LockIndex"] == held["ModifyIndex"] == shown.index > 0
    assert get(two, key, "?raw").body == b"me"
    assert release(three, key, other).body == b"false"
    assert release(three, key, ours).body == b"true"
    assert release(three, key, ours).body == b"false"
    gone = get(two, key)
    assert gone.status == 404 and gone.index > 0
    assert gone.headers["X-Consul-KnownLeader"] == "true"
    assert acquire(two, key, other).body == b"true"
    assert get(one, key).key()["LockIndex"] > held["LockIndex"]


def test_the_value_is_that_of_the_acquisition(cluster, key):
    node = cluster.nodes[0]
    session = open_session(node)
    assert acquire(node, key, session, "a").body == b"true"
    for value, more in (("b", ""), ("a", "&flags=1")):
        answer = acquire(node, key, session, value, more=more)
        assert answer.status == 400 and b"hasp keeps the value" in answer.body
    assert get(node, key).key()["Value"] == b"a"


def test_acquired_at_once_it_counts_once(cluster, key):
    ours, other = open_session(cluster.nodes[0]), open_session(cluster.nodes[0])
    for _ in range(10):
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            jobs = [pool.submit(acquire, cluster.nodes[i % 3], key, ours, "v")
                    for i in range(6)]
            assert {job.result().body for job in jobs} == {b"true"}
        assert release(cluster.nodes[1], key, ours).body == b"true"
        assert acquire(cluster.nodes[2], key, other).body == b"true"
        assert release(cluster.nodes[2], key, other).body == b"true"


def test_a_try_in_vain_is_not_logged(cluster, key):
    node = cluster.leader()
    ours, other = open_session(node), open_session(node)
    assert acquire(node, key, ours).body == b"true"
    before = node.status()["commit"]
    for _ in range(50):
        assert acquire(node, key, other).body == b"false"
        assert acquire(node, key, ours).body == b"true"
    # Clocks of leases are logged about once a second.
    assert node.status()["commit"] - before < 40


def test_a_get_waits_for_a_change(cluster, key):
    one, two, three = cluster.nodes
    session = open_session(one)
    absent = get(one, key)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        def waiting(at, index):
            started = time.monotonic()
            answer = get(at, key, "?index=%d&wait=30s" % index)
            return answer, time.monotonic() - started

        job = pool.submit(waiting, two, absent.index)
        time.sleep(0.3)
        assert not job.done()
        assert acquire(three, key, session).body == b"true"
        answer, _ = job.result(SPARE_S)
        assert answer.key()["Session"] == session and answer.index > absent.index

        # An older index is answered at once, at any node that has the event.
        assert waiting(three, absent.index)[0].key()["Session"] == session
        job = pool.submit(waiting, three, answer.index)
        time.sleep(0.3)
        assert not job.done()
        assert release(one, key, session).body == b"true"
        gone, _ = job.result(SPARE_S)
        assert gone.status == 404 and gone.index > answer.index
        # Changed and changed back since: answered.
        assert waiting(three, absent.index)[0].status == 404

        # Other keys do not wake it, nor does a longer one.
        wait_until(lambda: get(one, key).index > gone.index - 1, SPARE_S, "an index")
        index = get(one, key).index
        job = pool.submit(waiting, one, index)
        for _ in range(5):
            other = open_session(one)
            assert acquire(one, key + "x", other).body == b"true"
            assert release(one, key + "x", other).body == b"true"
        time.sleep(0.3)
        assert not job.done()
        assert acquire(one, key, session).body == b"true"
        assert job.result(SPARE_S)[0].status == 200


def test_a_get_waits_for_its_time(cluster, key):
    node = cluster.nodes[1]
    index = get(node, key).index
    for wait_s in (0.5, 2):
        started = time.monotonic()
        answer = get(node, key, "?index=%d&wait=%dms" % (index, wait_s * 1000))
        took_s = time.monotonic() - started
        assert answer.status == 404 and took_s > wait_s * 0.9, took_s
        assert took_s < wait_s + 5  # A slow machine.
    # An index that this cluster has not reached: the client hears that.
    started = time.monotonic()
    assert get(node, key, "?index=%d&wait=30s" % (1 << 52)).index < 1 << 52
    assert time.monotonic() - started < 20


def test_lists_are_prefixes(cluster, key):
    node = cluster.nodes[0]
    session = open_session(node)
    assert get(node, key + "/", "?keys").status == 404
    for i in range(3):
        assert acquire(node, "%s/%d" % (key, i), session, "v").body == b"true"
    names = ["%s/%d" % (key, i) for i in range(3)]
    assert get(node, key + "/", "?keys").json() == names
    shown = get(node, key + "/", "?recurse")
    assert [one["Key"] for one in shown.json()] == names
    assert {one["Session"] for one in shown.json()} == {session}
    assert set(names) <= set(get(node, "", "?keys").json())
    # A list waits for a moment only.
    started = time.monotonic()
    get(node, key + "/", "?keys&index=%d&wait=30s" % shown.index)
    assert 0.2 < time.monotonic() - started < 20


def test_sessions(cluster):
    one, two, _ = cluster.nodes
    session = open_session(one, Name="app", Node="n7", Behavior="delete",
                           LockDelay="1m", TTL="10.0s")
    (shown,) = call(two, "GET", "/v1/session/info/" + session).json()
    assert shown["ID"] == session and shown["Name"] == "app"
    assert shown["Node"] == "n7" and shown["Behavior"] == "delete"
    assert shown["TTL"] == "10.0s" and shown["LockDelay"] == 60 * 10**9
    assert call(two, "PUT", "/v1/session/renew/" + session).json() == [shown]
    assert shown in call(two, "GET", "/v1/session/list").json()
    assert call(two, "GET", "/v1/session/node/n7").json() == [shown]
    assert call(two, "GET", "/v1/session/node/n8").json() == []
    for _ in range(2):
        gone = call(two, "PUT", "/v1/session/destroy/" + session)
        assert (gone.status, gone.body) == (200, b"true")
    assert call(one, "GET", "/v1/session/info/" + session).json() == []
    for other in (session, "x", "1" * 36, session[:-1] + "0"):
        answer = call(one, "PUT", "/v1/session/renew/" + other)
        assert answer.status == 404 and b"not found" in answer.body
        assert call(one, "GET", "/v1/session/info/" + other).json() == []
        assert call(one, "PUT", "/v1/session/destroy/" + other).body == b"true"
        for answer in (acquire(one, "k", other), release(one, "k", other)):
            assert answer.status == 500 and answer.body.startswith(b"invalid session")


def test_bodies_are_read_as_go_reads_them(cluster):
    node = cluster.nodes[0]

    def create(body, headers=()):
        return call(node, "PUT", "/v1/session/create", body, headers)

    for body in ('{"ttl":"10s","lockdelay":"5s","behavior":"release","name":"x"}',
                 '{"TTL":"10s","LockDelay":5,"Checks":null,"Other":{"a":[1]}}',
                 '{"TTL":"10s","LockDelay":5000000000,"Checks":["serfHealth"]}',
                 '{"TTL":"0h0m10.000s","LockDelay":"5000ms","NodeChecks":[]}'):
        for kind in ({}, {"Content-Type": "text/plain"},
                     {"Content-Type": "application/x-www-form-urlencoded"}):
            session = create(body, kind).json()["ID"]
            (shown,) = call(node, "GET", "/v1/session/info/" + session).json()
            assert shown["LockDelay"] == 5 * 10**9, body
    for body, word in (('{"TTL":"10s","Checks":["web"]}', b"no health checks"),
                       ('{"TTL":"10s","LockDelay":"61s"}', b"LockDelay"),
                       ('{"TTL":"10s","Behavior":"keep"}', b"Behavior"),
                       ('{"TTL":"10s","Name":7}', b"Name"),
                       ('{"TTL":"10s","Name":"%s"}' % ("x" * 200), b"Name"),
                       ("[]", b"JSON object"), ("no json", b"JSON object")):
        answer = create(body)
        assert answer.status == 400 and word in answer.body, answer
    for ttl in ("9s", "11s", "1h"):  # ttl_max / 2 is 10 s here.
        answer = create({"TTL": ttl})
        assert answer.status == 500
        assert answer.body.startswith(b"Invalid Session TTL '"), answer
        assert b"must be between [10s=10s]" in answer.body
    for body in ("", "{}", '{"TTL":""}'):
        answer = create(body)
        assert answer.status == 500 and b"consul.no_ttl" in answer.body
        assert answer.body.startswith(b"Invalid Session TTL '0'"), answer
    answer = create({"TTL": "soon"})
    assert answer.status == 500
    assert answer.body.startswith(b"Session TTL 'soon' invalid")


def test_what_a_lock_service_has_not_is_refused(cluster, key):
    node = cluster.nodes[0]
    session = open_session(node)
    put = lambda query, body="v": call(node, "PUT", "/v1/kv/%s%s" % (key, query), body)
    for query in ("", "?cas=0", "?flags=1", "?acquire=%s&cas=1" % session,
                  "?acquire=%s&release=%s" % (session, session),
                  "?acquire=%s&flags=-1" % session, "?acquire=%s&ns=a" % session,
                  "?acquire=%s&peer=a" % session, "?acquire=%s&dc=%%4" % session):
        answer = put(query)
        assert answer.status == 400, (query, answer)
    assert put("?acquire=" + session, "x" * 4096).status == 400
    with contextlib.suppress(OSError):  # It is refused before all is sent.
        assert put("?acquire=" + session, "x" * 3000000).status == 400
    assert acquire(node, "x" * 505, session).status == 400
    assert call(node, "PUT", "/v1/kv/a%00b?acquire=" + session).status == 400
    assert call(node, "PUT", "/v1/kv/?acquire=" + session).status == 400
    for target in ("/v1/kv/%s?acquire=%s&dc=dc2" % (key, session),):
        answer = call(node, "PUT", target)
        assert (answer.status, answer.body) == (500, b"No path to datacenter")
    assert get(node, key, "?dc=dc1").status == 404
    assert get(node, key, "?index=x").status == 400
    assert get(node, key, "?wait=x").status == 400
    assert call(node, "DELETE", "/v1/kv/" + key).body == b"true"
    assert acquire(node, key, session).body == b"true"
    for query in ("", "?recurse", "?cas=1"):
        assert call(node, "DELETE", "/v1/kv/%s%s" % (key, query)).status == 400
    assert get(node, key).key()["Session"] == session
    for path in ("/v1/txn", "/v1/catalog/register", "/v1/event/fire/x", "/nothing"):
        assert call(node, "PUT", path, "{}").status == 404
    # 405 is an answer that python-consul takes for a success.
    assert call(node, "POST", "/v1/kv/" + key).status == 400
    assert call(node, "PUT", "/v1/session/list").status == 400


def test_no_refusal_looks_like_an_answer(cluster, key):
    """python-consul parses the body of each status but 400, 401, 403, 404, 5xx;
    a JSON document is a lock that it has."""
    node = cluster.nodes[0]
    session = open_session(node)
    target = "/v1/kv/%s?acquire=%s" % (key, session)
    for method, target, body, headers in (
            ("PUT", target, "x" * 300000, {}),
            ("PUT", target, "v", {"Host": "evil.example"}),
            ("PUT", target, "v", {"Origin": "http://evil.example"}),
            ("PUT", target, "v", {"Authorization": "Bearer no"}),
            ("PUT", target, "v", {"X-Consul-Token": "no"}),
            ("PUT", target + "&token=no", "v", {}),
            ("PUT", target + "&token=no", "v", {"X-Consul-Token": "yes"}),
            ("PUT", target, "v", {"Transfer-Encoding": "gzip"}),
            ("POST", target, "v", {}), ("PATCH", target, "v", {})):
        answer = call(node, method, target, body, headers)
        assert answer.status in (400, 403, 500), answer
        assert answer.headers["Content-Type"].startswith("text/plain")
        with pytest.raises(ValueError):
            json.loads(answer.body)
    assert get(node, key).status == 404


def test_the_agent(cluster):
    one = cluster.leader()
    for node in cluster.nodes:
        shown = call(node, "GET", "/v1/agent/self").json()
        assert shown["Config"]["NodeName"] == shown["Member"]["Name"] == "hasp"
        assert shown["Config"]["Datacenter"] == "dc1"
        assert shown["Config"]["SessionTTLMin"] == 10 * 10**9
        assert shown["Member"]["Addr"] == "127.0.0.1"
        leader = call(node, "GET", "/v1/status/leader")
        assert leader.json() == "127.0.0.1:%d" % one.client_port
        assert len(call(node, "GET", "/v1/status/peers").json()) == 3


def test_a_lock_delay_keeps_a_key_closed(cluster, key):
    """This includes a destroyed session: its holder may believe in the lock."""
    one, two, three = cluster.nodes
    zombie = open_session(one, LockDelay="3s")
    other = open_session(two)
    assert acquire(one, key, zombie, "z").body == b"true"
    shown = get(one, key)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        job = pool.submit(get, three, key, "?index=%d&wait=30s" % shown.index)
        time.sleep(0.2)
        started = time.monotonic()
        assert call(two, "PUT", "/v1/session/destroy/" + zombie).body == b"true"
        delayed = job.result(SPARE_S)
    # The zombie learns at once that it is not the holder.
    assert delayed.key()["Session"] == NOBODY and delayed.index > shown.index
    assert acquire(two, key, other).body == b"false"
    assert call(two, "DELETE", "/v1/kv/" + key).status == 400
    # A waiter sleeps until the key is really free.
    free = get(two, key, "?index=%d&wait=30s" % delayed.index)
    while free.status == 200:  # A node that lagged woke it early.
        assert free.key()["Session"] == NOBODY
        free = get(two, key, "?index=%d&wait=30s" % free.index)
    assert time.monotonic() - started > 2.5
    assert acquire(two, key, other).body == b"true"
    assert get(one, key).key()["LockIndex"] > shown.key()["LockIndex"]
    assert release(one, key, other).body == b"true"
    # Without a delay it is free at once.
    short = open_session(one)
    assert acquire(one, key, short).body == b"true"
    assert call(two, "PUT", "/v1/session/destroy/" + short).body == b"true"
    assert acquire(two, key, other).body == b"true"


def test_a_silent_holder_keeps_it_for_twice_its_ttl(cluster, key):
    one, two, _ = cluster.nodes
    silent = open_session(one, LockDelay="1s")
    assert acquire(one, key, silent).body == b"true"
    started = time.monotonic()
    other = open_session(two)
    while acquire(two, key, other).body != b"true":
        assert time.monotonic() - started < 2 * 10 + 1 + SPARE_S
        assert call(two, "PUT", "/v1/session/renew/" + other).status == 200
        time.sleep(0.1)
    assert time.monotonic() - started >= 2 * 10 + 1 - 0.1
    assert call(one, "PUT", "/v1/session/renew/" + silent).status == 404


def test_locks_of_other_clients_are_seen(cluster, key):
    node = cluster.leader()
    with node.connect() as client:
        client.do("SESSION.OPEN", "NAME", "native")
        client.do("LOCK.ACQUIRE", "consul/" + key, "VALUE", "v")
        shown = get(node, key).key()
        assert shown["Flags"] == LOCK_FLAGS and shown["Value"] == b"v"
        assert shown["Session"] not in ("", NOBODY)
        # Its session cannot be used here.
        for answer in (acquire(node, key, shown["Session"]),
                       release(node, key, shown["Session"])):
            assert answer.status == 500
        destroyed = call(node, "PUT", "/v1/session/destroy/" + shown["Session"])
        assert destroyed.status == 200
        assert get(node, key).key()["Session"] == shown["Session"]
        ours = open_session(node)
        assert acquire(node, key, ours).body == b"false"
        client.do("SESSION.CLOSE")
    wait_until(lambda: acquire(node, key, ours).body == b"true", SPARE_S, "the lock")


def test_many_waiters_wake_and_one_wins(cluster, key):
    node = cluster.nodes[0]
    holder = open_session(node)
    assert acquire(node, key, holder).body == b"true"
    index = get(node, key).index
    sessions = [open_session(node) for _ in range(40)]
    won = []
    lock = threading.Lock()

    def wait(session):
        assert get(node, key, "?index=%d&wait=50s" % index).status in (200, 404)
        if acquire(node, key, session).body == b"true":
            with lock:
                won.append(session)

    threads = [threading.Thread(target=wait, args=(one,)) for one in sessions]
    for thread in threads:
        thread.start()
    waits = lambda: call_metric(node, "hasp_consul_waits")
    wait_until(lambda: waits() == 40, SPARE_S, "the waiters")
    assert release(node, key, holder).body == b"true"
    for thread in threads:
        thread.join(SPARE_S)
    assert len(won) == 1
    wait_until(lambda: waits() == 0, SPARE_S, "no waiters")


def call_metric(node, name):
    import http.client
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=30)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return sum(float(line.split()[-1]) for line in text.splitlines()
               if line.startswith(name))


def test_answers_are_counted(cluster, key):
    node = cluster.nodes[2]
    ours, other = open_session(node), open_session(node)
    before = {kind: call_metric(node, 'hasp_http_door_requests_total{door="consul",'
                                'outcome="%s"}' % kind)
              for kind in ("done", "held", "refused")}
    acquire(node, key, ours)
    acquire(node, key, other)
    acquire(node, key, "x")
    for kind in before:
        assert call_metric(node, 'hasp_http_door_requests_total{door="consul",'
                           'outcome="%s"}' % kind) == before[kind] + 1


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A cluster with users, and the headers of each."""
    folder = tmp_path_factory.mktemp("consul")
    with consul_cluster(1, "[security]\ninsecure = yes\n") as one:
        one.leader()
        tool = Tool(one)
        tool.admin("role", "set", "app", "lock,read:consul/app/*")
        tool.admin("role", "set", "one", "lock,read:consul/app/one")
        one.secrets = tool.add_users(
            folder, {"ann": "app", "bob": "app", "eve": "one"})
        tool.admin("access", "required")
        yield one


def test_users_and_rights(guarded):
    node = guarded.nodes[0]
    ann, bob, eve = ({"X-Consul-Token": guarded.secrets[user]}
                     for user in ("ann", "bob", "eve"))
    ours = open_session(node, ann)
    for headers in ({}, {"X-Consul-Token": ""}):
        refused = call(node, "PUT", "/v1/session/create", {"TTL": "10s"}, headers)
        assert refused.status == 403
        assert acquire(node, "app/a", ours, headers=headers).status == 403
        assert call(node, "GET", "/v1/kv/app/a", None, headers).status == 403
    wrong = call(node, "GET", "/v1/kv/app/a", None, {"X-Consul-Token": "no"})
    assert (wrong.status, wrong.body) == (403, b"ACL not found")
    assert acquire(node, "app/a", ours, headers=ann).body == b"true"
    secret = guarded.secrets["ann"]
    for headers, query in (({"Authorization": "Bearer " + secret}, ""),
                           ({}, "&token=" + secret)):
        assert acquire(node, "app/a", ours, headers=headers, more=query).body == b"true"
    both = acquire(node, "app/a", ours, headers=ann, more="&token=other")
    assert both.status == 400
    # The UUID is public; it is worth nothing to another user.
    shown = call(node, "GET", "/v1/kv/app/a", None, bob).key()
    assert shown["Session"] == ours
    for answer in (acquire(node, "app/b", ours, headers=bob),
                   release(node, "app/a", ours, headers=bob)):
        assert answer.status == 500 and answer.body.startswith(b"invalid session")
    assert call(node, "PUT", "/v1/session/renew/" + ours, None, bob).status == 404
    assert call(node, "PUT", "/v1/session/destroy/" + ours, None, bob).status == 200
    assert call(node, "GET", "/v1/session/info/" + ours, None, bob).json() == []
    assert call(node, "GET", "/v1/session/list", None, bob).json() == []
    assert len(call(node, "GET", "/v1/session/list", None, ann).json()) == 1
    assert call(node, "GET", "/v1/kv/app/a", None, ann).key()["Session"] == ours
    # Names without a right: neither taken, nor read, nor waited for, nor listed.
    for name in ("b", "apps", ""):
        query = "?keys" if name == "" else ""
        assert call(node, "GET", "/v1/kv/%s%s" % (name, query), None, ann).status == 403
    assert acquire(node, "b", ours, headers=ann).status == 403
    assert call(node, "GET", "/v1/kv/b?index=1&wait=20s", None, ann).status == 403
    # A right to one name is enough to wait for it.
    index = call(node, "GET", "/v1/kv/app/one", None, eve).index
    answer = call(node, "GET", "/v1/kv/app/one?index=%d&wait=1s" % index, None, eve)
    assert answer.status == 404


def test_a_session_without_a_ttl_may_be_durable():
    with consul_cluster(1, "[consul]\nno_ttl = durable\ndatacenter = here\n") as one:
        node = one.leader() and one.nodes[0]
        session = call(node, "PUT", "/v1/session/create?dc=here").json()["ID"]
        assert acquire(node, "k", session).body == b"true"
        assert call(node, "PUT", "/v1/session/renew/" + session).json()[0]["TTL"] == ""
        node.kill()
        node.start()
        one.leader()
        assert get(node, "k").key()["Session"] == session
        assert get(node, "k", "?dc=dc1").status == 500
        assert call(node, "PUT", "/v1/session/destroy/" + session).body == b"true"
        assert get(node, "k").key()["Session"] == NOBODY  # The default delay.
