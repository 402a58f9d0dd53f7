# SPDX-License-Identifier: MIT
"""How an observer of the nemesis test watches, and its records.

It watches all locks at one node after the other, each time from the newest
event that it knows:

    watch   'w' began: 'since' is the id of the event it knows, or None
    event   'id' is [life, index, ordinal]; 'lock', 'kind', 'session', 'token',
            'message' as it was told under 'w'
    gap     'id' is where what comes next begins
"""

import time

from cluster import ReplyError, text
from nemesis_session import Stopping, may_ask_again
from nemesis_wire import Watching

# Longest silence before it asks another node.
PATIENCE_S = 2.0


def as_id(told):
    return [int(part) for part in told.split(b"-")]


def write_event(recorder, watch, push):
    """Returns the id of the event."""
    _, kind, told = push
    id_ = as_id(told["id"])
    if kind == b"gap":
        recorder.write(k="gap", w=watch, id=id_)
        return id_
    recorder.write(
        k="event",
        w=watch,
        id=id_,
        lock=text(told["lock"]),
        kind=text(kind),
        session=told["session"],
        token=told["token"],
        message=text(told["message"]),
    )
    return id_


def watch_once(world, rng, watch, since):
    """At one node, until it is silent or enough; gives the newest id."""
    connection = Watching(rng.choice(world.endpoints))
    try:
        connection.do("HELLO", 3)
        words = ["LOCK.WATCH", ""]
        if since is not None:
            words += ["FROM", "%d-%d-%d" % tuple(since)]
        connection.send(*words)
        world.recorder.write(k="watch", w=watch, since=since)
        by = time.monotonic() + rng.uniform(0.2, 3.0)
        connection.socket.settimeout(PATIENCE_S)
        while time.monotonic() < by:
            world.check_stop()
            told = connection.receive()
            if isinstance(told, list):
                since = write_event(world.recorder, watch, told)
                world.recorder.count("events")
        return since
    except OSError:
        return since
    finally:
        connection.close()


def watch_all(world, rng):
    """The loop of an observer's thread, until the test is over."""
    watch, since = 0, None
    while True:
        watch += 1
        try:
            since = watch_once(world, rng, watch, since)
        except Stopping:
            return
        except ReplyError as error:
            if not may_ask_again(error):
                world.recorder.bad("LOCK.WATCH: %s", error)
        except OSError:
            pass
        time.sleep(rng.uniform(0.0, 0.1))
