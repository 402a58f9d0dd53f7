# SPDX-License-Identifier: MIT
"""The judges of the nemesis test, on histories made by hand: each rule has one
that keeps it and one that breaks it."""

import random
import time

from nemesis_events import check_events
from nemesis_history import FOREVER, History
from nemesis_rules import judge


class Made:
    """A history by hand: sessions 1, 2, 3 are trusted until 100."""

    def __init__(self, until=100.0):
        self.history, self.number, self.records = History(), 0, []
        for session in (1, 2, 3):
            self.add(k="kept", s=session, until=until)

    def add(self, **record):
        self.records.append(record)

    def ask(self, kind, call, end=None, s=1, **more):
        """Answered at 'end' with v or e, or refused with no."""
        self.number += 1
        told = {k: more.pop(k) for k in ("v", "e", "no") if k in more}
        again = more.pop("again", None)
        self.add(k="op", op=kind, n=self.number, t=call, s=s, **more)
        if end is not None:
            self.add(k="done", n=self.number, t=end, **told)
        if again is not None:
            self.add(k="again", n=self.number, **again)
        return self

    def acquire(self, call, end, v, s=1, lock="a", mode="exclusive", **more):
        return self.ask(
            "acquire", call, end, s, lock=lock, mode=mode, v=v, **more
        )

    def release(self, call, end, token, v=0, s=1, **more):
        return self.ask(
            "release", call, end, s, lock="a", token=token, v=v, **more
        )

    def show(self, call, end, *holders, queue=(), note="", lock="a"):
        told = {"holders": holders, "queue": queue, "note": note}
        return self.ask("show", call, end, 0, lock=lock, v=told)

    def check(self, call, end, token, v):
        return self.ask("check", call, end, 0, lock="a", token=token, v=v)

    def unanswered(self, kind, call, s=1, **more):
        return self.ask(kind, call, None, s, lock="a", **more)

    def found(self):
        history = History()
        history.read(0, self.records)
        history.conclude()
        return judge(history)


def hold(session, token, mode="exclusive", count=1, owner=""):
    return [session, owner, mode, token, count]


def test_what_is_right_passes():
    made = Made().acquire(0, 1, 5).check(1, 2, 5, 1).release(2, 3, 5)
    made.check(3, 4, 5, 0).acquire(3, 4, 9, s=2).show(5, 6, hold(2, 9))
    assert made.found() == []


def test_two_hold_one_lock():
    assert Made().acquire(0, 1, 5).acquire(2, 3, 6, s=2).found()
    # The release is under way: it may have taken effect first.
    made = Made().acquire(0, 1, 5).release(1.5, 9, 5)
    assert made.acquire(2, 3, 6, s=2).found() == []
    # Or it has no answer.
    made = Made().acquire(0, 1, 5).unanswered("release", 1.5, token=5)
    assert made.acquire(2, 3, 6, s=2).found() == []
    # It was refused: then it has not happened.
    made = Made().acquire(0, 1, 5).release(1.5, 1.8, 5, no="NOLEADER", v=None)
    assert made.acquire(2, 3, 6, s=2).found()


def test_readers_and_slots():
    for mode, most in (("shared", 3), ("slots", 2)):
        made = Made()
        for session in (1, 2, 3):
            made.acquire(session, session + 1, session + 4, session, mode=mode)
        assert (made.found() == []) == (most == 3)
    made = Made().acquire(0, 1, 5, mode="shared")
    assert made.acquire(2, 3, 6, s=2).found()


def test_who_is_let_in_together_has_one_token():
    for mode in ("shared", "exclusive"):
        made = Made().acquire(0, 1, 5).release(2, 3, 5)
        made.acquire(1, 4, 6, s=2, mode=mode, wait=9)
        made.acquire(1, 4, 6, s=3, mode=mode, wait=9)
        made.release(5, 6, 6, s=2)
        assert (made.found() == []) == (mode == "shared")


def test_refused_means_not_done():
    made = Made().acquire(0, 1, None, no="BUSY")
    assert made.acquire(2, 3, 6, s=2).found() == []
    made = Made().acquire(0, 1, None, no="BUSY")
    assert made.show(2, 3, hold(1, 5)).found()


def test_unknown_may_be_either():
    for held in ((), (hold(1, 5),)):
        made = Made().unanswered("acquire", 0, mode="exclusive")
        assert made.show(2, 3, *held).found() == []
    made = Made().unanswered("acquire", 4, mode="exclusive")
    assert made.show(2, 3, hold(1, 5)).found()
    made = Made().acquire(0, 1, 7, s=2).release(1, 2, 7, s=2)
    made.unanswered("acquire", 2, mode="exclusive")
    assert made.show(3, 4, hold(1, 7)).found(), "its token is not new"


def test_an_answer_in_vain_has_a_reason():
    assert Made().acquire(0, 1, None).found()
    assert Made().acquire(0, 1, 5).acquire(2, 3, None, s=2).found() == []
    made = Made().acquire(0, 1, 5).release(2, 3, 5)
    assert made.acquire(4, 5, None, s=2).found()
    # Somebody who waits may be ahead, but not a reader for a reader.
    for mode, is_right in (("exclusive", True), ("shared", False)):
        made = Made().acquire(0, 9, 5, s=3, wait=1000, mode=mode)
        made.acquire(1, 2, None, s=2, mode="shared")
        assert (made.found() == []) == is_right


def test_who_waited_in_vain_kept_others_out():
    made = Made().acquire(0, 1, 5, mode="shared")
    made.acquire(2, 9, None, s=2, wait=3000).show(3, 4, hold(1, 5, "shared"))
    assert made.acquire(5, 6, None, s=3, mode="shared").found() == []
    assert made.acquire(10, 11, None, s=3, mode="shared").found()


def test_a_session_ends_and_not_before_its_trust_does():
    assert Made(10).acquire(0, 1, 5).acquire(11, 12, 6, s=2).found() == []
    assert Made(20).acquire(0, 1, 5).acquire(11, 12, 6, s=2).found()
    made = Made(10).acquire(0, 1, 5)
    made.add(k="gone", s=1, t=11)
    assert made.show(12, 13, hold(1, 5)).found()
    made = Made(20).acquire(0, 1, 5).ask("close", 2, 3, v=1)
    assert made.acquire(4, 5, 6, s=2).found() == []
    made = Made(20)
    made.add(k="gone", s=1, t=11)
    assert made.acquire(12, 13, 5).found(), "what has ended acquires"


def test_what_is_told_late_may_be_of_before_an_end():
    def shown(asked, **end):
        made = Made(until=2.0).acquire(0, 1, 5)
        made.add(**end)
        return made.show(asked, 7, hold(1, 5)).found()

    gone = {"k": "gone", "s": 1, "t": 3.0}
    assert shown(2.5, **gone) == [] and shown(3.5, **gone)
    life = {"k": "life", "t": 3.0, "backup": 2.5, "until": 4.0}
    assert shown(2.5, **life) == [] and shown(3.5, **life)
    # A request without an answer has happened before the end, too.
    note = {"k": "op", "op": "note", "n": 9, "t": 1.5, "s": 1, "lock": "a"}
    made = Made(until=2.0).acquire(0, 1, 5)
    made.add(token=5, note="new", **note)
    made.add(k="gone", s=1, t=3.0)
    assert made.show(4, 5, note="new").found() == []
    assert made.show(6, 7, note="other").found()


def test_a_limited_hold_ends_and_not_before():
    made = Made().acquire(0, 1, 5, over=2).acquire(3, 4, 6, s=2)
    assert made.found() == []
    assert Made().acquire(0, 1, 5, over=4).acquire(2, 3, 6, s=2).found()


def test_entering_again_is_counted():
    made = Made().acquire(0, 1, 5).acquire(1, 2, 5)
    made.show(2, 3, hold(1, 5, count=2)).release(3, 4, 5, 1)
    assert made.release(4, 5, 5, 0).found() == []
    # One was done twice: the count shows it.
    assert Made().acquire(0, 1, 5).release(1, 2, 5, 1).found()
    assert Made().acquire(0, 1, 5).acquire(1, 2, 6).found()


def test_a_release_of_what_is_held():
    made = Made().acquire(0, 1, 5)
    assert made.release(2, 3, 5, None, e="NOTHELD").found()
    made = Made().acquire(0, 1, 5).release(1, 2, 5)
    assert made.release(2, 3, 5, None, e="NOTHELD").found() == []
    assert Made().release(1, 2, 5).found()


def test_a_release_by_another():
    made = Made().acquire(0, 1, 5)
    made.ask("releaseif", 1, 2, lock="a", token=5, v=1)
    assert made.acquire(3, 4, 6, s=2).found() == []
    made = Made().acquire(0, 1, 5)
    assert made.ask("releaseif", 2, 3, lock="a", token=5, v=0).found()


def test_converting():
    def made():
        return Made().acquire(0, 1, 5, mode="shared")

    def convert(made, call, v, mode="exclusive", **more):
        return made.ask(
            "convert", call, call + 1, lock="a", mode=mode, v=v, **more
        )

    assert convert(made(), 1, 8).show(3, 4, hold(1, 8)).found() == []
    assert convert(made(), 1, 5).found(), "an upgrade has a new token"
    other = made().acquire(0, 1, 6, s=2, mode="shared")
    assert convert(other, 1, 8).found()
    other = made().acquire(0, 1, 6, s=2, mode="shared")
    assert convert(other, 1, None).found() == []
    assert convert(made(), 1, None).found()
    down = convert(Made().acquire(0, 1, 5), 1, 5, "shared")
    assert down.acquire(3, 4, 6, s=2, mode="shared").found() == []


def test_notes():
    made = Made().acquire(0, 1, 5)
    made.ask("note", 1, 2, lock="a", token=5, note="n", v="OK")
    assert made.show(3, 4, hold(1, 5), note="n").found() == []
    assert made.show(5, 6, hold(1, 5)).found()
    late = Made().acquire(0, 1, 5).release(1, 2, 5)
    assert late.ask("note", 3, 4, lock="a", token=5, note="n", v="OK").found()


def test_several_at_once():
    locks = ["a", "b"]

    def made(tokens):
        return Made().ask(
            "macquire", 0, 1, locks=locks, mode="exclusive", v=tokens
        )

    assert made([5, 5]).show(2, 3, hold(1, 5), lock="b").found() == []
    assert made([5, 6]).found()
    assert made([5, 5]).acquire(2, 3, 6, s=2, lock="b").found()
    given = made([5, 5]).ask("mrelease", 2, 3, locks=locks, v=2)
    assert given.acquire(4, 5, 6, s=2, lock="b").found() == []
    assert given.show(6, 7, hold(1, 5)).found(), "one of them was left"


def test_tokens_grow_over_all_locks():
    made = Made().acquire(0, 1, 5)
    assert made.acquire(2, 3, 6, s=2, lock="b").found() == []
    assert made.acquire(4, 5, 6, s=2, lock="c").found()
    assert Made().acquire(0, 3, 5).acquire(1, 2, 4, s=2, lock="b").found() == []
    opened = Made().acquire(0, 1, 5).ask("open", 2, 3, 0, v=4)
    assert opened.found()


def test_asked_again_the_answer_is_the_same():
    assert Made().acquire(0, 1, 5, again={"v": 5}).found() == []
    assert Made().acquire(0, 1, 5, again={"v": 6}).found()
    assert Made().acquire(0, 1, 5, again={"e": "NOTHELD"}).found()


def test_listings():
    def made(listed, until=100):
        made = Made(until)
        made.add(k="kept", s=4, until=until)
        made.ask("open", 0, 1, 0, v=4)
        return made.ask("sessions", 2, 3, 0, v=listed)

    assert made([4]).found() == []
    assert made([]).found(), "a session is gone that is trusted"
    gone = made([], until=1.5)
    assert gone.found() == []
    assert gone.ask("sessions", 4, 5, 0, v=[4]).found(), "it comes back"


def wait(session, index, mode="exclusive", is_upgrade=False):
    return [session, "", mode, index, is_upgrade]


def test_first_come_first_served():
    def made(second, third, shown=True):
        made = Made().acquire(0, 1, 5)
        made.acquire(2, 9, second, s=2, wait=9000)
        if shown:
            made.show(3, 4, hold(1, 5), queue=[wait(2, 6)])
        made.acquire(5, 9, third, s=3, wait=9000).release(6, 7, 5)
        return made.release(7, 10, min(second, third), s=2 + (third < second))

    assert made(8, 10).found() == []
    assert made(10, 8).found(), "it passed who was seen to wait"
    assert made(10, 8, shown=False).found() == []


def test_no_reader_passes_a_writer_that_waits():
    def made(reader, writer):
        made = Made().acquire(0, 1, 5, mode="shared")
        made.acquire(2, 9, writer, s=2, wait=9000)
        made.show(3, 4, hold(1, 5, "shared"), queue=[wait(2, 6)])
        return made.acquire(5, 9, reader, s=3, mode="shared", wait=9000)

    assert made(7, 10).release(6, 8, 5).release(6, 9, 7, s=3).found()
    assert made(10, 8).release(6, 7, 5).release(8, 9, 8, s=2).found() == []


def test_queues_tell_the_truth():
    made = Made().acquire(0, 1, 5).acquire(2, 9, None, s=2, wait=3000)
    made.show(3, 4, hold(1, 5), queue=[wait(2, 6)])
    assert made.found() == []
    assert made.show(10, 11, hold(1, 5), queue=[wait(2, 6)]).found()
    made = Made().acquire(0, 1, 5).acquire(2, 9, None, s=2, wait=3000)
    made.acquire(2, 9, None, s=3, wait=3000)
    queue = [wait(3, 7), wait(2, 6)]
    assert made.show(3, 4, hold(1, 5), queue=queue).found()


def test_fences():
    def made(*asked):
        made = Made()
        for at, (token, told) in enumerate(asked):
            made.ask("admit", at, at + 0.9, 0, fence="f", token=token, v=told)
        return made

    assert made((5, 1), (5, 1), (7, 1), (6, 0)).found() == []
    assert made((5, 1), (4, 1)).found()
    assert made((5, 1), (6, 0)).found()
    assert made((5, 1)).ask("fence", 2, 3, 0, fence="f", v=5).found() == []
    assert made((5, 1)).ask("fence", 2, 3, 0, fence="f", v=4).found()
    unknown = made((5, 1)).ask("admit", 2, None, 0, fence="f", token=9)
    assert unknown.ask("fence", 3, 4, 0, fence="f", v=9).found() == []


def test_a_restore_keeps_what_it_promises():
    def made(backup=3.0, **after):
        made = Made().acquire(0, 1, 50)
        made.ask("open", 0, 0.5, 0, v=1)
        made.ask("admit", 1, 2, 0, fence="f", token=50, v=1)
        made.add(k="life", t=5, backup=backup, until=8)
        return made.ask(**after) if after else made

    shown = {"call": 6, "end": 7, "s": 0, "fence": "f"}
    assert made(kind="fence", v=50, **shown).found() == []
    assert made(kind="fence", v=0, **shown).found(), "the backup had it"
    assert made(1.5, kind="fence", v=0, **shown).found() == []
    assert made(kind="admit", token=50, v=1, **shown).found(), "a former token"
    # One that was granted in the former life and is shown only now.
    assert made(kind="admit", token=60, v=0, **shown).found() == []
    assert made(kind="admit", token=2**41, v=1, **shown).found() == []
    # Its holds are gone, though its client still trusts, for the quarantine.
    assert made().acquire(6, 9, 80, s=2).found() == []
    assert made().acquire(6, 7, 49, s=2).found()
    assert made().acquire(6, 7, None, s=2).found() == []
    assert made().acquire(9, 10, None, s=2).found()


def test_what_was_never_answered_does_not_grow_beyond_bounds():
    made = Made()
    for at in range(300):
        made.ask("admit", at, None, 0, fence="f", token=10 + at)
        made.unanswered("release", at, token=5)
        if at % 20 == 0:
            made.ask("fence", at + 0.1, at + 0.2, 0, fence="f", v=10 + at)
            made.acquire(at + 0.3, at + 0.4, 500 + at)
            made.release(at + 0.5, at + 0.6, 500 + at)
    begun = time.process_time()
    assert made.found() == []
    assert time.process_time() - begun < 30


def random_history(rng, count):
    """Six clients at one lock, answered as a lock would, late and at times not
    at all, by an order that is drawn first."""
    made, holder, token, free_at = Made(FOREVER), None, 10, [0.0] * 6
    at = 0.0
    for _ in range(count):
        at += rng.uniform(0.05, 0.2)
        client = rng.randrange(6)
        call = max(free_at[client], at - rng.uniform(0, 1.5))
        if call >= at:
            continue
        end = at + rng.uniform(0, 1.5)
        free_at[client] = end
        if holder == client:
            made.release(call, end, token, s=client)
            holder = None
        elif holder is None and rng.random() < 0.7:
            token += 1
            holder = client
            made.acquire(call, end, token, s=client)
        else:
            held = [] if holder is None else [hold(holder, token)]
            made.show(call, end, *held)
    return made


def test_a_long_history_is_judged_in_seconds():
    rng = random.Random(7)
    made = random_history(rng, 6000)
    begun = time.process_time()
    assert made.found() == []
    assert time.process_time() - begun < 60
    # One answer that is wrong, anywhere, is seen.
    for _ in range(5):
        made = random_history(rng, 300)
        tokens = [r for r in made.records if r.get("op") == "release"]
        rng.choice(tokens[:-1])["op"] = "check"
        assert made.found()


def test_nothing_is_granted_to_who_is_blacklisted():
    def made(call, end, told=None):
        made = Made().ask("open", 0, 1, 0, v=4, name="me")
        made.add(k="kept", s=4, until=100)
        made.add(k="listed", name="me", asked=2, t=3, until=9)
        if told is not None:
            made.add(k="barred", name=told, t=4)
        return made.acquire(call, end, 5, s=4)

    assert made(2, 4).found() == []
    assert made(4, 5).found(), "it is granted a lock"
    assert made(4, 10).found() == []
    assert made(10, 11, told="me").found() == []
    assert made(10, 11, told="another").found(), "nobody has listed it"


def event(index, kind, token, ordinal=0, life=7, lock="e0", **more):
    event = {"k": "event", "w": 1, "id": [life, index, ordinal], "lock": lock}
    event |= {"kind": kind, "session": 1, "token": token, "message": ""}
    return event | more


def watch(since=None):
    return {"k": "watch", "w": 1, "since": since}


def gap(index, life=7):
    return {"k": "gap", "w": 1, "id": [life, index, 2**32 - 1]}


def watched(*processes, made=None):
    history = History()
    history.read(0, made.records if made is not None else ())
    return check_events(processes, history.conclude())[0]


GRANTED = [event(4, "granted", 104), event(5, "released", 104)]
GRANTED += [event(6, "granted", 106), event(8, "expired", 106)]


def test_watchers_are_told_all_of_it_once():
    assert watched([watch(), *GRANTED], [watch([7, 4, 0]), *GRANTED[1:]]) == []
    assert watched([watch(), *GRANTED], [watch(), *GRANTED[2:]]) == []
    assert watched([watch(), *GRANTED], [watch(), *GRANTED[:2], gap(9)]) == []
    left_out = [watch([7, 4, 0]), *GRANTED[2:]]
    assert watched([watch(), *GRANTED], left_out), "one is left out"
    assert watched([watch(), *GRANTED], [watch(), GRANTED[0], *GRANTED[2:]])
    assert watched([watch(), *GRANTED, GRANTED[3]]), "one comes twice"
    assert watched([watch(), *reversed(GRANTED)]), "they are out of order"
    other = [event(4, "granted", 104, session=2)]
    assert watched([watch(), *GRANTED], [watch(), *other]), "another event"


def test_watchers_are_told_of_a_gap_before_another_life():
    after = event(20, "granted", 2020, life=8)
    assert watched([watch(), *GRANTED], [watch(), after]) == []
    assert watched([watch(), *GRANTED, watch([7, 8, 0]), gap(8), after]) == []
    assert watched([watch(), *GRANTED, watch([7, 8, 0]), after])


def test_what_is_granted_is_told_to_who_watches():
    made = Made().acquire(0, 1, 104, lock="e0").acquire(4, 5, 106, lock="e0")
    assert watched([watch(), *GRANTED], made=made) == []
    made.acquire(6, 7, 107, lock="e1")
    assert watched([watch(), *GRANTED], made=made), "a grant without an event"
    assert watched([watch(), *GRANTED[:3]], made=made) == []
    kept_out = event(7, "granted", 107)
    told = [watch(), *GRANTED[:3], kept_out, GRANTED[3]]
    assert watched(told), "it is granted while somebody has it"


def test_a_lock_opens_before_its_delay_is_over():
    """The session is trusted until 2; its hold was not given back."""

    def taken_at(at, is_closed=False, **more):
        made = Made(until=2.0).acquire(0, 1, 5, delay=0.5, **more)
        if is_closed:
            made.unanswered("close", 1.5)
        return made.acquire(at - 0.1, at, 9, s=2).found()

    assert taken_at(2.6) == [] and taken_at(2.4)
    assert taken_at(2.1, is_closed=True) == []
    # The end of a limited hold is the same.
    assert taken_at(1.9, over=1.2) == [] and taken_at(1.6, over=1.2)
    # It does not end later because its client learns of the session's end.
    for limit, is_right in (({"over": 1.2}, True), ({}, False)):
        made = Made(until=2.0).acquire(0, 1, 5, delay=0.5, **limit)
        made.add(k="gone", s=1, t=2.1)
        assert (made.acquire(2.2, 2.3, 9, s=2).found() == []) == is_right
    # A try that fails meanwhile may have failed because of the delay.
    made = Made(until=2.0).acquire(0, 1, 5, delay=0.5)
    made.acquire(2.1, 2.2, None, s=2)
    assert made.acquire(2.6, 2.7, 9, s=2).found() == []


def test_who_barges_passes_the_queue():
    def passed(**more):
        made = Made().acquire(0, 1, 5)
        made.acquire(1, 9, 12, s=2, wait=9)
        made.show(2, 3, hold(1, 5), queue=[[2, "", "exclusive", 7, False]])
        made.release(3, 4, 5)
        made.acquire(4, 5, 9, s=3, **more)
        return made.ask("release", 5, 6, 3, lock="a", token=9, v=0).found()

    assert passed() and passed(barge=True) == []


def test_no_time_ends_a_durable_session():
    forever = Made(until=FOREVER).acquire(0, 1, 5)
    assert forever.acquire(90, 91, 9, s=2).found()
    forever = Made(until=FOREVER).acquire(0, 1, 5).unanswered("close", 80)
    assert forever.acquire(90, 91, 9, s=2).found() == []


def test_rights():
    def made(**more):
        made = Made().ask("open", 0, 0.5, 0, name="app", v=4)
        made.add(k="withdrawn", name="app", asked=1, t=2, until=5, over=6)
        return made.acquire(s=4, **more)

    assert made(call=3, end=4, v=9).found()
    assert made(call=3, end=4, v=9, mode="shared").found() == []
    assert made(call=1.5, end=4, v=9).found() == []
    assert made(call=4, end=5.5, v=9).found() == []
    for asked, told, is_right in ((1.5, 1.8, True), (5, 7, True), (7, 8, False)):
        refused = made(call=8, end=9, v=9)
        refused.add(k="denied", name="app", asked=asked, t=told)
        assert (refused.found() == []) == is_right
