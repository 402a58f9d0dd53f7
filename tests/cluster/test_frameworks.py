# SPDX-License-Identifier: MIT
"""hasp.contrib with Debian's Celery, APScheduler and Django, unmodified, while
nodes and workers are killed: no run overlaps another or comes twice."""

import contextlib
import glob
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest

from cluster import ROOT, Cluster, as_map, free_ports, wait_until

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "framework_clients")
PYTHON = "/usr/bin/python3"
PATH = os.path.join(ROOT, "clients", "python")
sys.path.insert(0, PATH)
sys.path.insert(0, PROGRAMS)

SPARE_S = 60
VISIBILITY_S = 3


@pytest.fixture(name="cluster", scope="module")
def cluster_():
    with Cluster(3) as cluster:
        cluster.leader()
        yield cluster


@pytest.fixture(name="endpoints")
def endpoints_(cluster, monkeypatch):
    ports = ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes)
    monkeypatch.setenv("HASP_ENDPOINTS", ports)
    monkeypatch.setenv("PYTHONPATH", PATH + ":" + PROGRAMS)
    return ports


def lines(path):
    with contextlib.suppress(FileNotFoundError):
        with open(path) as file:
            return [line.split() for line in file.read().splitlines()]
    return []


def show(cluster, name):
    with cluster.leader().connect() as client:
        return client.map("LOCK.SHOW", name)


def replace_leader(cluster):
    leader = cluster.leader()
    leader.kill()
    leader.start()
    cluster.leader()


def take_away(cluster, name):
    """As an operator does."""
    owner = as_map(show(cluster, name)["holders"][0])["owner"]
    with cluster.leader().door() as client:
        assert client.do("LOCK.RELEASEIF", name, "OWNER", owner) == 1


class Programs:
    """Processes of a test, with what they print in files."""

    def __init__(self, folder):
        self.folder, self.all = folder, []

    def start(self, *words, **environment):
        path = self.folder / ("out%d" % len(self.all))
        with open(path, "wb") as out:
            one = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                cwd=self.folder, env=dict(os.environ, **environment),
                start_new_session=True)
        one.path = path
        self.all.append(one)
        return one

    def close(self):
        for one in self.all:
            # Its children have no other parent that ends them.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)
            one.wait()


@pytest.fixture(name="programs")
def programs_(tmp_path, endpoints):
    programs = Programs(tmp_path)
    yield programs
    for one in programs.all:
        print("---", one.args, "\n", one.path.read_text()[-3000:])
    programs.close()


# --- Celery --------------------------------------------------------------------


@pytest.fixture(name="broker")
def broker_(programs, monkeypatch):
    """A Redis for Celery's messages. The package redis-tools has the program under
    another name."""
    port = free_ports(1)[0]
    with open(programs.folder / "redis.log", "wb") as out:
        redis = subprocess.Popen(
            ["redis-server", "--port", str(port), "--save", "", "--bind",
             "127.0.0.1", "--dir", str(programs.folder)],
            executable="/usr/bin/redis-check-rdb", stdout=out, stderr=out)
    try:
        monkeypatch.setenv("BROKER", "redis://127.0.0.1:%d/0" % port)
        import redis as library

        client = library.Redis(port=port)

        def answers():
            with contextlib.suppress(library.ConnectionError):
                return client.ping()

        wait_until(answers, SPARE_S, "redis")
        yield client
        client.close()
    finally:
        redis.kill()
        redis.wait()


def worker(programs):
    one = programs.start(
        PYTHON, "-m", "celery", "-A", "celery_app", "worker", "-c", "2", "-l",
        "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat")
    wait_until(lambda: " ready." in one.path.read_text(), SPARE_S, "a worker")
    return one


def judge(runs):
    """Runs in their order: (id, token, has it ended, pid). None overlaps."""
    done = []
    for kind, task, token, pid in runs:
        if kind == "begin":
            assert not done or int(token) > done[-1][1], "tokens grow"
            done.append([task, int(token), False, int(pid)])
        else:
            assert [task, int(token), False, int(pid)] == done[-1], "overlap"
            done[-1][2] = True
    return done


def test_celery_runs_a_task_once_at_a_time_through_kills(
        cluster, programs, broker, tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    monkeypatch.setenv("RUNS", str(runs))
    first, second = worker(programs), worker(programs)
    import celery_app

    app = celery_app.app
    app.conf.broker_url = os.environ["BROKER"]
    ids = ["task-%d" % i for i in range(8)]
    for task in ids:
        for _ in range(2):  # As a broker does that delivers again.
            celery_app.bill.apply_async((0.4,), task_id=task)

    def ended(count):
        return sum(run[2] for run in judge(lines(runs))) >= count

    wait_until(lambda: ended(2), SPARE_S, "two runs")
    replace_leader(cluster)
    wait_until(lambda: ended(3), SPARE_S, "a run after a failover")

    def running():
        last = (judge(lines(runs)) or [None])[-1]
        return last if last and not last[2] else None

    os.kill(wait_until(running, SPARE_S, "a run")[3], signal.SIGKILL)
    wait_until(lambda: ended(8), SPARE_S, "all, after a child was killed")

    def quiet():
        return not broker.llen("celery") and not broker.zcard("unacked_index")

    wait_until(quiet, SPARE_S, "no message is left")
    # A worker is killed with its children. Its message goes to another one
    # after the visibility timeout, which a worker checks when it starts, and
    # then each 100 s.
    celery_app.bill.apply_async((3,), task_id="last")
    victim = wait_until(running, SPARE_S, "the last task")
    with open("/proc/%d/stat" % victim[3]) as file:
        parent = int(file.read().rsplit(")", 1)[1].split()[1])
    dead = first if first.pid == parent else second
    os.killpg(dead.pid, signal.SIGKILL)

    def visible():
        old = broker.zrange("unacked_index", 0, 0, withscores=True)
        return old and old[0][1] + VISIBILITY_S < time.time()

    wait_until(visible, SPARE_S, "the timeout")
    third = worker(programs)
    wait_until(lambda: ended(9), SPARE_S, "the last task, at another worker")
    wait_until(quiet, SPARE_S, "no message is left")
    told = [run[0] for run in judge(lines(runs)) if run[2]]
    assert sorted(told) == sorted(ids + ["last"]), "each once"
    # SIGTERM: the task in hand ends, then the session is closed.
    celery_app.bill.apply_async((1,), task_id="at-the-end")
    wait_until(running, SPARE_S, "a run")
    rest = [one for one in (first, second, third) if one is not dead]
    for one in rest:
        one.send_signal(signal.SIGTERM)
    assert [one.wait(SPARE_S) for one in rest] == [0, 0]
    assert judge(lines(runs))[-1][2] is True
    assert show(cluster, "celery/celery_app.bill")["mode"] == "free"
    app.close()


@pytest.fixture(name="tasks")
def tasks_(endpoints, tmp_path, monkeypatch):
    monkeypatch.setenv("RUNS", str(tmp_path / "runs"))
    import celery_app
    from hasp.contrib import celery

    yield celery_app
    celery.close()


def test_celery_names_a_lock_by_arguments(cluster, tasks):
    from hasp.contrib.celery import Busy

    assert tasks.of_customer("c/1") == "customers/c/1"

    def again():
        assert tasks.of_customer("other") == "customers/other"
        with pytest.raises(Busy, match='lock "customers/c" is held by another'):
            tasks.of_customer("c")
        return "both"

    result = []
    thread = threading.Thread(
        target=lambda: result.append(tasks.of_customer("c", again)))
    thread.start()
    thread.join(SPARE_S)
    assert result == ["both"]
    with pytest.raises(ValueError, match="lock_name='customers/{nobody}' needs"):
        tasks.nameless()
    assert "note" not in show(cluster, "customers/c")


def test_a_celery_task_that_loses_its_lock_fails(cluster, tasks):
    import hasp

    def lose():
        take_away(cluster, tasks.of_customer.lock.name)
        return "result"

    with pytest.raises(hasp.NotHeld):
        tasks.of_customer("d", lose)

    def lose_and_look():
        lose()
        by = time.monotonic() + SPARE_S
        while time.monotonic() < by:
            tasks.of_customer.lock.guard()
            time.sleep(0.01)

    with pytest.raises(hasp.LeaseLost):
        tasks.of_customer("d", lose_and_look)
    with pytest.raises(hasp.LeaseLost, match="only while the task runs"):
        tasks.of_customer.lock


def test_a_soft_time_limit_of_celery_releases_the_lock(cluster, tasks):
    """Celery raises it from the handler of a signal, at any point."""
    from celery.exceptions import SoftTimeLimitExceeded

    def raise_limit(*_):
        raise SoftTimeLimitExceeded()

    before = signal.getsignal(signal.SIGALRM)
    left = signal.setitimer(signal.ITIMER_REAL, 0)  # The bound of this test.
    signal.signal(signal.SIGALRM, raise_limit)
    try:
        for delay_s in (0.3, 0.001, 0.002, 0.004):
            with pytest.raises(SoftTimeLimitExceeded):
                signal.setitimer(signal.ITIMER_REAL, delay_s)
                tasks.of_customer("soft", lambda: time.sleep(SPARE_S))
            wait_until(lambda: show(cluster, "customers/soft")["mode"] == "free",
                       SPARE_S, "the lock is free")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, *left)


# --- APScheduler ---------------------------------------------------------------


def test_apscheduler_runs_each_fire_once_through_kills(
        cluster, programs, tmp_path, monkeypatch):
    runs = tmp_path / "runs"
    monkeypatch.setenv("RUNS", str(runs))
    library = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")[0]
    fleet = [programs.start(PYTHON, os.path.join(PROGRAMS, "fires.py"),
                            LD_PRELOAD=library, FAKETIME=clock,
                            FAKETIME_DONT_FAKE_MONOTONIC="1")
             for clock in ("+0s", "+3s", "-1s")]

    def count(more):
        goal = len(lines(runs)) + more
        wait_until(lambda: len(lines(runs)) >= goal, SPARE_S, "%d fires" % goal)

    count(3)
    replace_leader(cluster)
    count(2)
    # The one with the clock ahead, which runs all fires if it is healthy.
    os.killpg(fleet[1].pid, signal.SIGKILL)
    count(4)
    for one in (fleet[0], fleet[2]):
        os.killpg(one.pid, signal.SIGTERM)
    assert [one.wait(SPARE_S) for one in (fleet[0], fleet[2])] == [0, 0]
    ran = [line[0] for line in lines(runs)]
    assert ran == sorted(set(ran)), "a fire ran twice, or late"
    assert len({line[2] for line in lines(runs)}) > 1, "one process ran all"


def test_apscheduler_tells_why_a_job_cannot_run_once(endpoints):
    from apscheduler.events import EVENT_JOB_ERROR
    from apscheduler.schedulers.background import BackgroundScheduler

    from hasp.contrib.apscheduler import OncePerFire

    errors = {}
    scheduler = BackgroundScheduler(
        timezone="UTC", executors={"default": OncePerFire()})
    scheduler.add_listener(
        lambda e: errors.setdefault(e.job_id, str(e.exception)), EVENT_JOB_ERROR)
    scheduler.add_job(print, "cron", second="*", name="drawn")
    scheduler.add_job(print, "cron", second="*", jitter=1, id="jitter")
    scheduler.start()
    try:
        wait_until(lambda: len(errors) == 2, SPARE_S, "two errors")
    finally:
        scheduler.shutdown()
    assert "its trigger has jitter" in errors.pop("jitter")
    assert "has no id of its own" in errors.popitem()[1]


def test_an_interval_fires_once_in_each_multiple():
    from apscheduler.triggers.combining import OrTrigger
    from apscheduler.triggers.cron import CronTrigger
    from apscheduler.triggers.interval import IntervalTrigger

    from hasp.contrib.apscheduler import fire_of

    begin = datetime(2026, 1, 1, 12, 0, 0, tzinfo=timezone.utc)
    trigger = IntervalTrigger(minutes=10)
    early, late = begin + timedelta(minutes=1), begin + timedelta(minutes=9)
    assert fire_of(trigger, early) == fire_of(trigger, late) == begin
    assert fire_of(trigger, begin + timedelta(minutes=10)) > begin
    east = early.astimezone(timezone(timedelta(hours=2)))
    assert fire_of(CronTrigger(), east) == early
    for wrong in (IntervalTrigger(minutes=1, jitter=3),
                  OrTrigger([CronTrigger(), CronTrigger(jitter=3)]),
                  OrTrigger([CronTrigger(), trigger])):
        with pytest.raises(ValueError):
            fire_of(wrong, early)


# --- Django --------------------------------------------------------------------


@pytest.fixture(name="database")
def database_(tmp_path, monkeypatch):
    import sqlite3

    path = tmp_path / "db.sqlite3"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE shop_account (id INTEGER PRIMARY KEY, balance"
                   " INTEGER NOT NULL, fence BIGINT NOT NULL)")
        db.execute("INSERT INTO shop_account VALUES (1, 0, 0)")
        db.commit()
    monkeypatch.setenv("DATABASE", str(path))

    def balance():
        with contextlib.closing(sqlite3.connect(path)) as db:
            return db.execute("SELECT balance FROM shop_account").fetchone()[0]

    return balance


def pay(programs, seconds=0, **environment):
    return programs.start(PYTHON, os.path.join(PROGRAMS, "manage.py"),
                          str(seconds), **environment)


def prints(one, text):
    wait_until(lambda: text in one.path.read_text(), SPARE_S, text)


def test_a_django_command_runs_once_at_a_time_through_kills(
        cluster, programs, database):
    first = pay(programs, 60)
    prints(first, "holds")
    busy, skipped = pay(programs), pay(programs, BUSY="skip")
    assert (busy.wait(SPARE_S), skipped.wait(SPARE_S)) == (75, 0)
    for one in (busy, skipped):
        assert 'lock "shop/pay" is held elsewhere; waited 0.0 s' in \
            one.path.read_text()
    first.terminate()  # It gives the lock back, and so the next has it at once.
    assert first.wait(SPARE_S) == 143
    assert pay(programs).wait(SPARE_S) == 0
    waiting = [pay(programs, 0.2, WAIT="60") for _ in range(4)]
    prints(waiting[0], "holds")
    replace_leader(cluster)
    assert [one.wait(SPARE_S) for one in waiting] == [0] * 4
    assert database() == 5, "no update is lost"
    victim = pay(programs, 0, INSIDE="60")  # Inside its transaction.
    prints(victim, "holds")
    victim.kill()
    victim.wait()
    assert pay(programs, WAIT="60").wait(SPARE_S) == 0
    assert database() == 6


def test_a_paused_django_command_cannot_commit(cluster, programs, database):
    """It has read, and is stopped for longer than its lease; its program does
    not check the lease before it writes."""
    late = pay(programs, 0.5, STOPS="yes")
    prints(late, "holds")
    late.send_signal(signal.SIGSTOP)
    assert pay(programs, WAIT="60").wait(SPARE_S) == 0
    late.send_signal(signal.SIGCONT)
    assert late.wait(SPARE_S) == 1
    assert "1 of 1 rows have a \"fence\" above token" in late.path.read_text()
    assert database() == 1


def test_a_django_command_that_lost_its_lock_says_so(
        cluster, programs, database):
    one = pay(programs, 1)
    prints(one, "holds")
    take_away(cluster, "shop/pay")
    assert one.wait(SPARE_S) == 79
    assert 'lock "shop/pay" was lost' in one.path.read_text()
    assert database() == 0
