# SPDX-License-Identifier: MIT
"""The checks of redis-py's own tests of its Lock, written from its behaviour,
for the blocking lock and asyncio's. Locks without a timeout are on a node that
has redis.no_ttl = durable; if a lock is lost to another client, that one
acquires it when it is free, since hasp never lets a client overwrite a holder's
value."""

import asyncio
import time
import uuid

import pytest

redis = pytest.importorskip("redis", reason="python3-redis is not installed")
import redis.asyncio
from redis.exceptions import LockError, LockNotOwnedError
from redis.lock import Lock

from cluster import Cluster

BEHAVIOURS = []


def behaviour(check):
    BEHAVIOURS.append(check)
    return check


class Awaited:
    """A blocking client or lock, with methods that are awaited as asyncio's
    are."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        found = getattr(self.inner, name)

        async def call(*words, **options):
            return found(*words, **options)

        return call if callable(found) else found

    def lock(self, *words, **options):
        return Awaited(self.inner.lock(*words, **options))

    async def __aenter__(self):
        self.inner.__enter__()
        return self

    async def __aexit__(self, *raised):
        self.inner.__exit__(*raised)


async def another_takes(client, name, value="another"):
    """The lock is released under its holder, and acquired by another."""
    assert await client.execute_command("DELIFEQ", name, await client.get(name)) == 1
    assert await client.set(name, value, nx=True, px=10000)


async def refused(error, call, *words):
    with pytest.raises(error) as caught:
        await call(*words)
    return caught.value


@behaviour
async def taken_and_given_back(client, name):
    lock = client.lock(name)
    assert await lock.acquire(blocking=False)
    assert await client.get(name) == lock.local.token
    assert await client.ttl(name) == -1
    await lock.release()
    assert await client.get(name) is None


async def token_of_its_own(client, name, **options):
    lock = client.lock(name, **options)
    assert await lock.acquire(blocking=False, token="mine")
    assert await client.get(name) == b"mine" == lock.local.token
    assert await client.ttl(name) == -1
    await lock.release()
    assert await client.get(name) is None
    assert lock.local.token is None


@behaviour
async def a_token_may_be_given(client, name):
    await token_of_its_own(client, name)


@behaviour
async def a_token_may_be_given_for_all_threads(client, name):
    await token_of_its_own(client, name, thread_local=False)


@behaviour
async def it_tells_whether_it_is_locked(client, name):
    lock = client.lock(name)
    assert not await lock.locked()
    await lock.acquire(blocking=False)
    assert await lock.locked()
    await lock.release()
    assert not await lock.locked()


@behaviour
async def it_tells_whose_it_is(client, name):
    lock, other = client.lock(name), client.lock(name)
    assert not await lock.owned()
    await lock.acquire(blocking=False)
    assert await lock.owned() and not await other.owned()
    await lock.release()
    assert not await lock.owned()


@behaviour
async def two_compete(client, name):
    one, two = client.lock(name), client.lock(name)
    assert await one.acquire(blocking=False)
    assert not await two.acquire(blocking=False)
    await one.release()
    assert await two.acquire(blocking=False)
    assert not await one.acquire(blocking=False)
    await two.release()


@behaviour
async def a_timeout_is_its_time_to_live(client, name):
    lock = client.lock(name, timeout=10)
    assert await lock.acquire(blocking=False)
    assert 8 < await client.ttl(name) <= 10
    await lock.release()


@behaviour
async def a_timeout_may_have_a_fraction(client, name):
    lock = client.lock(name, timeout=9.5)
    assert await lock.acquire(blocking=False)
    assert 8000 < await client.pttl(name) <= 9500
    await lock.release()


@behaviour
async def who_waits_gives_up_when_it_said(client, name):
    one = client.lock(name)
    assert await one.acquire(blocking=False)
    two = client.lock(name, sleep=0.02, blocking_timeout=0.1)
    start = time.monotonic()
    assert not await two.acquire()
    assert time.monotonic() - start >= 0.05
    await one.release()


@behaviour
async def a_long_sleep_is_not_begun(client, name):
    one = client.lock(name)
    assert await one.acquire(blocking=False)
    two = client.lock(name, sleep=3600, blocking_timeout=0.1)
    assert not await two.acquire()  # Without an hour's sleep.
    await one.release()


@behaviour
async def a_block_holds_it(client, name):
    async with client.lock(name) as lock:
        assert await client.get(name) == lock.local.token
    assert await client.get(name) is None


@behaviour
async def a_block_waits_as_long_as_it_said(client, name):
    async with client.lock(name, blocking_timeout=0.1) as lock:
        assert await client.get(name) == lock.local.token
    assert await client.get(name) is None


@behaviour
async def a_block_whose_lock_is_taken_is_not_entered(client, name):
    assert await client.set(name, "another", nx=True, px=10000)
    with pytest.raises(LockError):
        async with client.lock(name, blocking_timeout=0.05, sleep=0.02):
            raise AssertionError("entered")


@behaviour
async def a_block_that_lost_it_says_so(client, name):
    with pytest.raises(LockNotOwnedError):
        async with client.lock(name, timeout=10):
            await another_takes(client, name)
    assert await client.get(name) == b"another"


@behaviour
async def what_is_not_held_is_not_released(client, name):
    assert "unlocked" in str(await refused(LockError, client.lock(name).release))


async def lost(client, name):
    lock = client.lock(name, timeout=10)
    await lock.acquire(blocking=False)
    await another_takes(client, name)
    return lock


@behaviour
async def what_was_lost_is_not_released(client, name):
    lock = await lost(client, name)
    await refused(LockNotOwnedError, lock.release)
    assert await client.get(name) == b"another"  # And forgotten: ...
    assert lock.local.token is None


@behaviour
async def it_is_extended(client, name):
    lock = client.lock(name, timeout=10)
    assert await lock.acquire(blocking=False)
    assert 8000 < await client.pttl(name) <= 10000
    assert await lock.extend(10)
    assert 16000 < await client.pttl(name) <= 20000
    await lock.release()


@behaviour
async def its_time_is_replaced(client, name):
    lock = client.lock(name, timeout=10)
    assert await lock.acquire(blocking=False)
    assert await lock.extend(20, replace_ttl=True)
    assert 16000 < await client.pttl(name) <= 20000
    await lock.release()


@behaviour
async def it_is_extended_by_a_fraction(client, name):
    lock = client.lock(name, timeout=10.5)
    assert await lock.acquire(blocking=False)
    assert await lock.extend(10.5)
    assert 17000 < await client.pttl(name) <= 21000
    await lock.release()


@behaviour
async def what_is_not_held_is_not_extended(client, name):
    lock = client.lock(name, timeout=10)
    assert "unlocked" in str(await refused(LockError, lock.extend, 10))


@behaviour
async def what_has_no_timeout_is_not_extended(client, name):
    lock = client.lock(name)
    assert await lock.acquire(blocking=False)
    assert "no timeout" in str(await refused(LockError, lock.extend, 10))
    await lock.release()


@behaviour
async def what_was_lost_is_not_extended(client, name):
    lock = await lost(client, name)
    await refused(LockNotOwnedError, lock.extend, 10)
    assert await client.get(name) == b"another"


@behaviour
async def its_time_begins_anew(client, name):
    lock = client.lock(name, timeout=10)
    assert await lock.acquire(blocking=False)
    assert await client.pexpire(name, 5000)
    assert await client.pttl(name) <= 5000
    assert await lock.reacquire()
    assert 8000 < await client.pttl(name) <= 10000
    await lock.release()


@behaviour
async def what_is_not_held_is_not_reacquired(client, name):
    lock = client.lock(name, timeout=10)
    assert "unlocked" in str(await refused(LockError, lock.reacquire))


@behaviour
async def what_has_no_timeout_is_not_reacquired(client, name):
    lock = client.lock(name)
    assert await lock.acquire(blocking=False)
    assert "no timeout" in str(await refused(LockError, lock.reacquire))
    await lock.release()


@behaviour
async def what_was_lost_is_not_reacquired(client, name):
    lock = await lost(client, name)
    await refused(LockNotOwnedError, lock.reacquire)
    assert await client.get(name) == b"another"


@pytest.fixture(scope="module")
def lenient():
    with Cluster(1, extra="[redis]\nno_ttl = durable\n") as cluster:
        yield cluster.leader().client_port


@pytest.fixture
def name():
    return "p-" + uuid.uuid4().hex[:12]


@pytest.mark.parametrize("kind", ["blocking", "asyncio"])
@pytest.mark.parametrize("check", BEHAVIOURS, ids=lambda check: check.__name__)
def test_a_lock_of_redis_py(lenient, name, check, kind):
    async def run():
        if kind == "blocking":
            with redis.Redis(port=lenient, socket_timeout=10) as client:
                await check(Awaited(client), name)
            return
        client = redis.asyncio.Redis(port=lenient, socket_timeout=10)
        try:
            await check(client, name)
        finally:
            await client.close()
            await client.connection_pool.disconnect()

    asyncio.run(run())


def test_a_token_belongs_to_its_thread_and_the_class_may_be_another(lenient, name):
    class Another(Lock):
        pass

    with redis.Redis(port=lenient, decode_responses=True) as client:
        lock = client.lock(name, lock_class=Another)
        assert type(lock) is Another
        assert lock.acquire(blocking=False)
        assert lock.owned()  # Though what is read is text here.
        lock.release()
