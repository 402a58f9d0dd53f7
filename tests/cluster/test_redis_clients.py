# SPDX-License-Identifier: MIT
"""Clients made for Redis, unmodified: redis-py, redis-cli, redis-benchmark, and
ioredis, redlock and node-redis if npm has a registry to install them from,
otherwise stand-ins that send the same."""

import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import termios
import threading
import time
import uuid
import warnings

import pytest

redis = pytest.importorskip("redis", reason="python3-redis is not installed")
import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError, ResponseError

from cluster import Cluster
from wire import World, eventually, world

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node_clients")


@pytest.fixture(scope="module")
def moved():
    """A cluster whose followers do not forward: they say where the leader is."""
    with Cluster(3, extra="[client]\nredirect = moved\n") as cluster:
        yield World(cluster)


@pytest.fixture(params=["leader", "follower"])
def port(request, world):
    return getattr(world, request.param).client_port


@pytest.fixture
def client(port):
    with redis.Redis(port=port, socket_timeout=10) as client:
        yield client


@pytest.fixture
def name():
    return "r-" + uuid.uuid4().hex[:12]


# redis-py.


def test_a_lock_is_acquired_once_and_released(client, name):
    one, two = client.lock(name, timeout=5), client.lock(name, timeout=5)
    assert one.acquire(blocking=False)
    assert one.locked() and one.owned()
    assert two.locked() and not two.owned()
    assert not two.acquire(blocking=False)
    one.release()
    assert not one.locked()
    assert two.acquire(blocking=False)
    two.release()


def test_with_blocks_until_the_other_has_released(port, name):
    order = []

    def work(number, seconds):
        with redis.Redis(port=port) as client:
            with client.lock(name, timeout=5, sleep=0.02):
                order.append(number)
                time.sleep(seconds)
                order.append(number)

    threads = [threading.Thread(target=work, args=(i, 0.1)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(order) == 8
    assert order[::2] == order[1::2]


def test_blocking_gives_up_in_time(client, name):
    one, two = client.lock(name, timeout=5), client.lock(name, timeout=5, sleep=0.05)
    one.acquire()
    begun = time.monotonic()
    assert not two.acquire(blocking_timeout=0.3)
    assert time.monotonic() - begun < 1
    with pytest.raises(LockError):
        with client.lock(name, timeout=5, blocking_timeout=0.05):
            raise AssertionError("it is held")
    one.release()


def test_extend_adds_or_replaces(client, name):
    lock = client.lock(name, timeout=2)
    lock.acquire()
    assert 1500 < client.pttl(name) <= 2000
    assert lock.extend(3)
    assert 4500 < client.pttl(name) <= 5000
    assert lock.extend(8, replace_ttl=True)
    assert 7500 < client.pttl(name) <= 8000
    lock.release()


def test_reacquire_sets_the_time_anew(client, name):
    lock = client.lock(name, timeout=1)
    lock.acquire()
    time.sleep(0.5)
    assert client.pttl(name) < 600
    assert lock.reacquire()
    assert 900 < client.pttl(name) <= 1000
    time.sleep(0.8)
    assert lock.owned()
    lock.release()


def test_another_cannot_release_extend_or_reacquire(client, name):
    one, two = client.lock(name, timeout=5), client.lock(name, timeout=5)
    one.acquire()
    two.local.token = b"not the holder's"
    with pytest.raises(LockNotOwnedError):
        two.extend(5)
    with pytest.raises(LockNotOwnedError):
        two.reacquire()
    with pytest.raises(LockNotOwnedError):
        two.release()
    assert one.owned()
    one.release()


def test_it_expires_not_before_its_time(client, name):
    one, two = client.lock(name, timeout=0.3), client.lock(name, timeout=5, sleep=0.01)
    begun = time.monotonic()
    one.acquire()
    assert two.acquire(blocking_timeout=5)
    assert 0.3 <= time.monotonic() - begun < 0.8
    for act in (one.release, lambda: one.extend(1)):
        one.local.token = one.local.token or b"spent"
        with pytest.raises(LockNotOwnedError):
            act()
    two.release()


@pytest.fixture
def unique(world):
    """The operator has said that no value is used twice."""

    def tell(word):
        for node in world.cluster.nodes:
            with node.connect() as operator:
                operator.do("NODE.SET", "redis.same_value", word)

    tell("renew")
    yield
    tell("refuse")


def test_of_two_clients_with_one_value_one_gets_the_lock(world, port, name):
    # Such as the time in milliseconds, or the id of a process.
    with redis.Redis(port=port) as one, redis.Redis(
            port=world.leader.client_port) as two:
        assert one.set(name, "1700000000000", nx=True, px=5000)
        assert two.set(name, "1700000000000", nx=True, px=60000) is None
        assert one.set(name, "1700000000000", nx=True, px=60000) is None
        assert two.pttl(name) <= 5000


def test_a_retry_after_a_lost_reply_succeeds(unique, client, name):
    # A client with a connection that broke before the reply repeats the same
    # SET.
    token = uuid.uuid1().hex
    assert client.set(name, token, nx=True, px=5000)
    assert client.set(name, token, nx=True, px=5000)
    assert client.set(name, "another", nx=True, px=5000) is None
    lock = client.lock(name, timeout=5)
    assert lock.acquire(token=token, blocking=False)
    lock.release()


def test_a_reply_that_is_really_lost(world, unique, name):
    """The connection is cut when the SET is sent; the client's own retry gets it."""
    client = redis.Redis(
        port=world.leader.client_port,
        retry=redis.retry.Retry(redis.backoff.ConstantBackoff(0.05), 3),
        retry_on_error=[redis.exceptions.ConnectionError],
    )
    client.ping()
    connection = client.connection_pool.get_connection("SET")
    client.connection_pool.release(connection)
    send = connection.send_packed_command
    state = {"lost": False}

    def lose(command, check_health=True):
        send(command, check_health)
        if not state["lost"]:
            state["lost"] = True
            eventually(lambda: other.exists(name))
            connection.disconnect()
            raise redis.exceptions.ConnectionError("cut")

    other = redis.Redis(port=world.leader.client_port)
    connection.send_packed_command = lose
    lock = client.lock(name, timeout=5)
    assert lock.acquire(blocking=False)
    assert state["lost"]
    lock.release()


def test_a_lock_without_a_timeout_is_refused_clearly(client, name):
    with pytest.raises(ResponseError, match="BADARG.*time to live"):
        client.lock(name).acquire(blocking=False)
    assert not client.exists(name)


def test_scripts_are_loaded_where_nobody_knows_them(client):
    lock = client.lock("any", timeout=1)
    for script in (lock.lua_release, lock.lua_extend, lock.lua_reacquire):
        assert client.script_load(script.script) == script.sha
        assert client.script_exists(script.sha) == [True]


def test_the_lock_survives_a_new_leader(world, name):
    client = redis.Redis(port=world.leader.client_port)
    lock = client.lock(name, timeout=10)
    lock.acquire()
    token = client.execute_command("LOCK.SHOW", name)
    assert client.execute_command("RAFT.TRANSFER") in (b"OK", True)
    world.find()
    assert lock.owned()
    assert lock.extend(5)
    assert client.execute_command("LOCK.SHOW", name)[7][0][11] == token[7][0][11]
    lock.release()


def test_pubsub_gets_events(client, name):
    pubsub = client.pubsub(ignore_subscribe_messages=True)
    pubsub.psubscribe("lock:%s*" % name)
    pubsub.get_message(timeout=1)
    client.set(name, "v", nx=True, px=5000)
    message = None
    by = time.monotonic() + 5
    while message is None and time.monotonic() < by:
        message = pubsub.get_message(timeout=0.1)
    assert message["type"] == "pmessage"
    assert message["channel"] == b"lock:" + name.encode()
    assert b'"kind":"granted"' in message["data"]
    pubsub.close()


def test_redis_py_cluster_finds_the_leader(moved, name):
    node = redis.cluster.RedisCluster(
        host="127.0.0.1", port=moved.follower.client_port, socket_timeout=10
    )
    assert node.set(name, "v", nx=True, px=5000)
    assert node.get(name) == b"v"
    node.close()


# redis-py, asyncio.


def run_async(port, work):
    """Runs work(client) with a client of its own."""

    async def run():
        client = redis.asyncio.Redis(port=port, socket_timeout=10)
        try:
            await work(client)
        finally:
            await client.close()
            await client.connection_pool.disconnect()

    asyncio.run(run())


def test_an_asyncio_lock_is_acquired_once_and_released(port, name):
    async def work(client):
        one, two = client.lock(name, timeout=5), client.lock(name, timeout=5)
        assert await one.acquire(blocking=False)
        assert await one.locked() and await one.owned()
        assert not await two.owned()
        assert not await two.acquire(blocking=False)
        with pytest.raises(LockError):
            await two.release()
        await one.release()
        assert not await one.locked()
        async with client.lock(name, timeout=5):
            assert not await two.acquire(blocking=False)
        assert await two.acquire(blocking=False)
        await two.release()

    run_async(port, work)


def test_an_asyncio_lock_is_extended_and_reacquired(port, name):
    async def work(client):
        lock = client.lock(name, timeout=10)
        await lock.acquire(blocking=False)
        assert 8000 < await client.pttl(name) <= 10000
        assert await lock.extend(10)
        assert 16000 < await client.pttl(name) <= 20000
        assert await lock.extend(5, replace_ttl=True)
        assert 3000 < await client.pttl(name) <= 5000
        assert await lock.reacquire()
        assert 8000 < await client.pttl(name) <= 10000
        await lock.release()
        lock.local.token = b"spent"
        for act in (lock.reacquire, lock.release, lambda: lock.extend(1)):
            lock.local.token = b"spent"
            with pytest.raises(LockNotOwnedError):
                await act()

    run_async(port, work)


def test_an_asyncio_lock_waits_for_its_turn(port, name):
    async def work(client):
        one = client.lock(name, timeout=10)
        two = client.lock(name, timeout=10, blocking_timeout=10, sleep=0.02)
        three = client.lock(name, timeout=10, blocking_timeout=0.1, sleep=0.02)
        await one.acquire()
        assert not await three.acquire()
        waiting = asyncio.ensure_future(two.acquire())
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await one.release()
        assert await waiting
        await two.release()

    run_async(port, work)


# DEL, as some libraries release.


def test_del_takes_a_lock_away_where_it_is_allowed():
    with Cluster(1, extra="[redis]\ndel = allow\n") as cluster:
        client = redis.Redis(port=cluster.leader().client_port)
        assert client.set("job", "mine", nx=True, px=5000)
        assert client.delete("job", "none") == 1
        assert client.set("job", "other", nx=True, px=5000)
        assert client.eval("return redis.call('unlink', KEYS[1])", 1, "job") == 1
        assert not client.exists("job")


# SET without a time to live.


def test_a_value_without_a_time_is_refused(port, name):
    client = redis.Redis(port=port)
    with pytest.raises(redis.ResponseError, match="a lock needs a time to live"):
        client.set(name, "mine", nx=True)
    assert client.set(name, "mine", nx=True, px=5000)
    with pytest.raises(redis.ResponseError, match="a lock needs a time to live"):
        client.persist(name)
    assert client.pttl(name) > 0


def test_a_value_without_a_time_is_durable_where_it_may_be():
    script = "return {redis.call('set', 'a', 1), redis.call('set', 'b', 1, 'px', 9)}"
    with Cluster(3, extra="[redis]\nno_ttl = durable\n") as cluster:
        client = redis.Redis(port=cluster.leader().client_port)
        assert client.set("job", "mine", nx=True)
        assert client.ttl("job") == -1 and client.pttl("job") == -1
        assert not client.set("job", "other", nx=True)
        # The publishing and the subscribed connection.
        shown = client.execute_command("LOCK.SHOW", "job")
        holder = shown[shown.index(b"holders") + 1][0]
        assert holder[holder.index(b"lease_left_ms") + 1] is None
        cluster.leader().kill()
        client = redis.Redis(port=cluster.leader().client_port)
        assert client.get("job") == b"mine"
        # A lease, and none again.
        assert client.pexpire("job", 30000)
        assert 0 < client.pttl("job") <= 30000
        assert client.persist("job") and client.pttl("job") == -1
        assert not client.persist("job")
        # Locks acquired by one request all have a lease, or all have none.
        with pytest.raises(redis.ResponseError, match="at once"):
            client.eval(script, 2, "a", "b")
        assert client.eval("return redis.call('mset', 'a', 1, 'b', 2)", 2, "a", "b")
        assert client.ttl("b") == -1
        # Given back as any.
        assert client.eval(
            "if redis.call('get', KEYS[1]) == ARGV[1] then "
            "return redis.call('del', KEYS[1]) else return 0 end",
            1,
            "job",
            "mine",
        )
        assert client.set("job", "other", nx=True, px=40)
        eventually(lambda: not client.exists("job"))


# redis-cli.


def cli(port, *words, text=None, timeout=20):
    assert shutil.which("redis-cli"), "redis-tools are not installed"
    result = subprocess.run(
        ["redis-cli", "-p", str(port), *words],
        input=text,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_redis_cli_one_shot(port, name):
    assert cli(port, "PING") == "PONG\n"
    assert "secret" in cli(port, "session.open", "ttl", "1000")
    assert cli(port, "SET", name, "v", "NX", "PX", "5000") == "OK\n"
    assert cli(port, "GET", name) == "v\n"
    assert cli(port, "LOCK.CHECK", name, "1") == "0\n"


def test_redis_cli_resp3_shows_maps(port, name):
    shown = cli(port, "-3", "--no-raw", "LOCK.SHOW", name)
    assert '"holders" => (empty array)' in shown
    assert '"role" => ' in cli(port, "-3", "--no-raw", "RAFT.STATUS")


def test_redis_cli_reads_commands_from_its_input(port, name):
    text = "SESSION.OPEN\nLOCK.ACQUIRE %s\nLOCK.RELEASE %s\nnonsense\n" % (name, name)
    lines = [line for line in cli(port, text=text).splitlines() if line]
    assert re.fullmatch(r"\d{10,}", lines[-3])  # The token.
    assert lines[-2] == "0"
    assert lines[-1] == "ERR unknown command 'nonsense'"


def test_redis_cli_interactive_knows_our_commands(port):
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    process = subprocess.Popen(
        ["redis-cli", "-p", str(port)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=dict(os.environ, TERM="xterm"),
        start_new_session=True,
    )
    os.close(slave)
    said = bytearray()

    def read():
        try:
            while True:
                said.extend(os.read(master, 4096))
        except OSError:
            pass

    reader = threading.Thread(target=read)
    reader.start()
    try:
        eventually(lambda: b"> " in said)
        os.write(master, b"help lock.acquire\r")
        eventually(lambda: b"Acquires a lock" in said)
        os.write(master, b"lock.acquire ")
        eventually(lambda: b"name" in said.split(b"Acquires a lock")[1])
        os.write(master, b"\x15ping\r")
        eventually(lambda: b"PONG" in said)
        os.write(master, b"quit\r")
        process.wait(5)
    finally:
        process.kill()
        process.wait(5)
        os.close(master)
        reader.join(5)


def test_redis_cli_follows_moved(moved, name):
    port = moved.follower.client_port
    assert cli(port, "GET", name).startswith("MOVED ")
    answer = cli(port, "-c", "SET", name, "v", "NX", "PX", "5000")
    assert answer.endswith("OK\n")
    assert cli(port, "-c", "GET", name).endswith("v\n")


def test_redis_cli_cluster_check_sees_one_shard(moved):
    nodes = cli(moved.leader.client_port, "CLUSTER", "NODES").splitlines()
    assert sum("master" in line for line in nodes) == 1
    assert len(nodes) == 3


def test_redis_benchmark_pings(port):
    assert shutil.which("redis-benchmark"), "redis-tools are not installed"
    result = subprocess.run(
        "redis-benchmark -p %d -t ping -n 2000 -c 20 -q" % port,
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0
    said = result.stdout + result.stderr
    assert said.count("requests per second") == 2, said  # Inline and not.
    assert "ERR" not in said and "WARN" not in said, said


# Node.js.


@contextlib.contextmanager
def scripts():
    """A folder with the programs that are run."""
    with tempfile.TemporaryDirectory(prefix="hasp-node-") as folder:
        for file in os.listdir(FOLDER):
            if file.endswith((".js", ".cjs", ".json")):
                shutil.copy(os.path.join(FOLDER, file), folder)
        yield folder


def write_stand_ins(folder):
    """Modules with the packages' names, stand-ins."""
    packages = {"ioredis": "default", "redis": None, "redlock": "Redlock"}
    for name, default in packages.items():
        home = os.path.join(folder, "node_modules", name)
        shutil.rmtree(home, ignore_errors=True)
        os.makedirs(home)
        with open(os.path.join(home, "package.json"), "w") as file:
            json.dump({"name": name, "type": "module", "main": "index.js"}, file)
        text = "export * from '../../stand_ins.js'\n"
        if default is not None:
            text += "export { %s as default } from '../../stand_ins.js'\n" % default
        with open(os.path.join(home, "index.js"), "w") as file:
            file.write(text)


def why_not_installed(folder):
    """None: npm has installed the packages."""
    words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    if shutil.which("npm") is None:
        return "npm is not installed"
    try:
        result = subprocess.run(
            words + ["--fetch-retries=0"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=90,
        )
    except subprocess.TimeoutExpired:
        return "npm install took too long"
    said = result.stderr.strip().splitlines()[-1:]
    return "npm has no registry: %s" % said if result.returncode else None


@pytest.fixture(scope="module")
def modules():
    """A folder with the scripts and the modules that npm installed, or with
    their stand-ins."""
    assert shutil.which("node"), "node is not installed: make deps-test"
    with scripts() as folder:
        why = why_not_installed(folder)
        if why is not None:
            warnings.warn("stand-ins for the clients of Node.js: " + why)
            write_stand_ins(folder)
        yield folder


@pytest.fixture(scope="module")
def stand_ins():
    with scripts() as folder:
        write_stand_ins(folder)
        yield folder


def node(folder, script, *words):
    result = subprocess.run(
        ["node", script, *map(str, words)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout) == (0, "ok\n"), result.stderr


def test_ioredis_and_node_redis(modules, port, name):
    node(modules, "plain.js", port, name)


def test_redlock(modules, port, name):
    node(modules, "redlock.js", port, name)


def test_redis_semaphore_and_another_redlock(modules, port, name):
    """Its scripts begin with SELECT; a semaphore is released by a plain ZREM."""
    if not os.path.exists(os.path.join(modules, "node_modules", "redis-semaphore")):
        pytest.skip("npm has not installed redis-semaphore")
    node(modules, "packages.cjs", port, name)


def test_the_stand_ins_do_what_the_packages_do(stand_ins, moved, name, world):
    port = world.follower.client_port
    node(stand_ins, "plain.js", port, name)
    node(stand_ins, "redlock.js", port, name)
    ports = [moved.follower.client_port, moved.leader.client_port]
    node(stand_ins, "clusters.js", *ports, name)


def test_cluster_clients_find_the_leader(modules, moved, name):
    node(
        modules,
        "clusters.js",
        moved.follower.client_port,
        moved.leader.client_port,
        name,
    )
