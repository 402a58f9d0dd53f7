# SPDX-License-Identifier: MIT
"""The wire itself, and the first requests of Redis clients."""

import contextlib
import os
import re
import time

import pytest

from cluster import ROOT, Cluster, ReplyError
from wire import (
    NULL,
    NULL_BULK,
    OK,
    Map,
    Wire,
    connect,
    encode,
    eventually,
    name,
    opened,
    opens,
    plain,
    random_text,
    world,
)

# HELLO, AUTH, CLIENT.


@pytest.mark.parametrize("version", [2, 3])
def test_hello_is_truthful(connect, world, version):
    wire = connect()
    reply = wire.do("HELLO", version)
    assert isinstance(reply, Map) == (version == 3)
    told = plain(reply)
    assert list(told) == ("server version proto id mode role modules "
                          "cluster former").split()
    assert told["server"] == b"hasp"
    assert told["proto"] == version
    assert told["id"] == wire.do("CLIENT", "ID")
    assert told["mode"] == b"standalone"
    assert told["role"] == b"master"  # It takes writes, and passes them on.
    assert told["modules"] == []
    status = plain(wire.do("RAFT.STATUS"))
    assert told["cluster"] == status["cluster"] and len(told["cluster"]) == 32
    assert told["former"] == []


def test_hello_without_a_version_keeps_it(connect):
    wire = connect()
    assert plain(wire.do("HELLO"))["proto"] == 2
    wire.do("hello", "3", "SETNAME", "me")
    assert plain(wire.do("HELLO"))["proto"] == 3
    assert wire.do("CLIENT", "GETNAME") == b"me"
    assert isinstance(wire.do("HELLO", 2), list)
    assert wire.do("GET", "nobody") is NULL_BULK


@pytest.mark.parametrize("version", [0, 1, 4, -3, "x"])
def test_other_versions_are_noproto(connect, version):
    wire = connect(3)
    assert wire.error("HELLO", version)[0] == "NOPROTO"
    assert wire.do("GET", "nobody") is NULL


def test_hello_with_what_is_malformed_changes_nothing(connect):
    wire = connect()
    assert wire.error("HELLO", 3, "AUTH", "default")[0] == "ERR"
    assert wire.error("HELLO", 3, "AUTH", "somebody", "x")[0] == "WRONGPASS"
    assert wire.error("HELLO", 3, "nonsense")[0] == "ERR"
    assert wire.do("GET", "nobody") is NULL_BULK
    assert plain(wire.do("HELLO", 3, "AUTH", "default", "any"))["proto"] == 3


def test_auth_as_redis_without_a_password(connect):
    wire = connect()
    assert wire.error("AUTH", "secret")[0] == "ERR"
    assert wire.do("AUTH", "default", "secret") == OK
    assert wire.error("AUTH", "somebody", "secret")[0] == "WRONGPASS"


def test_client_tells_and_takes_names(connect):
    wire = connect()
    assert not wire.do("CLIENT", "GETNAME")
    assert wire.do("CLIENT", "SETNAME", "worker-7") == OK
    assert wire.do("client", "getname") == b"worker-7"
    assert wire.error("CLIENT", "SETNAME", "a b")[0] == "ERR"
    id = wire.do("CLIENT", "ID")
    assert isinstance(id, int)
    assert b"id=%d " % id in wire.do("CLIENT", "INFO")
    assert b"name=worker-7" in wire.do("CLIENT", "LIST")
    for words in ("SETINFO LIB-NAME x", "SETINFO LIB-VER 1", "NO-EVICT on"):
        assert wire.do("CLIENT", *words.split()) == OK
    assert wire.error("CLIENT", "nonsense")[0] == "ERR"


def test_config_get_answers_what_benchmarks_ask(connect):
    assert connect().do("CONFIG", "GET", "save") == [b"save", b""]
    assert connect(3).do("CONFIG", "GET", "nothing-such") == []
    assert connect().do("config", "get", "appendonly") == [b"appendonly", b"yes"]
    assert connect().error("CONFIG", "SET", "save", "")[0] == "ERR"


def test_the_small_ones(connect):
    wire = connect()
    assert wire.do("PING") == "PONG"
    assert wire.do("ping", "hi") == b"hi"
    assert wire.do("ECHO", b"\x00\r\n") == b"\x00\r\n"
    assert wire.do("SELECT", 0) == OK
    assert wire.error("SELECT", 1)[0] == "ERR"
    assert wire.do("READONLY") == OK
    assert wire.error("PING", "a", "b")[0] == "ERR"


def test_what_is_pipelined_has_its_effect_in_that_order(connect, name):
    wire = connect()
    opens(wire)
    commands = [
        ["LOCK.ACQUIRE", name],
        ["LOCK.SHOW", name],
        ["LOCK.RELEASE", name],
        ["LOCK.SHOW", name],
        ["SET", name, "v", "NX", "PX", 5000],
        ["GET", name],
        ["LOCK.LIST", "PREFIX", name],
        ["FENCE.SHOW", name],
        ["FENCE.ADMIT", name, 7],
        ["FENCE.SHOW", name],
        ["SESSION.CLOSE"],
        ["PING"],
    ]
    wire.raw(b"".join(encode(one) for one in commands))
    token, shown, left, free, got, value, listed, *rest = [
        wire.receive() for _ in commands
    ]
    assert plain(plain(shown)["holders"][0])["token"] == token
    assert left == 0 and plain(free)["holders"] == []
    assert got == OK and value == b"v" and len(listed[1]) == 1
    assert rest == [0, 1, 7, 0, "PONG"]


def test_client_info_has_the_numbers_that_clients_read(connect):
    wire = connect()
    wire.do("CLIENT", "SETNAME", "x")
    for line in (wire.do("CLIENT", "INFO"), wire.do("CLIENT", "LIST")):
        pairs = dict(one.split("=", 1) for one in line.decode().split())
        assert pairs["flags"] and pairs["cmd"]
        for word in """id age idle db sub psub multi qbuf qbuf-free argv-mem obl
            oll omem tot-mem resp""".split():
            int(pairs[word])


def test_info_has_what_clients_read(connect, world):
    wire = connect()
    text = wire.do("INFO").decode()
    for line in ("loading:0", "redis_version:7.", "redis_mode:standalone"):
        assert line in text
    assert "term:" in text and "leader:" in text
    leads = wire.socket.getpeername()[1] == world.leader.client_port
    assert "\r\nrole:master\r\n" in text
    assert "raft_role:" + ("leader" if leads else "follower") in text
    assert "loading:0" in wire.do("INFO", "persistence").decode()
    assert "loading" not in wire.do("INFO", "replication").decode()


def test_command_describes_every_command(connect):
    wire = connect()
    count = wire.do("COMMAND", "COUNT")
    every = wire.do("COMMAND")
    assert len(every) == count == len(wire.do("COMMAND", "LIST"))
    acquire = wire.do("COMMAND", "INFO", "lock.acquire", "nonsense")
    assert acquire[0][0] == b"lock.acquire"
    assert acquire[0][1] == -2
    assert "write" in acquire[0][2]
    assert acquire[0][3:6] == [1, 1, 1]
    assert not acquire[1]
    docs = plain(wire.do("COMMAND", "DOCS", "lock.acquire"))["lock.acquire"]
    assert plain(docs)["summary"] and plain(docs)["arguments"]
    assert len(wire.do("COMMAND", "DOCS")) == 2 * count


NAMES = """SESSION.OPEN SESSION.ATTACH SESSION.DETACH SESSION.KEEP SESSION.CLOSE
SESSION.SHOW SESSION.LIST
LOCK.ACQUIRE LOCK.RELEASE LOCK.RELEASEIF LOCK.CONVERT LOCK.MACQUIRE
LOCK.MRELEASE LOCK.CANCEL LOCK.SHOW LOCK.LIST LOCK.CHECK LOCK.PLEASE LOCK.WATCH
LOCK.WHY LOCK.TOP LOCK.GRAPH LOCK.HISTORY
LOCK.BREAK LOCK.OBJECT
LOCK.UNWATCH FENCE.ADMIT FENCE.SHOW FENCE.LIST
FENCE.REMOVE BLACKLIST.ADD BLACKLIST.REMOVE BLACKLIST.LIST
LIMITS.SET LIMITS.LIST
CELLS.SHOW CELLS.JOIN CELLS.GIVE CELLS.TAKE CELLS.POINT CELLS.VOUCH CELLS.CONFIRM
RAFT.STATUS RAFT.ADD RAFT.PROMOTE RAFT.DEMOTE RAFT.REMOVE RAFT.TRANSFER
RAFT.FINALIZE RAFT.SNAPSHOT RAFT.BACKUP NODE.SETTINGS NODE.SET NODE.DRAIN
NODE.SLOW
USER.SET USER.REMOVE USER.SHOW USER.LIST USER.CAN SECRET.ADD SECRET.REMOVE
ROLE.SET ROLE.REMOVE ROLE.SHOW ROLE.LIST ACCESS.SET CERT.REVOKE CERT.REVOKED WHOAMI
AUDIT.DENIED AUDIT.LIST AUDIT.LOGIN
HELLO AUTH
PING ECHO QUIT RESET SELECT INFO
COMMAND
CLIENT CONFIG
READONLY SUBSCRIBE UNSUBSCRIBE PSUBSCRIBE PUNSUBSCRIBE CLUSTER SET GET EXISTS PTTL
PEXPIRE PERSIST EVALSHA EVAL SCRIPT DEL WATCH UNWATCH MULTI DISCARD EXEC HGET
HEXISTS""".split()


def test_every_command_of_the_page_is_there(connect):
    known = {one.decode().upper() for one in connect().do("COMMAND", "LIST")}
    assert set(NAMES) <= known


def test_every_command_has_an_example_that_is_run(connect):
    with open(os.path.join(ROOT, "docs", "protocol.md")) as file:
        blocks = re.findall(r"^```console\n(.*?)^```", file.read(), re.M | re.S)
    asked = "\n".join(
        line
        for block in blocks
        for line in block.splitlines()
        if line.startswith(("$ ", "  "))
    )
    for one in connect().do("COMMAND", "LIST"):
        word = re.escape(one.decode())
        assert re.search(r"(?<![\w.])%s\b" % word, asked, re.I), word


@pytest.mark.parametrize(
    "word", ["x", "lock.grab", "FLUSHALL", "LOCK.ACQUIREX", "XADD"]
)
def test_an_unknown_command_says_so(connect, word):
    wire = connect()
    wire.send(word, "a")
    assert wire.file.readline() == b"-ERR unknown command '%s'\r\n" % word.encode()
    assert wire.do("PING") == "PONG"


@pytest.mark.parametrize(
    "word, why",
    [
        ("FCALL", "no functions"),
        ("function", "EVAL"),
        ("HINCRBY", "only in scripts"),
        ("zadd", "only in scripts"),
    ],
)
def test_what_lock_clients_may_expect_is_refused_with_a_reason(connect, word, why):
    code, text = connect().error(word, "a")
    assert code == "ERR" and why in text
    assert text.startswith("unknown command '%s': " % word)


def test_quit_answers_and_closes(connect):
    wire = connect()
    wire.raw(encode(["PING"]) + encode(["QUIT"]) + encode(["PING"]))
    assert [wire.receive(), wire.receive()] == ["PONG", "OK"]
    assert wire.is_closed()


def test_reset_forgets_everything(connect, name):
    wire = connect(3)
    opens(wire)
    wire.do("CLIENT", "SETNAME", "x")
    wire.do("LOCK.WATCH", name)
    assert wire.do("RESET") == "RESET"
    assert wire.error("LOCK.ACQUIRE", name)[0] == "NOSESSION"
    assert not wire.do("CLIENT", "GETNAME")
    assert wire.do("GET", "nobody") is NULL_BULK


# CLUSTER.


def test_cluster_is_one_shard_with_the_leader_first(connect, world):
    wire = connect()
    slots = wire.do("CLUSTER", "SLOTS")
    assert len(slots) == 1 and slots[0][:2] == [0, 16383]
    nodes = slots[0][2:]
    assert nodes[0][:2] == [b"127.0.0.1", world.leader.client_port]
    assert {n[1] for n in nodes} == {n.client_port for n in world.cluster.nodes}
    assert all(len(n[2]) == 40 for n in nodes)
    shards = [plain(one) for one in wire.do("CLUSTER", "SHARDS")]
    assert len(shards) == 1 and shards[0]["slots"] == [0, 16383]
    roles = {plain(n)["id"]: plain(n)["role"] for n in shards[0]["nodes"]}
    assert roles[nodes[0][2]] == b"master"
    assert sorted(roles.values()) == [b"master", b"replica", b"replica"]
    assert b"cluster_state:ok" in wire.do("CLUSTER", "INFO")
    me = wire.do("CLUSTER", "MYID")
    lines = wire.do("CLUSTER", "NODES").decode().splitlines()
    assert len(lines) == 3
    mine = next(line for line in lines if line.startswith(me.decode()))
    assert "myself" in mine
    assert wire.do("CLUSTER", "KEYSLOT", "foo") == 12182
    assert wire.do("CLUSTER", "KEYSLOT", "{foo}x") == 12182
    assert wire.error("CLUSTER", "nonsense")[0] == "ERR"


def test_with_redirect_moved_a_follower_says_where():
    with Cluster(3, extra="[client]\nredirect = moved\n") as cluster:
        leader = cluster.leader()
        cluster.converged()
        follower = cluster.followers(leader)[0]
        with contextlib.closing(Wire(follower.client_port)) as wire:
            code, text = wire.error("LOCK.SHOW", "foo")
            assert (code, text) == ("MOVED", "12182 127.0.0.1:%d" % leader.client_port)
            assert wire.error("SESSION.OPEN")[0] == "MOVED"
            told = plain(wire.do("HELLO"))
            assert (told["mode"], told["role"]) == (b"cluster", b"replica")
            # A command that the asked node answers itself is not moved.
            assert wire.map("RAFT.STATUS")["role"] == b"follower"
            assert wire.do("PING") == "PONG"
        with contextlib.closing(Wire(leader.client_port)) as wire:
            assert wire.map("LOCK.SHOW", "foo")["holders"] == []


# The wire.


def test_pipelined_commands_are_answered_in_order(connect, name):
    wire = connect()
    opens(wire)
    parts, count = [], 50
    for i in range(count):
        parts.append(encode(["LOCK.ACQUIRE", name]))
        parts.append(encode(["ECHO", i]))
        parts.append(encode(["LOCK.RELEASE", name]))
        parts.append(encode(["nonsense", i]))
        parts.append(encode(["LOCK.CHECK", name, 1]))
    wire.raw(b"".join(parts))
    last = 0
    for i in range(count):
        token = wire.receive()
        assert token > last
        last = token
        assert wire.receive() == b"%d" % i
        assert wire.receive() == 0
        with pytest.raises(ReplyError, match="unknown command 'nonsense'"):
            wire.receive()
        assert wire.receive() == 0


def test_a_command_may_come_byte_by_byte(connect, name):
    wire = connect()
    for byte in encode(["LOCK.CHECK", name, 1]):
        wire.raw(bytes([byte]))
    assert wire.receive() == 0


def test_inline_commands(connect, name):
    wire = connect()
    wire.raw(b"PING\r\nping\n  ECHO   'a b'  \r\n\r\nECHO \"\\x00\\n\"\r\n")
    assert [wire.receive() for _ in range(4)] == ["PONG", "PONG", b"a b", b"\x00\n"]
    wire.raw(b"SESSION.OPEN TTL 1000\r\n")
    assert plain(wire.receive())["ttl_ms"] == 1000
    wire.raw(b"lock.acquire %s WAIT 0\r\n" % name.encode())
    assert wire.receive() > 0
    wire.raw(b"ECHO 'unbalanced\r\n")
    with pytest.raises(ReplyError):
        wire.receive()
    assert wire.is_closed()


def test_an_empty_array_is_nothing(connect):
    wire = connect()
    wire.raw(b"*0\r\n*-1\r\n" + encode(["PING"]))
    assert wire.receive() == "PONG"


@pytest.mark.parametrize(
    "data",
    [
        b"*1\r\n$-1\r\n",
        b"*x\r\n",
        b"*1\r\n:5\r\n",
        b"*1\r\n$4\r\nPINGxx",
        b"*1025\r\n",
        b"*2147483647\r\n",
        b"*99999999999999999999\r\n",
        b"*2\r\n$4\r\nECHO\r\n$65537\r\n",
        b"*2\r\n$4\r\nECHO\r\n$2147483647\r\n",
        b"ECHO " + b"x" * 5000,
        b"POST / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
    ],
)
def test_hostile_bytes_get_an_error_and_the_door(connect, data):
    wire = connect()
    wire.raw(encode(["PING"]) + data)
    assert wire.receive() == "PONG"
    with pytest.raises(ReplyError, match="^ERR "):
        wire.receive()
    assert wire.is_closed()


def test_an_argument_may_have_64_kib(connect):
    wire = connect()
    text = random_text(64 << 10)
    assert wire.do("ECHO", text) == text


def test_too_many_arguments(connect, name):
    wire = connect()
    opens(wire)
    assert wire.error("LOCK.ACQUIRE", name, *(["x"] * 1000))[0] == "BADARG"
    assert wire.error("ECHO", "a", "b")[0] == "ERR"
    assert wire.error("RAFT.STATUS", "x")[0] == "BADARG"


def test_silence_is_fine(connect):
    wire = connect()
    wire.do("PING")
    time.sleep(0.5)
    assert wire.do("PING") == "PONG"


def test_an_unfinished_request_is_closed_after_ten_seconds(world):
    waiting = []
    for node in (world.leader, world.follower):
        one = Wire(node.client_port, timeout=15)
        one.raw(encode(["PING"])[:-3])
        waiting.append(one)
    begun = time.monotonic()
    for one in waiting:
        said = b""
        one.socket.settimeout(15)
        while True:
            part = one.socket.recv(4096)
            if not part:
                break
            said += part
        one.close()
    assert 8 < time.monotonic() - begun < 13


def test_many_connections_from_one_address(connect):
    wires = [connect() for _ in range(200)]
    for wire in wires:
        wire.send("PING")
    assert [wire.receive() for wire in wires] == ["PONG"] * 200


def test_error_words_are_upper_case_and_one_line(connect, name):
    wire = connect()
    code, text = wire.error("LOCK.ACQUIRE", name, "WAIT", "a\r\nb\x00")
    assert code in ("BADARG", "NOSESSION")
    assert "\r" not in text and "\n" not in text
    assert wire.do("PING") == "PONG"


# Redis locks, byte by byte (tests of the clients are in test_redis_clients.py).


def test_set_nx_px_takes_and_set_again_renews_by_value(connect, name):
    one, two = connect(), connect(3)
    assert one.do("SET", name, "v1", "NX", "PX", 5000) == OK
    assert two.do("SET", name, "v2", "NX", "PX", 5000) is NULL
    assert two.do("set", name, "v1", "px", "8000", "nx") is NULL
    assert two.do("PTTL", name) <= 5000
    assert two.do("set", name, "v1", "px", "8000", "nx", "again") == OK
    assert 5000 < two.do("PTTL", name) <= 8000
    assert one.do("GET", name) == b"v1"
    assert one.do("EXISTS", name, name + "x") == 1
    assert one.do("SET", name + "e", "v", "EX", 5, "NX") == OK
    assert 4000 < one.do("PTTL", name + "e") <= 5000


def test_the_token_of_a_redis_lock_is_shown(connect, name):
    wire = connect()
    wire.do("SET", name, "v1", "NX", "PX", 5000)
    holder = plain(wire.map("LOCK.SHOW", name)["holders"][0])
    assert holder["token"] > 0 and holder["value"] == b"v1"
    assert wire.do("LOCK.CHECK", name, holder["token"]) == 1


def test_absent_keys(connect, name):
    wire, three = connect(), connect(3)
    assert wire.do("GET", name) is NULL_BULK
    assert three.do("GET", name) is NULL
    assert wire.do("EXISTS", name) == 0
    assert wire.do("PTTL", name) == -2
    assert wire.do("PEXPIRE", name, 1000) == 0
    assert wire.do("DEL", name) == 0


def test_pexpire_renews(connect, name):
    wire = connect()
    wire.do("SET", name, "v", "NX", "PX", 1000)
    assert wire.do("PEXPIRE", name, 9000) == 1
    assert 5000 < wire.do("PTTL", name) <= 9000


def test_a_redis_lock_and_a_lock_exclude_each_other(connect, name):
    redis, wire = connect(), connect()
    opens(wire)
    redis.do("SET", name, "v", "NX", "PX", 5000)
    assert wire.do("LOCK.ACQUIRE", name) is NULL_BULK
    wire.do("LOCK.ACQUIRE", name + "x")
    assert redis.do("SET", name + "x", "v", "NX", "PX", 5000) is NULL_BULK


def test_a_redis_lock_ends_by_itself_not_before_its_time(connect, name):
    wire = connect()
    begun = time.monotonic()
    wire.do("SET", name, "v", "NX", "PX", 200)
    eventually(lambda: wire.do("EXISTS", name) == 0)
    # 1.25 PX + 5 ms: those clients trust the whole PX of their own clock.
    assert 0.255 <= time.monotonic() - begun < 0.255 + 0.2


@pytest.mark.parametrize(
    "words",
    [
        "SET {} v",
        "SET {} v NX",
        "SET {} v NX XX PX 1000",
        "SET {} v PX 1000 KEEPTTL",
        "SET {} v NX PX 0",
        "SET {} v NX PX x",
        "SET {} v NX PX 3600001",
        "SET {} v NX PX 1 EX 1",
        "SETNX {} v",
        "PEXPIRE {} x",
        "PEXPIRE {} 0",
    ],
)
def test_a_lock_without_a_time_to_live_is_badarg(connect, name, words):
    wire = connect()
    assert wire.error(*words.format(name).split())[0] == "BADARG"
    assert wire.do("EXISTS", name) == 0


def test_a_held_lock_is_not_deleted(connect, name):
    wire = connect()
    wire.do("SET", name, "v", "NX", "PX", 5000)
    assert wire.error("DEL", name)[0] == "BADARG"
    assert wire.do("GET", name) == b"v"


def test_an_unknown_script_is_an_error_that_says_so(connect, name):
    wire = connect()
    code, text = wire.error("EVAL", "return redis.call('FLUSHALL')", 0)
    assert code == "ERR" and "script" in text
    assert wire.error("EVALSHA", "0" * 40, 1, name)[0] == "NOSCRIPT"
    assert wire.error("SCRIPT", "LOAD", "return os.time()")[0] == "ERR"
    assert wire.do("SCRIPT", "EXISTS", "0" * 40) == [0]


def test_px_goes_from_1_ms(connect, name):
    wire = connect()
    assert wire.do("SET", name, "v", "NX", "PX", 1) == OK
    eventually(lambda: wire.do("EXISTS", name) == 0)
