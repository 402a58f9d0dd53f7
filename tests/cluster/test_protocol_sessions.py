# SPDX-License-Identifier: MIT
"""Sessions to the letter: SESSION.*, leases, linger, rights to act."""

import time

import pytest

from cluster import ReplyError
from wire import (
    NULL_BULK,
    OK,
    Map,
    connect,
    encode,
    eventually,
    name,
    opened,
    opens,
    plain,
    proof_of,
    world,
)

SHOWN = [
    "id",
    "name",
    "address",
    "ttl_ms",
    "linger_ms",
    "left_ms",
    "holds",
    "waits",
    "labels",
    "blacklisted",
    "user",
    "will",
]


def is_hex(secret):
    return len(secret) == 32 and set(secret) <= set(b"0123456789abcdef")


@pytest.mark.parametrize("version", [2, 3])
def test_open_answers_a_map_with_the_defaults(connect, version):
    reply = connect(version).do("SESSION.OPEN")
    assert isinstance(reply, Map) == (version == 3)
    reply = plain(reply)
    assert {"id", "secret", "ttl_ms", "linger_ms"} <= set(reply)
    assert isinstance(reply["id"], int) and 0 < reply["id"] < 2**53
    assert is_hex(reply["secret"])
    assert reply["ttl_ms"] == 10000
    assert reply["linger_ms"] == 0
    assert reply["trust_ms"] == 8000


def test_open_takes_all_its_options_in_any_case_and_order(connect):
    wire = connect()
    reply = wire.map(
        *"session.open label zone a Name worker-7 LINGER 500 ttl 2000".split(),
        "LABEL", "shelf", "b c",
    )  # fmt: skip
    assert reply["ttl_ms"] == 2000
    assert reply["linger_ms"] == 500
    assert reply["trust_ms"] == 400
    shown = wire.map("SESSION.SHOW", reply["id"])
    assert shown["name"] == b"worker-7"
    assert plain(shown["labels"]) == {"zone": b"a", "shelf": b"b c"}


@pytest.mark.parametrize(
    "options, ttl, linger",
    [
        (("TTL", 100), 100, 0),
        (("TTL", 3600000), 3600000, 0),
        (("LINGER", 50), 10000, 50),
        (("LINGER", 10000), 10000, 10000),
        (("TTL", 300, "LINGER", 300), 300, 300),
    ],
)
def test_the_ends_of_the_ranges_are_taken(connect, options, ttl, linger):
    reply = connect().map("SESSION.OPEN", *options)
    assert (reply["ttl_ms"], reply["linger_ms"]) == (ttl, linger)


@pytest.mark.parametrize(
    "options",
    [
        ("TTL", 99),
        ("TTL", 3600001),
        ("TTL", 0),
        ("TTL", -1),
        ("TTL", "10s"),
        ("TTL", "1e4"),
        ("TTL", " 1000"),
        ("TTL", "+1000"),
        ("TTL", 1000.0),
        ("TTL", ""),
        ("TTL", "99999999999999999999999"),
        ("TTL",),
        ("LINGER", 49),
        ("LINGER", 10001),
        ("TTL", 1000, "LINGER", 1001),
        ("TTL", 1000, "TTL", 1000),
        ("NAME",),
        ("NAME", "x" * 129),
        ("LABEL", "k"),
        ("LABEL", "", "v"),
        ("LABEL", "k", "v" * 129),
        ("WAIT", 5),
        ("PROOF", "0" * 63),
        ("PROOF", "g" * 64),
        ("nonsense",),
    ],
)
def test_what_is_out_of_range_is_badarg(connect, options):
    wire = connect()
    assert wire.error("SESSION.OPEN", *options)[0] == "BADARG"
    assert wire.do("PING") == "PONG"


def test_ids_grow_and_secrets_differ(connect):
    wire = connect()
    sessions = [opens(wire) for _ in range(5)]
    ids = [one[0] for one in sessions]
    assert ids == sorted(set(ids))
    assert len({one[1] for one in sessions}) == 5


@pytest.mark.parametrize("version", [2, 3])
def test_show_has_the_keys_of_the_page(connect, name, version):
    wire = connect(version)
    id, _ = opens(wire, "NAME", "me", "TTL", 5000)
    wire.do("LOCK.ACQUIRE", name)
    reply = wire.do("SESSION.SHOW", id)
    assert isinstance(reply, Map) == (version == 3)
    shown = plain(reply)
    assert list(shown) == SHOWN
    assert shown["id"] == id
    assert shown["name"] == b"me"
    assert shown["address"].startswith(b"127.0.0.1:")
    assert (shown["ttl_ms"], shown["linger_ms"]) == (5000, 0)
    assert 4000 < shown["left_ms"] <= 5000
    assert (shown["holds"], shown["waits"]) == (1, 0)
    assert shown["labels"] == []
    assert shown["blacklisted"] is (False if version == 3 else 0) or (
        version == 2 and shown["blacklisted"] == 0
    )


def test_show_counts_waits(connect, name):
    one, two, looker = connect(), connect(), connect()
    opens(one)
    id, _ = opens(two)
    one.do("LOCK.ACQUIRE", name)
    two.send("LOCK.ACQUIRE", name, "WAIT", 5000)
    eventually(lambda: looker.map("SESSION.SHOW", id)["waits"] == 1)
    one.do("LOCK.RELEASE", name)
    assert two.receive() > 0


def test_an_unknown_session_shows_as_nosession(connect):
    for id in (1, 2**52):
        assert connect().error("SESSION.SHOW", id)[0] == "NOSESSION"
    assert connect().error("SESSION.SHOW", "x")[0] == "BADARG"
    assert connect().error("SESSION.SHOW")[0] == "BADARG"


def test_a_secret_attaches_another_connection(connect, name):
    one, two = connect(), connect()
    id, secret = opens(one)
    token = one.do("LOCK.ACQUIRE", name)
    assert connect().do("SESSION.ATTACH", id, secret) == OK
    reply = plain(two.do("SESSION.ATTACH", id, secret, "FULL"))
    assert (reply["ttl_ms"], reply["linger_ms"], reply["trust_ms"]) == (10000, 0, 8000)
    assert two.do("LOCK.ACQUIRE", name) == token
    assert two.do("LOCK.RELEASE", name) == 1
    assert one.do("LOCK.RELEASE", name) == 0


def test_who_shows_a_proof_makes_the_secret_himself(connect):
    secret = "0123456789abcdef" * 2
    for proof in (proof_of(secret), proof_of(secret).upper()):
        wire = connect()
        reply = wire.map("SESSION.OPEN", "PROOF", proof)
        assert set(reply) == {"id", "ttl_ms", "linger_ms", "trust_ms"}
        assert connect().do("SESSION.ATTACH", reply["id"], secret) == OK
        assert connect().do("SESSION.KEEP", reply["id"], secret.upper()) == 10000
        # The hash opens nothing.
        for wrong in (proof[:32], proof):
            error = connect().error("SESSION.ATTACH", reply["id"], wrong)
            assert error[0] == "NOSESSION"


def test_a_redis_value_has_no_secret(connect, name):
    wire = connect()
    assert wire.do("SET", name, "v", "NX", "PX", 5000) == OK
    id = plain(wire.map("LOCK.SHOW", name)["holders"][0])["session"]
    for secret in ("0" * 32, ""):
        assert connect().error("SESSION.ATTACH", id, secret)[0] == "NOSESSION"
        assert connect().error("SESSION.KEEP", id, secret)[0] == "NOSESSION"


@pytest.mark.parametrize("version", [2, 3])
def test_full_attach_and_keep_tell_what_a_client_lives_by(connect, version):
    id, secret = opens(connect(), "TTL", 5000, "LINGER", 1000)
    wire = connect(version)
    times = {"ttl_ms": 5000, "linger_ms": 1000, "trust_ms": 800}
    reply = wire.do("SESSION.ATTACH", id, secret, "full")
    assert isinstance(reply, Map) == (version == 3)
    assert plain(reply) == times
    reply = wire.do("SESSION.KEEP", "FULL")
    assert isinstance(reply, Map) == (version == 3)
    assert plain(reply) == {**times, "ended": [], "dropped": 0}
    assert wire.do("SESSION.KEEP", id, secret, "FULL") == reply
    both = wire.do("SESSION.KEEP", id, secret, id, secret, "FULL")
    assert [plain(one) for one in both] == [plain(reply)] * 2


def test_a_session_can_be_attached_at_any_node(connect, world, name):
    id, secret = opens(connect())
    for node in world.cluster.nodes:
        wire = connect(node=node)
        wire.do("SESSION.ATTACH", id, secret.upper())
        assert wire.do("LOCK.ACQUIRE", name) > 0


@pytest.mark.parametrize("secret", ["0" * 32, "", "x", "0" * 31, "g" * 32, "0" * 64])
def test_a_wrong_secret_is_nosession_and_attaches_nothing(connect, secret, name):
    id, _ = opens(connect())
    wire = connect()
    assert wire.error("SESSION.ATTACH", id, secret)[0] == "NOSESSION"
    assert wire.error("LOCK.ACQUIRE", name)[0] == "NOSESSION"


@pytest.mark.parametrize("id", [1, 42, 10**12, 2**52, 2**53 - 1])
def test_attach_to_an_unknown_id_is_nosession(connect, id):
    assert connect().error("SESSION.ATTACH", id, "0" * 32)[0] == "NOSESSION"


def test_attach_to_an_ended_session_is_nosession(connect):
    one = connect()
    id, secret = opens(one)
    one.do("SESSION.CLOSE")
    assert connect().error("SESSION.ATTACH", id, secret)[0] == "NOSESSION"


@pytest.mark.parametrize(
    "words",
    [
        "SESSION.KEEP",
        "SESSION.CLOSE",
        "LOCK.ACQUIRE a",
        "LOCK.RELEASE a",
        "LOCK.CONVERT a SHARED",
        "LOCK.MACQUIRE 1 a",
        "LOCK.MRELEASE 1 a",
        "LOCK.CANCEL a",
        "LOCK.ACQUIRE a SESSION 7",
    ],
)
def test_without_a_session_it_is_nosession(connect, words):
    assert connect().error(*words.split())[0] == "NOSESSION"


def test_keep_tells_the_times_and_renews(connect):
    wire = connect()
    id, _ = opens(wire, "TTL", 2000)
    time.sleep(0.3)
    assert wire.map("SESSION.SHOW", id)["left_ms"] < 1750
    assert wire.do("SESSION.KEEP") == 2000
    kept = wire.map("SESSION.KEEP", "FULL")
    assert kept["ttl_ms"] == 2000
    assert kept["trust_ms"] == 1600
    assert kept["ended"] == []
    assert wire.map("SESSION.SHOW", id)["left_ms"] > 1800


def test_keep_of_several_answers_each_in_its_place(connect):
    wire = connect()
    one, two = opens(wire, "TTL", 1000), opens(wire, "TTL", 3000)
    stranger = connect()
    wire.send(
        "SESSION.KEEP", *one, two[0], "0" * 32, *two, 2**52, "0" * 32
    )
    head = wire.file.readline()
    assert head == b"*4\r\n"
    replies = [wire._read() for _ in range(4)]
    assert (replies[0], replies[2]) == (1000, 3000)
    assert replies[1].code == "NOSESSION"
    assert replies[3].code == "NOSESSION"
    # A pair needs no attachment.
    assert stranger.do("SESSION.KEEP", *one, *two) == [1000, 3000]


def test_keep_of_one_pair_answers_that_one(connect):
    wire = connect()
    one = opens(wire, "TTL", 1000)
    opens(wire, "TTL", 3000)
    assert wire.map("SESSION.KEEP", *one, "FULL")["ttl_ms"] == 1000
    assert wire.error("SESSION.KEEP", one[0], "0" * 32)[0] == "NOSESSION"
    assert wire.error("SESSION.KEEP", one[0])[0] == "BADARG"


def test_the_newest_attached_session_acts_unless_another_is_named(connect, name):
    wire = connect()
    one, _ = opens(wire)
    two, _ = opens(wire)
    wire.do("LOCK.ACQUIRE", name)
    wire.do("LOCK.ACQUIRE", name + "x", "SESSION", one)
    holders = [
        plain(wire.map("LOCK.SHOW", lock)["holders"][0])["session"]
        for lock in (name, name + "x")
    ]
    assert holders == [two, one]
    assert wire.error("LOCK.RELEASE", name, "SESSION", one)[0] == "NOTHELD"
    assert wire.do("LOCK.RELEASE", name, "session", two) == 0
    assert wire.map("SESSION.KEEP", "SESSION", one, "FULL")["ttl_ms"] == 10000
    assert wire.do("SESSION.CLOSE", "SESSION", one) == 1
    assert wire.map("SESSION.KEEP", "FULL")["ttl_ms"] == 10000


def test_a_session_that_is_not_attached_cannot_be_named(connect, name):
    id, _ = opens(connect())
    wire = connect()
    opens(wire)
    assert wire.error("LOCK.ACQUIRE", name, "SESSION", id)[0] == "NOSESSION"


def test_close_gives_the_holds_back_and_tells_how_many(connect, name):
    wire = connect()
    id, _ = opens(wire)
    for i in range(3):
        wire.do("LOCK.ACQUIRE", name + str(i))
    wire.do("LOCK.ACQUIRE", name + "0")
    assert wire.do("SESSION.CLOSE") == 3
    assert wire.map("LOCK.SHOW", name + "0")["holders"] == []
    assert wire.error("SESSION.SHOW", id)[0] == "NOSESSION"
    assert wire.error("LOCK.ACQUIRE", name)[0] in ("NOSESSION", "EXPIRED")


def test_close_of_nothing_held_is_zero(connect):
    wire = connect()
    opens(wire)
    assert wire.do("SESSION.CLOSE") == 0


def test_a_session_closed_elsewhere_is_expired_here(connect, name):
    one, two = connect(), connect()
    id, secret = opens(one)
    two.do("SESSION.ATTACH", id, secret)
    one.do("SESSION.CLOSE")
    assert two.error("SESSION.KEEP")[0] == "EXPIRED"
    assert two.error("LOCK.ACQUIRE", name)[0] == "EXPIRED"
    assert two.error("LOCK.RELEASE", name)[0] == "EXPIRED"


def test_it_expires_within_a_tenth_of_a_second_of_its_deadline(connect, name):
    wire, other = connect(), connect()
    opens(other)
    for _ in range(3):
        begun = time.monotonic()
        opens(wire, "TTL", 300)
        opened_at = time.monotonic()
        wire.do("LOCK.ACQUIRE", name)
        assert other.do("LOCK.ACQUIRE", name, "WAIT", 3000) > 0
        granted = time.monotonic()
        assert granted - begun >= 0.3
        assert granted - opened_at < 0.3 + 0.1 + 0.05
        other.do("LOCK.RELEASE", name)
        assert wire.error("SESSION.KEEP")[0] == "EXPIRED"


def test_only_keep_moves_the_lease(connect, name):
    wire, other = connect(), connect()
    id, secret = opens(wire, "TTL", 600)
    by = time.monotonic() + 1.2
    while time.monotonic() < by:
        try:
            wire.do("LOCK.ACQUIRE", name)
            wire.do("SESSION.ATTACH", id, secret)
            wire.do("LOCK.SHOW", name)
            wire.do("PING")
        except Exception as error:  # The end that is waited for.
            assert str(error).split()[0] in ("EXPIRED", "NOSESSION")
            return
        time.sleep(0.02)
    raise AssertionError("requests kept the session alive")


def test_keep_on_one_connection_serves_a_wait_on_another(connect, name):
    holder, waiter, keeper = connect(), connect(), connect()
    opens(holder)
    holder.do("LOCK.ACQUIRE", name)
    id, secret = opens(waiter, "TTL", 300)
    waiter.send("LOCK.ACQUIRE", name, "WAIT", "FOREVER")
    for _ in range(12):
        keeper.do("SESSION.KEEP", id, secret)
        time.sleep(0.05)
    holder.do("LOCK.RELEASE", name)
    assert waiter.receive() > 0


def test_a_waiter_that_is_not_kept_is_told_expired(connect, name):
    holder, waiter = connect(), connect()
    opens(holder)
    holder.do("LOCK.ACQUIRE", name)
    opens(waiter, "TTL", 200)
    assert waiter.error("LOCK.ACQUIRE", name, "WAIT", "FOREVER")[0] == "EXPIRED"
    assert holder.map("LOCK.SHOW", name)["queue"] == []


def test_linger_ends_a_session_soon_after_its_last_connection(connect, name):
    one, two, other = connect(), connect(), connect()
    id, secret = opens(one, "TTL", 10000, "LINGER", 200)
    two.do("SESSION.ATTACH", id, secret)
    one.do("LOCK.ACQUIRE", name)
    opens(other)
    one.close()
    time.sleep(0.4)
    assert other.do("LOCK.ACQUIRE", name) is NULL_BULK
    two.close()
    begun = time.monotonic()
    assert other.do("LOCK.ACQUIRE", name, "WAIT", 5000) > 0
    assert 0.19 < time.monotonic() - begun < 0.2 + 0.1 + 0.1


def test_linger_begins_when_the_last_connection_detaches(connect, name):
    one, two, other = connect(), connect(), connect()
    id, secret = opens(one, "TTL", 10000, "LINGER", 200)
    neighbour, _ = opens(one, "TTL", 10000, "LINGER", 200)
    two.do("SESSION.ATTACH", id, secret)
    two.do("LOCK.ACQUIRE", name)
    one.do("LOCK.ACQUIRE", name + "b")
    opens(other)
    assert one.do("SESSION.DETACH", "SESSION", id) == OK
    assert one.error("SESSION.DETACH", "SESSION", id)[0] == "NOSESSION"
    time.sleep(0.4)
    assert other.do("LOCK.ACQUIRE", name) is NULL_BULK
    assert two.do("SESSION.DETACH") == OK
    begun = time.monotonic()
    assert other.do("LOCK.ACQUIRE", name, "WAIT", 5000) > 0
    assert 0.19 < time.monotonic() - begun < 0.2 + 0.1 + 0.1
    assert two.error("SESSION.DETACH")[0] == "NOSESSION"
    assert two.error("SESSION.DETACH", "SESSION", "x")[0] == "BADARG"
    assert one.do("LOCK.RELEASE", name + "b", "SESSION", neighbour) == 0


def test_who_detached_may_attach_again(connect, name):
    wire = connect()
    id, secret = opens(wire, "TTL", 5000, "LINGER", 300)
    wire.do("LOCK.ACQUIRE", name)
    wire.raw(
        encode(["SESSION.DETACH"])
        + encode(["SESSION.ATTACH", id, secret])
        + encode(["SESSION.KEEP"])
    )
    assert [wire.receive() for _ in range(3)] == [OK, OK, 5000]
    time.sleep(0.6)
    assert wire.do("LOCK.RELEASE", name) == 0


def test_detach_leaves_a_session_that_has_ended(connect):
    one, two = connect(), connect()
    id, secret = opens(one)
    two.do("SESSION.ATTACH", id, secret)
    one.do("SESSION.CLOSE")
    assert two.error("SESSION.KEEP")[0] == "EXPIRED"
    assert two.do("SESSION.DETACH") == OK
    assert two.error("SESSION.KEEP")[0] == "NOSESSION"


def test_who_comes_back_within_the_linger_keeps_the_lease(connect, name):
    one = connect()
    id, secret = opens(one, "TTL", 5000, "LINGER", 400)
    one.do("LOCK.ACQUIRE", name)
    one.close()
    time.sleep(0.1)
    two = connect()
    two.do("SESSION.ATTACH", id, secret)
    two.do("SESSION.KEEP")
    time.sleep(0.6)
    assert two.do("LOCK.RELEASE", name) == 0


def test_without_linger_a_closed_connection_ends_nothing(connect, name):
    one, other = connect(), connect()
    opens(one, "TTL", 2000)
    one.do("LOCK.ACQUIRE", name)
    one.close()
    opens(other)
    time.sleep(0.3)
    assert other.do("LOCK.ACQUIRE", name) is NULL_BULK


def test_list_goes_page_by_page_and_by_prefix(connect, name):
    wire = connect()
    ids = [opens(wire, "NAME", "%s-%d" % (name, i))[0] for i in range(5)]
    opens(wire, "NAME", "other")
    found, cursor, pages = [], b"0", 0
    while True:
        cursor, page = wire.do(
            "SESSION.LIST", "PREFIX", name, "COUNT", 2, "CURSOR", cursor
        )
        assert len(page) <= 2
        found += [plain(one)["id"] for one in page]
        pages += 1
        if cursor == b"0":
            break
    assert (found, pages) == (ids, 3)
    cursor, everything = wire.do("SESSION.LIST", "COUNT", 1000)
    assert cursor == b"0"
    # More than a page may have is a page.
    assert len(wire.do("SESSION.LIST", "COUNT", 10**6)[1]) == len(everything)
    assert set(ids) <= {plain(one)["id"] for one in everything}
    assert list(plain(everything[0])) == SHOWN
    assert wire.error("SESSION.LIST", "COUNT", 0)[0] == "BADARG"
    assert wire.error("SESSION.LIST", "CURSOR", "x")[0] == "BADARG"


def test_the_clients_name_is_the_sessions_unless_given(connect):
    wire = connect()
    assert wire.do("CLIENT", "SETNAME", "batch") == OK
    assert wire.map("SESSION.SHOW", opens(wire)[0])["name"] == b"batch"
    given, _ = opens(wire, "NAME", "own")
    assert wire.map("SESSION.SHOW", given)["name"] == b"own"


def test_keep_tells_of_holds_that_ended_by_their_numbers(connect, name):
    wire, other = connect(), connect()
    id, _ = opens(wire)
    token = wire.do("LOCK.ACQUIRE", name, "OWNER", "o")
    assert other.do("LOCK.RELEASEIF", name, "OWNER", "o", "SESSION", id) == 1
    for _ in range(2):
        ended = [plain(one) for one in wire.map("SESSION.KEEP", "FULL")["ended"]]
        assert ended == [
            {
                "lock": name.encode(),
                "owner": b"o",
                "token": token,
                "reason": b"releaseif",
                "first": token,
                "number": ended[0]["number"],
            }
        ]
    number = ended[0]["number"]
    assert number > token
    # A release of it, or of the owner's next hold, wipes no notice.
    assert wire.error("LOCK.RELEASE", name, "OWNER", "o")[0] == "NOTHELD"
    later = wire.do("LOCK.ACQUIRE", name, "OWNER", "o")
    assert later > token
    assert (
        wire.error("LOCK.RELEASE", name, "OWNER", "o", "TOKEN", token)[0] == "NOTHELD"
    )
    assert wire.do("LOCK.RELEASE", name, "OWNER", "o", "TOKEN", later) == 0
    assert len(wire.map("SESSION.KEEP", "FULL", "AFTER", number - 1)["ended"]) == 1
    assert wire.map("SESSION.KEEP", "FULL", "AFTER", number)["ended"] == []


def test_a_notice_that_is_not_kept_is_seen_to_be_missing(connect, name):
    wire, other = connect(), connect()
    id, _ = opens(wire)
    tokens = []
    for i in range(70):
        lock = "%s/%02d" % (name, i)
        tokens.append(wire.do("LOCK.ACQUIRE", lock))
        if i < 66:
            taken = other.do("LOCK.RELEASEIF", lock, "OWNER", "", "TOKEN", tokens[-1])
            assert taken == 1
    kept = wire.map("SESSION.KEEP", "FULL")
    ended = [plain(one) for one in kept["ended"]]
    assert [one["token"] for one in ended] == tokens[2:66]
    assert tokens[1] < kept["dropped"] < ended[0]["number"]
    listed, cursor = [], "0"
    while cursor != b"0":
        page = wire.map("SESSION.HOLDS", "COUNT", 3, "CURSOR", cursor, "SESSION", id)
        listed += [plain(one)["token"] for one in page["holds"]]
        assert page["as_of"] > kept["dropped"]
        cursor = page["cursor"]
    assert listed == tokens[66:]


def test_when_the_newest_session_ends_no_other_takes_its_place(connect, name):
    wire = connect()
    older, _ = opens(wire)
    opens(wire, "TTL", 100)
    time.sleep(0.4)
    assert wire.error("LOCK.ACQUIRE", name)[0] == "EXPIRED"
    assert wire.map("LOCK.SHOW", name)["holders"] == []
    assert wire.do("LOCK.ACQUIRE", name, "SESSION", older) > 0


def test_what_is_pipelined_behind_open_acts_for_it(connect, name):
    wire = connect()
    wire.raw(
        encode(["SESSION.OPEN"])
        + encode(["LOCK.ACQUIRE", name])
        + encode(["SESSION.CLOSE"])
        + encode(["LOCK.ACQUIRE", name])
    )
    assert plain(wire.receive())["id"] > 0
    assert wire.receive() > 0
    assert wire.receive() == 1
    with pytest.raises(ReplyError, match="NOSESSION|EXPIRED"):
        wire.receive()


def test_many_sessions_on_one_connection(connect, name):
    wire = connect()
    ids = [opens(wire)[0] for _ in range(100)]
    for i, id in enumerate(ids):
        wire.send("LOCK.ACQUIRE", "%s-%d" % (name, i), "SESSION", id)
    assert all(wire.receive() > 0 for _ in ids)
    for i, id in enumerate(ids):
        holder = wire.map("LOCK.SHOW", "%s-%d" % (name, i))["holders"][0]
        assert plain(holder)["session"] == id


def test_reset_and_quit_leave_the_session_alive(connect, name):
    wire, other = connect(), connect()
    id, secret = opens(wire)
    token = wire.do("LOCK.ACQUIRE", name)
    wire.do("RESET")
    other.do("SESSION.ATTACH", id, secret)
    other.do("QUIT")
    assert wire.do("LOCK.CHECK", name, token) == 1
    wire.do("SESSION.ATTACH", id, secret)
    assert wire.do("LOCK.RELEASE", name) == 0
