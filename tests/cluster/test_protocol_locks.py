# SPDX-License-Identifier: MIT
"""Locks to the letter: acquiring, giving back, waiting, modes, several at once."""

import time

import pytest

from wire import (
    NULL,
    NULL_ARRAY,
    NULL_BULK,
    Map,
    connect,
    eventually,
    name,
    opened,
    opens,
    plain,
    world,
)

LOCK_KEYS = "name mode slots holders queue delay_left_ms earliest_ms".split()
HOLDER_KEYS = (
    "session client address owner value token mode count since_ms lease_left_ms"
).split()
WAITER_KEYS = "session client owner mode index waiting_ms user".split()


@pytest.fixture
def client(connect):
    """client() gives a connection that has a session of its own."""

    def one(*options, version=2):
        wire = connect(version)
        wire.session, wire.secret = opens(wire, *options)
        return wire

    return one


def queued(wire, name, count=1):
    eventually(lambda: len(wire.map("LOCK.SHOW", name)["queue"]) == count)


def release(wire, name):
    assert wire.do("LOCK.RELEASE", name) == 0


# Acquire and release.


def test_acquire_answers_a_growing_integer_token(client, name):
    wire = client()
    last = 0
    for _ in range(3):
        token = wire.do("LOCK.ACQUIRE", name)
        assert isinstance(token, int) and last < token < 2**53
        last = token
        release(wire, name)


def test_a_held_lock_is_nil_at_once(client, name):
    one, two, three = client(), client(), client(version=3)
    one.do("LOCK.ACQUIRE", name)
    begun = time.monotonic()
    assert two.do("LOCK.ACQUIRE", name) is NULL_BULK
    assert two.do("LOCK.ACQUIRE", name, "WAIT", 0) is NULL_BULK
    assert three.do("LOCK.ACQUIRE", name) is NULL
    assert time.monotonic() - begun < 1
    assert two.map("LOCK.SHOW", name)["queue"] == []


def test_release_of_what_is_not_held_is_notheld(client, name):
    one, two = client(), client()
    assert one.error("LOCK.RELEASE", name)[0] == "NOTHELD"
    token = one.do("LOCK.ACQUIRE", name)
    assert two.error("LOCK.RELEASE", name)[0] == "NOTHELD"
    assert two.error("LOCK.RELEASE", name, "TOKEN", token)[0] == "NOTHELD"
    assert one.error("LOCK.RELEASE", name, "OWNER", "x")[0] == "NOTHELD"
    assert one.error("LOCK.RELEASE", name, "TOKEN", token + 1)[0] == "NOTHELD"
    assert one.do("LOCK.RELEASE", name, "TOKEN", token) == 0
    assert one.error("LOCK.RELEASE", name)[0] == "NOTHELD"


def test_holds_are_counted_and_keep_their_token(client, name):
    wire = client()
    token = wire.do("LOCK.ACQUIRE", name)
    assert wire.do("LOCK.ACQUIRE", name) == token
    assert wire.do("LOCK.ACQUIRE", name, "WAIT", 10) == token
    assert plain(wire.map("LOCK.SHOW", name)["holders"][0])["count"] == 3
    assert [wire.do("LOCK.RELEASE", name) for _ in range(3)] == [2, 1, 0]


def test_two_owners_of_a_session_exclude_each_other(client, name):
    wire = client()
    token = wire.do("LOCK.ACQUIRE", name, "OWNER", "a")
    assert wire.do("LOCK.ACQUIRE", name, "OWNER", "b") is NULL_BULK
    assert wire.do("LOCK.ACQUIRE", name) is NULL_BULK
    assert wire.do("LOCK.ACQUIRE", name, "owner", "a") == token
    assert wire.error("LOCK.RELEASE", name)[0] == "NOTHELD"
    assert wire.do("LOCK.RELEASE", name, "OWNER", "a") == 1


def test_names_are_bytes_and_case_matters(client, name):
    one, two = client(), client()
    odd = name.encode() + b"\x00\r\n \xff"
    assert one.do("LOCK.ACQUIRE", odd) > 0
    assert two.do("LOCK.ACQUIRE", odd) is NULL_BULK
    assert two.do("LOCK.ACQUIRE", odd.upper()) > 0
    assert one.map("LOCK.SHOW", odd)["name"] == odd


def test_names_have_1_to_511_bytes(client, name):
    wire = client()
    longest = (name + "x" * 511)[:511]
    assert wire.do("LOCK.ACQUIRE", longest) > 0
    assert wire.error("LOCK.ACQUIRE", longest + "x")[0] == "BADARG"
    assert wire.error("LOCK.ACQUIRE", "")[0] == "BADARG"
    assert wire.map("LOCK.SHOW", longest)["name"] == longest.encode()


def test_owner_and_value_have_their_limits(client, name):
    wire = client()
    owner, value = "o" * 128, "v" * 4096
    assert wire.do("LOCK.ACQUIRE", name, "OWNER", owner, "VALUE", value) > 0
    holder = plain(wire.map("LOCK.SHOW", name)["holders"][0])
    assert (holder["owner"], holder["value"]) == (owner.encode(), value.encode())
    assert wire.error("LOCK.ACQUIRE", name, "OWNER", owner + "o")[0] == "BADARG"
    assert wire.error("LOCK.ACQUIRE", name, "VALUE", value + "v")[0] == "BADARG"


@pytest.mark.parametrize(
    "words",
    [
        "LOCK.ACQUIRE",
        "LOCK.ACQUIRE {} WAIT",
        "LOCK.ACQUIRE {} WAIT -1",
        "LOCK.ACQUIRE {} WAIT 1.5",
        "LOCK.ACQUIRE {} WAIT soon",
        "LOCK.ACQUIRE {} WAIT 99999999999999999999",
        "LOCK.ACQUIRE {} WAIT 5 FOREVER",
        "LOCK.ACQUIRE {} FOREVER FOREVER",
        "LOCK.RELEASE {} FOREVER",
        "LOCK.ACQUIRE {} SLOTS",
        "LOCK.ACQUIRE {} SLOTS 0",
        "LOCK.ACQUIRE {} SLOTS x",
        "LOCK.ACQUIRE {} SHARED SLOTS 2",
        "LOCK.ACQUIRE {} SHARED SHARED",
        "LOCK.ACQUIRE {} EXCLUSIVE",
        "LOCK.ACQUIRE {} OWNER",
        "LOCK.ACQUIRE {} OWNER a OWNER b",
        "LOCK.ACQUIRE {} TOKEN 5",
        "LOCK.ACQUIRE {} HOLD 0",
        "LOCK.ACQUIRE {} HOLD x",
        "LOCK.ACQUIRE {} DELAY",
        "LOCK.ACQUIRE {} REQ 0",
        "LOCK.ACQUIRE {} REQ x",
        "LOCK.ACQUIRE {} ACKED 1",
        "LOCK.ACQUIRE {} REQ 5 ACKED 5",
        "LOCK.ACQUIRE {} REQ 5 ACKED 6",
        "LOCK.ACQUIRE {} nonsense",
        "LOCK.RELEASE",
        "LOCK.RELEASE {} WAIT 5",
        "LOCK.RELEASE {} TOKEN x",
        "LOCK.RELEASEIF {}",
        "LOCK.RELEASEIF {} OWNER",
        "LOCK.RELEASEIF {} TOKEN 5",
        "LOCK.CONVERT {}",
        "LOCK.CONVERT {} WAIT 5",
        "LOCK.CONVERT {} SHARED EXCLUSIVE",
        "LOCK.MACQUIRE",
        "LOCK.MACQUIRE 1",
        "LOCK.MACQUIRE 0 {}",
        "LOCK.MACQUIRE x {}",
        "LOCK.MACQUIRE 2 {}",
        "LOCK.MACQUIRE 2 {} {}",
        "LOCK.MACQUIRE 65 {}",
        "LOCK.MRELEASE 0 {}",
        "LOCK.CANCEL",
        "LOCK.CANCEL {} TOKEN 5",
        "LOCK.SHOW",
        "LOCK.SHOW {} {}",
        "LOCK.LIST COUNT 0",
        "LOCK.LIST COUNT x",
        "LOCK.LIST CURSOR x",
        "LOCK.CHECK {}",
        "LOCK.CHECK {} x",
        "LOCK.PLEASE",
        "LOCK.PLEASE {} MESSAGE",
        "LOCK.BREAK {}",
        "LOCK.BREAK {} REASON why",
        "LOCK.BREAK {} AFTER 0",
        "LOCK.OBJECT",
    ],
)
def test_what_is_malformed_is_badarg_and_does_nothing(client, name, words):
    wire = client()
    assert wire.error(*words.format(name, name).split())[0] == "BADARG"
    shown = wire.map("LOCK.SHOW", name)
    assert (shown["holders"], shown["queue"]) == ([], [])


def test_commands_and_options_are_case_insensitive(client, name):
    one, two = client(), client()
    assert one.do("lock.Acquire", name, "shared", "wait", 0, "owner", "o") > 0
    assert two.do("LOCK.acquire", name, "Shared", "barge") > 0
    assert two.do("lock.release", name) == 0
    assert one.do("Lock.Release", name, "Owner", "o") == 0


# Showing.


@pytest.mark.parametrize("version", [2, 3])
def test_an_unknown_lock_shows_without_holders(connect, name, version):
    reply = connect(version).do("LOCK.SHOW", name)
    assert isinstance(reply, Map) == (version == 3)
    shown = plain(reply)
    assert list(shown) == LOCK_KEYS
    assert shown["name"] == name.encode()
    assert shown["holders"] == [] and shown["queue"] == []
    assert (shown["slots"], shown["delay_left_ms"], shown["earliest_ms"]) == (0, 0, 0)


@pytest.mark.parametrize("version", [2, 3])
def test_show_tells_holder_and_queue(client, name, version):
    one = client("NAME", "worker-7", "TTL", 5000)
    two = client("NAME", "worker-8")
    looker = client(version=version)
    token = one.do("LOCK.ACQUIRE", name, "OWNER", "o", "VALUE", "v")
    two.send("LOCK.ACQUIRE", name, "SHARED", "WAIT", 5000, "OWNER", "p")
    queued(looker, name)
    shown = looker.map("LOCK.SHOW", name)
    assert shown["mode"] == b"exclusive"
    assert 4000 < shown["earliest_ms"] <= 5000
    holder, waiter = plain(shown["holders"][0]), plain(shown["queue"][0])
    assert isinstance(shown["holders"][0], Map) == (version == 3)
    assert list(holder) == HOLDER_KEYS + ["user"]
    assert holder["session"] == one.session
    assert holder["client"] == b"worker-7"
    assert holder["address"].startswith(b"127.0.0.1:")
    assert (holder["owner"], holder["value"]) == (b"o", b"v")
    assert (holder["token"], holder["mode"]) == (token, b"exclusive")
    assert holder["count"] == 1
    assert 0 <= holder["since_ms"] < 5000
    assert 4000 < holder["lease_left_ms"] <= 5000
    assert list(waiter) == WAITER_KEYS
    assert (waiter["session"], waiter["client"]) == (two.session, b"worker-8")
    assert (waiter["owner"], waiter["mode"]) == (b"p", b"shared")
    assert waiter["index"] > 0 and 0 <= waiter["waiting_ms"] < 5000
    one.do("LOCK.RELEASE", name, "OWNER", "o")
    assert two.receive() > token


def test_list_goes_in_order_page_by_page(client, name):
    wire = client()
    names = ["%s/%d" % (name, i) for i in range(5)]
    for one in reversed(names):
        wire.do("LOCK.ACQUIRE", one)
    found, cursor, pages = [], b"0", 0
    while True:
        cursor, page = wire.do(
            "LOCK.LIST", "PREFIX", name, "COUNT", 2, "CURSOR", cursor
        )
        found += [plain(one)["name"].decode() for one in page]
        pages += 1
        if cursor == b"0":
            break
    assert (found, pages) == (names, 3)
    assert list(plain(page[0])) == LOCK_KEYS
    assert wire.do("LOCK.LIST", "PREFIX", name + "-none") == [b"0", []]


def test_why_explains_in_words_what_show_tells(client, name):
    one, two = client(), client()
    one.do("LOCK.ACQUIRE", name)
    two.send("LOCK.ACQUIRE", name, "WAIT", 5000)
    queued(one, name)
    shown = one.map("LOCK.WHY", name)
    assert list(shown) == LOCK_KEYS + ["hold_count", "wait_count", "why"]
    holder = plain(shown["holders"][0])
    assert list(holder) == HOLDER_KEYS + [
        "user", "ttl_ms", "linger_ms", "blacklisted", "waits_for"
    ]
    assert (shown["hold_count"], shown["wait_count"]) == (1, 1)
    assert shown["why"][0].startswith(b"'%s' is held, exclusive" % name.encode())
    assert b"1 waiting" in shown["why"]


def test_top_and_graph_tell_who_keeps_whom(client, name):
    one, two = client(), client()
    one.do("LOCK.ACQUIRE", name)
    two.send("LOCK.ACQUIRE", name, "WAIT", 5000)
    queued(one, name)
    top = one.map("LOCK.TOP", "PREFIX", name, "COUNT", 5)
    assert list(top) == (
        "window_ms grants lock_count session_count hold_count wait_count is_cut "
        "locks waits"
    ).split()
    lock, wait = plain(top["locks"][0]), plain(top["waits"][0])
    assert list(lock) == (
        "name grants mode holders queue holder holder_session holder_user since_ms"
    ).split()
    assert (lock["name"], lock["grants"], lock["queue"]) == (name.encode(), 1, 1)
    assert list(wait) == (
        "name waiting_ms client session user owner mode holder holder_session"
        " holder_user"
    ).split()
    assert wait["holder_session"] == lock["holder_session"] == one.session
    graph = one.map("LOCK.GRAPH", "PREFIX", name)
    assert list(graph) == ["wait_count", "is_cut", "nodes", "edges"]
    waiter, holder = map(plain, graph["nodes"])
    assert list(waiter) == (
        "session client address owner holds waits blocks root cycle"
    ).split()
    assert (holder["session"], holder["root"]) == (one.session, 1)
    assert (waiter["root"], waiter["cycle"], holder["blocks"]) == (0, 0, 1)
    edge = plain(graph["edges"][0])
    assert list(edge) == "from to lock mode waiting_ms queue".split()
    assert (edge["from"], edge["to"], edge["lock"]) == (0, 1, name.encode())


def test_check_knows_the_holders_token_only(client, name):
    wire = client()
    token = wire.do("LOCK.ACQUIRE", name)
    stranger = client()
    assert stranger.do("LOCK.CHECK", name, token) == 1
    assert stranger.do("LOCK.CHECK", name, token - 1) == 0
    assert stranger.do("LOCK.CHECK", name, token + 1) == 0
    assert stranger.do("LOCK.CHECK", name + "x", token) == 0
    release(wire, name)
    assert stranger.do("LOCK.CHECK", name, token) == 0


def test_reading_needs_no_session(connect, name):
    wire = connect()
    assert wire.do("LOCK.CHECK", name, 1) == 0
    assert wire.do("LOCK.LIST", "PREFIX", name) == [b"0", []]
    assert wire.do("LOCK.PLEASE", name) == 0


# Waiting.


def test_a_waiter_gets_the_lock_when_it_is_given_back(client, name):
    one, two = client(), client()
    token = one.do("LOCK.ACQUIRE", name)
    two.send("LOCK.ACQUIRE", name, "WAIT", 5000)
    queued(one, name)
    release(one, name)
    assert two.receive() > token


def test_a_wait_ends_with_nil_and_leaves_the_queue(client, name):
    one, two = client(), client(version=3)
    one.do("LOCK.ACQUIRE", name)
    begun = time.monotonic()
    assert two.do("LOCK.ACQUIRE", name, "WAIT", 200) is NULL
    assert 0.19 < time.monotonic() - begun < 0.6
    assert one.map("LOCK.SHOW", name)["queue"] == []


def test_first_come_first_served(client, name):
    holder = client()
    holder.do("LOCK.ACQUIRE", name)
    waiters = [client() for _ in range(4)]
    for i, waiter in enumerate(waiters):
        waiter.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER")
        queued(holder, name, i + 1)
    release(holder, name)
    tokens = []
    for waiter in waiters:
        tokens.append(waiter.receive())
        release(waiter, name)
    assert tokens == sorted(tokens)


def test_asking_again_keeps_the_place_and_takes_the_new_wait(client, connect, name):
    holder, first, second, again = client(), client(), client(), connect()
    holder.do("LOCK.ACQUIRE", name)
    first.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER")
    queued(holder, name)
    second.send("LOCK.ACQUIRE", name, "forever")
    queued(holder, name, 2)
    # A reconnect: the old connection is gone, the place is not.
    first.close()
    again.do("SESSION.ATTACH", first.session, first.secret)
    again.send("LOCK.ACQUIRE", name, "WAIT", 300)
    time.sleep(0.1)
    order = [plain(w)["session"] for w in holder.map("LOCK.SHOW", name)["queue"]]
    assert order == [first.session, second.session]
    assert again.receive() is NULL_BULK
    queued(holder, name, 1)
    release(holder, name)
    assert second.receive() > 0


def test_asking_again_without_wait_gives_the_place_up(client, connect, name):
    holder, one, again = client(), client(), connect()
    holder.do("LOCK.ACQUIRE", name)
    one.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER")
    queued(holder, name)
    again.do("SESSION.ATTACH", one.session, one.secret)
    assert again.do("LOCK.ACQUIRE", name) is NULL_BULK
    assert holder.map("LOCK.SHOW", name)["queue"] == []


def test_cancel_ends_a_wait_with_nil(client, connect, name):
    holder, waiter, other = client(), client(), connect()
    holder.do("LOCK.ACQUIRE", name)
    waiter.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER", "OWNER", "o")
    queued(holder, name)
    other.do("SESSION.ATTACH", waiter.session, waiter.secret)
    assert other.do("LOCK.CANCEL", name) == 0
    assert other.do("LOCK.CANCEL", name, "OWNER", "o") == 1
    assert waiter.receive() is NULL_BULK
    assert other.do("LOCK.CANCEL", name, "OWNER", "o") == 0
    assert holder.map("LOCK.SHOW", name)["queue"] == []


def test_a_stranger_cannot_cancel(client, name):
    holder, waiter, stranger = client(), client(), client()
    holder.do("LOCK.ACQUIRE", name)
    waiter.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER")
    queued(holder, name)
    assert stranger.do("LOCK.CANCEL", name) == 0
    release(holder, name)
    assert waiter.receive() > 0


def test_what_follows_a_wait_waits_too(client, name):
    holder, waiter = client(), client()
    holder.do("LOCK.ACQUIRE", name)
    waiter.send("LOCK.ACQUIRE", name, "WAIT", 3000)
    waiter.send("PING")
    waiter.send("LOCK.RELEASE", name)
    assert waiter.is_silent(0.2)
    release(holder, name)
    assert waiter.receive() > 0
    assert waiter.receive() == "PONG"
    assert waiter.receive() == 0


def test_close_ends_the_sessions_waits(client, connect, name):
    holder, waiter, other = client(), client(), connect()
    holder.do("LOCK.ACQUIRE", name)
    waiter.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER")
    queued(holder, name)
    other.do("SESSION.ATTACH", waiter.session, waiter.secret)
    assert other.do("SESSION.CLOSE") == 0
    with pytest.raises(Exception, match="EXPIRED"):
        waiter.receive()
    assert holder.map("LOCK.SHOW", name)["queue"] == []


# Modes.


def test_readers_share_and_a_writer_waits_for_all(client, name):
    readers, writer = [client() for _ in range(3)], client()
    tokens = [one.do("LOCK.ACQUIRE", name, "SHARED") for one in readers]
    assert all(token > 0 for token in tokens)
    assert writer.map("LOCK.SHOW", name)["mode"] == b"shared"
    assert writer.do("LOCK.ACQUIRE", name) is NULL_BULK
    writer.send("LOCK.ACQUIRE", name, "WAIT", 5000)
    queued(readers[0], name)
    for one in readers:
        assert writer.is_silent(0.05)
        release(one, name)
    assert writer.receive() > max(tokens)


def test_a_reader_passes_a_waiting_writer_only_by_barging(client, name):
    reader, writer, late = client(), client(), client()
    reader.do("LOCK.ACQUIRE", name, "SHARED")
    writer.send("LOCK.ACQUIRE", name, "WAIT", 5000)
    queued(reader, name)
    assert late.do("LOCK.ACQUIRE", name, "SHARED") is NULL_BULK
    assert late.do("LOCK.ACQUIRE", name, "SHARED", "BARGE") > 0
    first, second = map(plain, reader.map("LOCK.SHOW", name)["holders"])
    assert "barged" not in first and second["barged"] == 1
    release(reader, name)
    # The rest came after the writer: no other request joins it.
    assert reader.do("LOCK.ACQUIRE", name, "SHARED", "BARGE") is NULL_BULK
    assert writer.is_silent(0.1)
    release(late, name)
    assert writer.receive() > 0


def test_readers_at_the_head_are_granted_together(client, name):
    writer, readers = client(), [client() for _ in range(3)]
    writer.do("LOCK.ACQUIRE", name)
    for i, one in enumerate(readers):
        one.send("LOCK.ACQUIRE", name, "SHARED", "WAIT", 5000)
        queued(writer, name, i + 1)
    release(writer, name)
    tokens = {one.receive() for one in readers}
    assert len(tokens) == 1  # One entry granted them.


def test_slots_let_so_many_in(client, name):
    clients = [client() for _ in range(4)]
    got = [one.do("LOCK.ACQUIRE", name, "SLOTS", 3) for one in clients]
    assert all(token > 0 for token in got[:3]) and got[3] is NULL_BULK
    shown = clients[0].map("LOCK.SHOW", name)
    assert (shown["mode"], shown["slots"], len(shown["holders"])) == (b"slots", 3, 3)
    clients[3].send("LOCK.ACQUIRE", name, "SLOTS", 3, "WAIT", 5000)
    queued(clients[0], name)
    release(clients[1], name)
    assert clients[3].receive() > 0


def test_slots_unlike_the_holders_are_badarg(client, name):
    one, two = client(), client()
    one.do("LOCK.ACQUIRE", name, "SLOTS", 3)
    assert two.error("LOCK.ACQUIRE", name, "SLOTS", 4)[0] == "BADARG"
    release(one, name)
    assert two.do("LOCK.ACQUIRE", name, "SLOTS", 4) > 0


def test_modes_exclude_each_other(client, name):
    slots, shared, exclusive = client(), client(), client()
    slots.do("LOCK.ACQUIRE", name, "SLOTS", 2)
    assert shared.do("LOCK.ACQUIRE", name, "SHARED") is NULL_BULK
    assert exclusive.do("LOCK.ACQUIRE", name) is NULL_BULK
    release(slots, name)
    shared.do("LOCK.ACQUIRE", name, "SHARED")
    assert slots.do("LOCK.ACQUIRE", name, "SLOTS", 2) is NULL_BULK


def test_barge_passes_the_queue_and_not_the_holder(client, name):
    holder, waiter, barger = client(), client(), client()
    assert holder.do("LOCK.MACQUIRE", 1, name + "other")[0] > 0
    # A request for two locks is in both queues while one of them is free.
    waiter.send("LOCK.MACQUIRE", 2, name, name + "other", "WAIT", 5000)
    queued(holder, name)
    assert barger.do("LOCK.ACQUIRE", name) is NULL_BULK
    assert barger.do("LOCK.ACQUIRE", name, "BARGE") > 0
    assert holder.do("LOCK.ACQUIRE", name, "BARGE") is NULL_BULK
    release(holder, name + "other")
    assert waiter.is_silent(0.1)
    release(barger, name)
    assert len(waiter.receive()) == 2


def test_mrelease_of_one_counts_what_was_released(client, name):
    one = client()
    assert one.do("LOCK.MRELEASE", 1, name) == 0
    one.do("LOCK.ACQUIRE", name)
    one.do("LOCK.ACQUIRE", name)
    assert one.do("LOCK.MRELEASE", 1, name) == 1
    assert one.do("LOCK.MRELEASE", 1, name, "REQ", 1) == 1
    assert one.do("LOCK.MRELEASE", 1, name, "REQ", 1) == 1
    assert one.do("LOCK.MRELEASE", 1, name) == 0


def test_a_token_tells_holds_of_one_owner_apart(client, name):
    one, two = client(), client()
    one.do("LOCK.ACQUIRE", name, "SHARED", "OWNER", "o")
    token = two.do("LOCK.ACQUIRE", name, "SHARED", "OWNER", "o")
    assert one.error("LOCK.RELEASEIF", name, "OWNER", "o")[0] == "BADARG"
    assert one.do("LOCK.RELEASEIF", name, "OWNER", "o", "TOKEN", token) == 1
    assert two.error("LOCK.RELEASE", name, "OWNER", "o")[0] == "NOTHELD"
    assert one.do("LOCK.RELEASE", name, "OWNER", "o") == 0


def test_convert_down_keeps_the_token_and_lets_readers_in(client, name):
    one, two = client(), client()
    token = one.do("LOCK.ACQUIRE", name)
    two.send("LOCK.ACQUIRE", name, "SHARED", "WAIT", 5000)
    queued(one, name)
    assert one.do("LOCK.CONVERT", name, "SHARED") == token
    assert two.receive() > token
    assert one.map("LOCK.SHOW", name)["mode"] == b"shared"


def test_convert_up_gets_a_new_token(client, name):
    one = client()
    token = one.do("LOCK.ACQUIRE", name, "SHARED")
    upgraded = one.do("LOCK.CONVERT", name, "EXCLUSIVE")
    assert upgraded > token
    assert one.do("LOCK.CONVERT", name, "EXCLUSIVE") == upgraded
    assert one.map("LOCK.SHOW", name)["mode"] == b"exclusive"
    assert one.do("LOCK.CHECK", name, token) == 0


def test_an_upgrade_waits_ahead_of_the_queue(client, name):
    one, two, writer = client(), client(), client()
    one.do("LOCK.ACQUIRE", name, "SHARED")
    two.do("LOCK.ACQUIRE", name, "SHARED")
    assert one.do("LOCK.CONVERT", name, "EXCLUSIVE") is NULL_BULK
    writer.send("LOCK.ACQUIRE", name, "WAIT", 5000)
    queued(two, name)
    one.send("LOCK.CONVERT", name, "EXCLUSIVE", "WAIT", 5000)
    queued(two, name, 2)
    release(two, name)
    assert one.receive() > 0
    assert writer.is_silent(0.1)
    release(one, name)
    assert writer.receive() > 0


def test_of_two_upgraders_the_second_gets_deadlock(client, name):
    one, two = client(), client()
    one.do("LOCK.ACQUIRE", name, "SHARED")
    two.do("LOCK.ACQUIRE", name, "SHARED")
    one.send("LOCK.CONVERT", name, "EXCLUSIVE", "WAIT", 5000)
    queued(two, name)
    assert two.error("LOCK.CONVERT", name, "EXCLUSIVE", "WAIT", 5000)[0] == "DEADLOCK"
    release(two, name)
    assert one.receive() > 0


def test_convert_of_what_is_not_held_is_notheld(client, name):
    wire = client()
    assert wire.error("LOCK.CONVERT", name, "SHARED")[0] == "NOTHELD"
    assert wire.error("LOCK.CONVERT", name, "EXCLUSIVE", "OWNER", "x")[0] == "NOTHELD"


# Several at once.


def test_macquire_is_all_or_nothing(client, name):
    one, two = client(), client()
    three = client(version=3)
    names = [name + "a", name + "b", name + "c"]
    one.do("LOCK.ACQUIRE", names[1])
    assert two.do("LOCK.MACQUIRE", 3, *names) is NULL_ARRAY
    assert three.do("LOCK.MACQUIRE", 3, *names) is NULL
    for free in (names[0], names[2]):
        assert two.map("LOCK.SHOW", free)["holders"] == []
    release(one, names[1])
    tokens = two.do("LOCK.MACQUIRE", 3, *names)
    assert len(tokens) == 3 and len(set(tokens)) == 1
    assert two.do("LOCK.MRELEASE", 3, *names) == 3
    assert two.do("LOCK.MRELEASE", 3, *names) == 0


def test_macquire_waits_until_all_are_free(client, name):
    one, two, both = client(), client(), client()
    one.do("LOCK.ACQUIRE", name + "a")
    two.do("LOCK.ACQUIRE", name + "b")
    both.send("LOCK.MACQUIRE", 2, name + "a", name + "b", "WAIT", 5000, "SHARED")
    queued(one, name + "a")
    queued(one, name + "b")
    release(one, name + "a")
    assert both.is_silent(0.1)
    release(two, name + "b")
    assert len(both.receive()) == 2
    shown = one.map("LOCK.SHOW", name + "a")
    assert shown["mode"] == b"shared"


def test_opposite_orders_do_not_deadlock(client, name):
    holder, one, two = client(), client(), client()
    a, b = name + "a", name + "b"
    holder.do("LOCK.MACQUIRE", 2, a, b)
    one.send("LOCK.MACQUIRE", 2, a, b, "WAIT", 5000)
    queued(holder, a)
    two.send("LOCK.MACQUIRE", 2, b, a, "WAIT", 5000)
    queued(holder, a, 2)
    assert holder.do("LOCK.MRELEASE", 2, a, b) == 2
    assert len(one.receive()) == 2
    assert one.do("LOCK.MRELEASE", 2, b, a) == 2
    assert len(two.receive()) == 2


def test_sixty_four_at_once(client, name):
    wire = client()
    names = ["%s-%d" % (name, i) for i in range(64)]
    assert len(wire.do("LOCK.MACQUIRE", 64, *names, "OWNER", "o")) == 64
    assert wire.do("LOCK.MRELEASE", 64, *names, "OWNER", "o") == 64


# Deadlock, delay, hold.


def test_a_deadlock_is_refused_and_named(client, name):
    one, two = client(), client()
    a, b = name + "a", name + "b"
    one.do("LOCK.ACQUIRE", a)
    two.do("LOCK.ACQUIRE", b)
    one.send("LOCK.ACQUIRE", b, "WAIT", 5000)
    queued(two, b)
    code, cycle = two.error("LOCK.ACQUIRE", a, "WAIT", 5000)
    assert code == "DEADLOCK"
    for part in (a, b, str(one.session), str(two.session)):
        assert part in cycle
    # A try cannot deadlock: it is nil.
    assert two.do("LOCK.ACQUIRE", a) is NULL_BULK
    release(two, b)
    assert one.receive() > 0


def test_a_deadlock_of_owners_of_one_session(client, connect, name):
    one, other = client(), connect()
    other.do("SESSION.ATTACH", one.session, one.secret)
    a, b = name + "a", name + "b"
    one.do("LOCK.ACQUIRE", a, "OWNER", "x")
    one.do("LOCK.ACQUIRE", b, "OWNER", "y")
    other.send("LOCK.ACQUIRE", b, "OWNER", "x", "WAIT", 5000)
    queued(one, b)
    assert one.error("LOCK.ACQUIRE", a, "OWNER", "y", "WAIT", 5000)[0] == "DEADLOCK"


def test_the_earliest_moment_counts_the_linger_and_is_kept(client, name):
    dead, other = client("TTL", 10000, "LINGER", 500), client()
    dead.do("LOCK.ACQUIRE", name, "DELAY", 600)
    shown = other.map("LOCK.SHOW", name)
    assert 1100 <= shown["earliest_ms"] <= 1101
    assert 5000 < plain(shown["holders"][0])["lease_left_ms"]
    other.send("LOCK.ACQUIRE", name, "WAIT", 9000)
    began = time.monotonic()
    dead.close()
    assert other.receive() > 0
    assert 1.1 <= time.monotonic() - began < 5


def test_delay_keeps_the_lock_closed_after_an_unclean_end(client, name):
    dead, other = client("TTL", 200), client()
    dead.do("LOCK.ACQUIRE", name, "DELAY", 600)
    shown = other.map("LOCK.SHOW", name)
    holder = plain(shown["holders"][0])
    assert list(holder) == HOLDER_KEYS + ["delay_ms", "user"]
    ends = holder["lease_left_ms"] + holder["delay_ms"]
    assert ends <= shown["earliest_ms"] <= ends + 1
    eventually(lambda: other.map("LOCK.SHOW", name)["holders"] == [])
    shown = other.map("LOCK.SHOW", name)
    assert 300 < shown["delay_left_ms"] <= 600
    assert 300 < shown["earliest_ms"] <= 600
    assert other.do("LOCK.ACQUIRE", name) is NULL_BULK
    assert other.do("LOCK.ACQUIRE", name, "BARGE") is NULL_BULK
    begun = time.monotonic()
    assert other.do("LOCK.ACQUIRE", name, "WAIT", 5000) > 0
    assert 0.3 < time.monotonic() - begun < 0.9


def test_a_clean_end_has_no_delay(client, name):
    one, other = client(), client()
    one.do("LOCK.ACQUIRE", name, "DELAY", 5000)
    release(one, name)
    assert other.do("LOCK.ACQUIRE", name, "DELAY", 5000) > 0
    other.do("SESSION.CLOSE")
    assert one.do("LOCK.ACQUIRE", name) > 0


def test_hold_bounds_a_hold_whatever_the_heartbeats(client, name):
    one, other = client(), client()
    begun = time.monotonic()
    token = one.do("LOCK.ACQUIRE", name, "HOLD", 300)
    holder = plain(other.map("LOCK.SHOW", name)["holders"][0])
    assert list(holder) == HOLDER_KEYS + ["hold_left_ms", "user"]
    assert 0 < holder["hold_left_ms"] <= 300
    one.do("SESSION.KEEP")
    assert other.do("LOCK.ACQUIRE", name, "WAIT", 3000) > token
    assert 0.3 <= time.monotonic() - begun < 0.6
    assert one.error("LOCK.RELEASE", name)[0] == "NOTHELD"


def test_hold_that_ended_is_told_by_keep(client, name):
    one = client()
    token = one.do("LOCK.ACQUIRE", name, "HOLD", 50)
    eventually(lambda: one.map("SESSION.KEEP", "FULL")["ended"] != [])
    ended = plain(one.map("SESSION.KEEP", "FULL")["ended"][0])
    assert (ended["lock"], ended["token"]) == (name.encode(), token)


# Somebody else's lock.


def test_releaseif_frees_only_what_still_matches(client, connect, name):
    one, two, third = client(), client(), connect()
    token = one.do("LOCK.ACQUIRE", name, "OWNER", "o")
    two.send("LOCK.ACQUIRE", name, "WAIT", 5000)
    queued(one, name)
    assert third.do("LOCK.RELEASEIF", name, "OWNER", "p") == 0
    assert third.do("LOCK.RELEASEIF", name, "OWNER", "o", "TOKEN", token + 1) == 0
    assert third.do("LOCK.RELEASEIF", name + "x", "OWNER", "o") == 0
    assert (
        third.do("LOCK.RELEASEIF", name, "OWNER", "o", "SESSION", two.session) == 0
    )
    assert third.do("LOCK.RELEASEIF", name, "OWNER", "o", "TOKEN", token) == 1
    assert two.receive() > token
    assert third.do("LOCK.RELEASEIF", name, "OWNER", "o", "TOKEN", token) == 0
    assert one.error("LOCK.RELEASE", name, "OWNER", "o")[0] == "NOTHELD"


def test_releaseif_of_an_empty_owner_needs_the_token(client, connect, name):
    one, third = client(), connect()
    token = one.do("LOCK.ACQUIRE", name)
    assert third.error("LOCK.RELEASEIF", name, "OWNER", "")[0] == "BADARG"
    assert third.do("LOCK.RELEASEIF", name, "OWNER", "", "TOKEN", token) == 1


def test_releaseif_ends_a_counted_hold_whole(client, connect, name):
    one = client()
    one.do("LOCK.ACQUIRE", name, "OWNER", "o")
    one.do("LOCK.ACQUIRE", name, "OWNER", "o")
    assert connect().do("LOCK.RELEASEIF", name, "OWNER", "o") == 1
    assert one.map("LOCK.SHOW", name)["holders"] == []
