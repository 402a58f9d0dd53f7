# SPDX-License-Identifier: MIT
"""The scripts of lock libraries, on random states, against a real Redis: the
same answer, the same state after it."""

import hashlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import closing

import pytest

from cluster import Cluster, ReplyError
from test_http import get
from test_limits import hasp
from redis_families import FAMILIES
from redis_scripts import REFUSED, SCRIPTS, SEVERAL
from wire import Simple, Wire, eventually, world

ROUNDS = 24  # Per script.
FAMILY_STEPS = 60  # Per life of a family's keys.
TOKENS = ["token-a", "token-b", "xyz"]  # Two with the same beginning.


def redis_server():
    """The program that is redis-server under that name; Debian has it in
    redis-tools, too, as redis-check-rdb."""
    return shutil.which("redis-server") or shutil.which("redis-check-rdb")


@pytest.fixture(scope="module")
def reference():
    program = redis_server()
    if program is None:
        pytest.skip("neither redis-server nor redis-tools is installed")
    with tempfile.TemporaryDirectory(prefix="hasp-redis-") as folder:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
        process = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1"]
            + ["--save", "", "--appendonly", "no", "--dir", folder],
            executable=program,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            eventually(lambda: answers(port))
            with closing(Wire(port)) as wire:
                yield wire
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)


def answers(port):
    try:
        with closing(Wire(port)) as wire:
            return wire.do("PING") == "PONG"
    except OSError:
        return False


class Draw:
    """A script's keys and arguments, and what the keys are before."""

    def __init__(self, rng, case, at):
        library, what, self.text, keys, kinds = case
        count = rng.randint(1, 3) if keys == SEVERAL else keys
        self.keys = ["s%d-%d" % (at, i) for i in range(count)]
        # Mostly one holds all, or nobody one of them.
        holder = rng.choice(TOKENS)
        self.state = {}
        for key in self.keys:
            value = rng.choice([holder, holder, holder, rng.choice(TOKENS), None])
            if rng.random() < 0.2:
                value = None
            if value is not None:
                self.state[key] = (value, rng.choice([15000, 25000, 35000]))
        self.arguments = [self.argument(rng, kind, holder) for kind in kinds]
        self.said = "%s, %s: %s %s on %s" % (
            library,
            what,
            self.keys,
            self.arguments,
            self.state,
        )

    @staticmethod
    def argument(rng, kind, holder):
        if kind == "token":
            return holder if rng.random() < 0.7 else rng.choice(TOKENS)
        if kind == "ms":
            return str(rng.choice([10000, 20000, 30000]))
        if kind == "s":
            return str(rng.choice([10, 20, 30]))
        return rng.choice(kind.split("|"))

    def run(self, wire):
        """The answer, and then what the keys are."""
        for key, (value, px) in self.state.items():
            assert wire.do("SET", key, value, "NX", "PX", px) == "OK"
        words = [len(self.keys), *self.keys, *self.arguments]
        try:
            answer = wire.do("EVAL", self.text, *words)
        except ReplyError as error:
            answer = "error " + str(error).split()[0]
        return answer, [
            (wire.do("GET", key), wire.do("PTTL", key)) for key in self.keys
        ]


def rounded(answer):
    """Times are multiples of 5000 ms that the clocks have made less meanwhile, by
    up to 4 s on a busy machine."""
    if isinstance(answer, (list, tuple)):
        return [rounded(part) for part in answer]
    if isinstance(answer, int) and answer > 1000:
        return (answer + 4000) // 5000 * 5000
    return str(answer)


@pytest.mark.parametrize(
    "at", range(len(SCRIPTS)), ids=["%s: %s" % case[:2] for case in SCRIPTS]
)
def test_a_script_does_what_it_does_in_redis(world, reference, at):
    rng = random.Random(at)
    kinds = set()
    with closing(Wire(world.leader.client_port)) as wire:
        for i in range(ROUNDS):
            draw = Draw(rng, SCRIPTS[at], at * 1000 + i)
            mine, wanted = draw.run(wire), draw.run(reference)
            assert rounded(mine) == rounded(wanted), draw.said
            kinds.add(str(rounded(wanted[0])))
    assert len(kinds) > 1 or "notation" in SCRIPTS[at][0], "always %s" % kinds


VECTORS = os.path.join(os.path.dirname(__file__), "../vectors")
# An error within an answer: its words may be Redis's or ours.
ERROR = re.compile(r"(?<![^ ])-[A-Z].*?(?= [:$*]-?[0-9]| [+-][A-Z]| [+][a-z]|$)")


def on_one_line(answer):
    """The bytes of an answer as tests/vectors/scripts.txt writes them."""
    if isinstance(answer, list):
        return " ".join(["*%d" % len(answer), *map(on_one_line, answer)])
    if isinstance(answer, bytes):
        return "$%d %s" % (len(answer), answer.decode("latin-1"))
    if isinstance(answer, int):
        return ":%d" % answer
    kind = {Simple: "+", ReplyError: "-"}.get(type(answer), "")
    return "%s%s" % (kind, answer)


@pytest.mark.parametrize("name", ["scripts.txt", "scripts_drawn.txt"])
def test_a_real_redis_answers_what_the_vectors_say(reference, name):
    with open(os.path.join(VECTORS, name), encoding="latin-1") as file:
        cases = re.findall(r"(?s)(.*?)\n----\n([^\n]*)\n\n", file.read())
    # Redis may do what hasp refuses.
    cases = [
        (script.split("\n\n")[-1] if i == 0 else script, said)
        for i, (script, said) in enumerate(cases)
        if not said.startswith("-ERR")
    ]
    assert len(cases) > 150
    for script, said in cases:
        assert reference.do("SET", "a", "token", "PX", 30000) == "OK"
        reference.send("EVAL", script, 2, "a", "b", "token", 1000, 3)
        answer = on_one_line(reference.reply())
        escaped = re.sub(
            r"[^ -~]|\\", lambda found: "\\x%02x" % ord(found[0]), answer
        )
        if name == "scripts_drawn.txt":
            escaped, said = ERROR.sub("-", escaped), ERROR.sub("-", said)
        assert escaped == said, script


@pytest.fixture(scope="module")
def lenient():
    """A node on which values without a time to live are durable."""
    with Cluster(1, extra="[redis]\nno_ttl = durable\n") as cluster:
        yield cluster.leader()


LOOK = """
local kind = redis.call('type', KEYS[1]).ok
local what = {}
if kind == 'string' then what = redis.call('get', KEYS[1])
elseif kind == 'hash' then what = redis.call('hgetall', KEYS[1])
elseif kind == 'list' then what = redis.call('lrange', KEYS[1], 0, -1)
elseif kind == 'set' then what = redis.call('smembers', KEYS[1])
elseif kind == 'zset' and ARGV[1] == '' then what = redis.call('zrange', KEYS[1], 0, -1)
elseif kind == 'zset' then
    what = redis.call('zrange', KEYS[1], 0, -1, ARGV[1])
end
return {kind, redis.call('pttl', KEYS[1]), what}
"""


class Family:
    """One run of a family's scripts, on one server."""

    def __init__(self, wire, family, keys):
        self.wire, self.keys = wire, keys
        self.texts, self.special = family[1], family[4]

    def run(self, name, arguments):
        text = self.texts[name]
        words = [text, len(self.keys), *self.keys, *arguments]
        try:
            return self.wire.do("EVAL", *words)
        except ReplyError as error:
            return "error: " + str(error)

    def look(self, key):
        scores = "withscores" if self.special is None else ""
        kind, left, what = self.wire.do("EVAL", LOOK, 1, key, scores)
        # Neither has an order; and two requests within one millisecond by the
        # one server's clock may be in two by the other's.
        if kind in (b"set", b"hash") or self.special == "TIME":
            what = sorted(what)
        if self.special == "TIME" and left > 0:
            left = 30000
        return [kind, left, what]


def draw_argument(rng, kind, now):
    if kind == "owner":
        return rng.choice(["a", "b", "c"])
    if kind == "ms":
        return str(rng.choice([10000, 20000, 30000]))
    if kind == "s":
        return str(rng.choice([10, 20, 30]))
    return str(now) if kind == "now" else rng.choice(kind.split("|"))


@pytest.mark.parametrize("family", FAMILIES, ids=[family[0] for family in FAMILIES])
def test_scripts_that_work_together_do_what_they_do_in_redis(
    world, lenient, reference, family
):
    library, texts, key_count, kinds, special = family
    node = lenient if special == "no time to live" else world.leader
    rng = random.Random(library)
    seen = {name: set() for name in texts}
    with closing(Wire(node.client_port)) as wire:
        for life in range(3):
            keys = ["f-%s-%d-%d" % (library, life, i) for i in range(key_count)]
            mine, real = Family(wire, family, keys), Family(reference, family, keys)
            now = 1800000000000
            for _ in range(FAMILY_STEPS):
                now += rng.choice([1, 100, 4000])
                name = rng.choice(list(texts))
                words = [draw_argument(rng, kind, now) for kind in kinds]
                got, wanted = mine.run(name, words), real.run(name, words)
                said = "%s %s: %r, and in Redis %r" % (name, words, got, wanted)
                assert rounded(got) == rounded(wanted), said
                for key in keys:
                    looks = mine.look(key), real.look(key)
                    assert rounded(looks[0]) == rounded(looks[1]), said
                seen[name].add(str(rounded(wanted)))
    assert not [one for name in seen for one in seen[name] if "error" in one]
    assert [name for name in seen if len(seen[name]) > 1], seen


# As Redisson's fenced lock: its counter outlives the lock.
FENCED_TAKE = """
local free = redis.call('exists', KEYS[1]) == 0
if free or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    local token = redis.call('incr', KEYS[2])
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return {-1, token}
end
return {redis.call('pttl', KEYS[1]), -1}
"""


def test_a_fenced_lock_works_once_its_counter_is_there(lenient, reference):
    lock, counter = "fenced", "redisson_lock_token:{fenced}"
    with closing(Wire(lenient.client_port)) as wire:
        code, why = wire.error("EVAL", FENCED_TAKE, 2, lock, counter, 30000, "a:1")
        assert code == "BADARG" and "SET the one without it" in why
        assert wire.do("EXISTS", lock, counter) == 0
        for server in (wire, reference):
            assert server.do("SET", counter, 0) == "OK"
            take = ["EVAL", FENCED_TAKE, 2, lock, counter, 30000]
            assert server.do(*take, "a:1") == [-1, 1]
            assert server.do(*take, "a:1") == [-1, 2]
            left, token = server.do(*take, "b:1")
            assert 0 < left <= 30000 and token == -1
            for _ in range(2):
                text = "return redis.call('hincrby', KEYS[1], ARGV[1], -1)"
                count = server.do("EVAL", text, 1, lock, "a:1")
            assert count == 0
            text = "redis.call('hget', KEYS[1], 'x') return redis.call('del', KEYS[1])"
            assert server.do("EVAL", text, 1, lock) == 1
            assert server.do(*take, "b:1") == [-1, 3]
            assert server.do("GET", counter) == b"3"
            assert server.do("TTL", counter) == -1


@pytest.mark.parametrize("library, text, said", REFUSED, ids=[r[0] for r in REFUSED])
def test_what_is_not_served_is_said_with_its_line(world, library, text, said):
    with closing(Wire(world.follower.client_port)) as wire:
        wire.do("SET", "refused", "v", "NX", "PX", 30000)
        code, why = wire.error("EVAL", text, 1, "refused", "v", "1000")
        assert code == "ERR" and why.startswith("hasp does not run this script: ")
        assert said in why
        assert wire.do("GET", "refused") == b"v"
        assert wire.do("DELIFEQ", "refused", "v") == 1


def test_a_refused_script_is_counted_and_told_once(world):
    text = "-- sent once\nreturn redis.call('xadd', KEYS[1], ARGV[1])"
    sha = hashlib.sha1(text.encode()).hexdigest()

    def counted():
        word = "hasp_unknown_scripts_total "
        lines = get(world.follower, "/metrics")[2].splitlines()
        return [int(line[len(word) :]) for line in lines if line.startswith(word)][0]

    before = counted()
    with closing(Wire(world.leader.client_port)) as wire:
        wire.do("SET", "told", "v", "NX", "PX", 30000)
        assert "refused_script" not in wire.map("LOCK.SHOW", "told")
    with closing(Wire(world.follower.client_port)) as wire:
        for _ in range(3):
            wire.error("EVAL", text, 1, "told", "v")
        assert wire.error("EVALSHA", sha, 1, "told", "v")[0] == "ERR"
    assert counted() == before + 4
    lines = [line for line in world.leader.log().splitlines() if sha in line]
    assert len(lines) == 1
    assert "line 2: redis.call('xadd')" in lines[0]
    assert "key=told" in lines[0].replace('"', "") and "-- sent once" in lines[0]
    # The answer says why the lock is not released.
    with closing(Wire(world.leader.client_port)) as wire:
        shown = wire.map("LOCK.SHOW", "told")
        assert shown["refused_script"].decode().endswith(
            "hasp does not support this command in scripts"
        )
        why = hasp(world.cluster, "why", "told").stdout
        assert "its client sent a script that hasp refused" in why and "'xadd'" in why
        assert wire.do("DELIFEQ", "told", "v") == 1
        wire.do("SET", "told", "v", "NX", "PX", 30000)
        assert "refused_script" not in wire.map("LOCK.SHOW", "told")
        assert wire.do("DELIFEQ", "told", "v") == 1


# The judge of public scripts.

JUDGE = os.path.join(os.path.dirname(__file__), "../../tools/script_judge.py")
PUBLIC = os.path.join(os.path.dirname(__file__), "../vectors/public_scripts.tsv")
REDIS_MD = os.path.join(os.path.dirname(__file__), "../../docs/redis.md")
# A repository's source: one script in pieces, one that is refused, one that Redis
# cannot run, and words that are none.
SOURCE = """
// it's the caller's: "redis.call"
const release = "if redis.call('get', KEYS[1]) == ARGV[1] then " +
    "return redis.call('del', KEYS[1]) end " + // not ours
    'return 0'
const moved = `-- a lock
return redis.call('xadd', KEYS[1], '*', 'lock', ARGV[1])`
const template = "return redis.call('del', theLock)"
"""


def judge(*words):
    done = subprocess.run(
        [sys.executable, JUDGE, *words], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_judge_tells_what_is_understood_and_why_not(reference, tmp_path):
    folder = tmp_path / "all" / "some+redis-lock"
    folder.mkdir(parents=True)
    (folder / "lock.js").write_text(SOURCE)
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        names = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", "-C", str(folder), *names, *words], check=True)
    listed = judge("collect", str(tmp_path / "all"), str(tmp_path / "out")).split("\n")
    assert [row.split("\t")[1:] for row in listed if row] == [
        ["some/redis-lock", "lock.js"]
    ] * 3
    said = judge("judge", str(tmp_path / "out"), "--why")
    assert "scripts 2, understood 1 (50.0 %); run on both: the same 1," in said
    assert "refused: redis.call('xadd'): hasp does not support this command" in said
    # The first is one that half the world has: it is listed.
    said = judge("judge", str(tmp_path / "out"), "--sample", "built")
    assert said.startswith("scripts 1, understood 1 (100.0 %)")


def test_the_page_tells_of_the_scripts_that_are_listed():
    with open(PUBLIC, encoding="utf-8") as file:
        rows = [line.split("\t") for line in file if not line.startswith("#")]
    assert len({row[1] for row in rows}) == len(rows) >= 300
    with open(REDIS_MD, encoding="utf-8") as file:
        page = file.read()
    assert "%d of %d repositories" % (len(rows), len({r[2] for r in rows})) in page
    for sample in ("built", "held-out", "second", "all"):
        count, good, part = re.search(
            r"\| %s \| (\d+) \| (\d+) \| ([\d.]+) %%" % sample, page
        ).groups()
        listed = [row for row in rows if sample in (row[0], "all")]
        assert int(count) == len(listed)
        assert part == "%.1f" % (100 * int(good) / int(count))
