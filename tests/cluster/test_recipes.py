# SPDX-License-Identifier: MIT
"""The programs of docs/recipes on a real cluster."""

import contextlib
import glob
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

import pytest

from cluster import HASPD, ROOT, Cluster, wait_until

RECIPES = os.path.join(ROOT, "docs", "recipes")
HASP = os.environ.get(
    "HASP", os.path.join(os.path.dirname(HASPD), "hasp")
)
sys.path.insert(0, RECIPES)
sys.dont_write_bytecode = True

import fenced_file  # noqa: E402
import fenced_sqlite  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as nodes:
        nodes.leader()
        yield nodes


@pytest.fixture
def recipe(cluster):
    """Starts a program of the recipes; all are gone when the test ends."""
    started = []

    def start(name, *words):
        path = os.path.join(RECIPES, name)
        env = dict(os.environ)
        env["HASP_ENDPOINTS"] = ",".join(
            "127.0.0.1:%d" % node.client_port for node in cluster.nodes
        )
        env["PYTHONPATH"] = os.path.join(ROOT, "clients", "python")
        env["PATH"] = (
            os.path.dirname(os.path.abspath(HASP)) + ":" + env["PATH"]
        )
        command = [sys.executable, "-u"] if name.endswith(".py") else []
        process = subprocess.Popen(
            command + [path] + [str(word) for word in words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            encoding="utf-8",
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait(10)
        process.stdout.close()


@pytest.fixture
def run(recipe):
    """Runs one to its end and gives what it printed."""

    def finish(name, *words):
        process = recipe(name, *words)
        text = process.communicate(timeout=60)[0]
        assert process.returncode == 0, text
        return text

    return finish


def token_of(line):
    return int(re.search(r"token (\d+)", line).group(1))


def test_one_leads_and_another_follows_when_it_dies(recipe):
    one = recipe("leader.py")
    first = token_of(one.stdout.readline())
    two = recipe("leader.py", 0.5)
    assert two.poll() is None
    for _ in range(5):
        assert token_of(one.stdout.readline()) == first
    one.send_signal(signal.SIGKILL)
    rest = two.communicate(timeout=30)[0].splitlines()
    assert token_of(rest[0]) > first
    assert rest[-1] == "stepped down"


def test_a_leader_that_was_paused_stops_leading(recipe):
    one = recipe("leader.py")
    first = token_of(one.stdout.readline())
    one.send_signal(signal.SIGSTOP)
    two = recipe("leader.py")
    second = token_of(two.stdout.readline())
    assert second > first
    one.send_signal(signal.SIGCONT)
    line = "token %d" % first
    while "token %d" % first in line:
        line = one.stdout.readline()
    assert line.startswith("deposed")
    two.send_signal(signal.SIGKILL)
    assert token_of(one.stdout.readline()) > second


def test_a_cron_job_runs_once_per_period(recipe, run, tmp_path):
    log = tmp_path / "log"
    script = "echo $HASP_TOKEN >> %s" % log
    jobs = [recipe("once.sh", "job", "d1", "sh", "-c", script)
            for _ in range(5)]
    for job in jobs:
        assert job.communicate(timeout=60)[0] == ""
        assert job.returncode == 0
    assert len(log.read_text().splitlines()) == 1
    # A machine that is late, when the job has ended long ago.
    run("once.sh", "job", "d1", "sh", "-c", script)
    assert len(log.read_text().splitlines()) == 1
    run("once.sh", "job", "d2", "sh", "-c", script)
    assert len(log.read_text().splitlines()) == 2
    # A format of date: the same job in the same year, once.
    run("once.sh", "job", "+%Y", "sh", "-c", script)
    year = time.strftime("%Y", time.gmtime())
    run("once.sh", "job", year, "sh", "-c", script)
    assert len(log.read_text().splitlines()) == 3
    failing = recipe("once.sh", "job", "d3", "sh", "-c", "exit 3")
    assert failing.wait(30) == 3


@pytest.mark.parametrize("is_installed, status, words", [
    (False, 127, "no hasp in /usr/bin:/bin"),
    (True, 69, "no node answers"),
])
def test_a_cron_job_that_cannot_run_says_why(is_installed, status, words):
    path = "/usr/bin:/bin"
    if is_installed:
        path = os.path.dirname(os.path.abspath(HASP)) + ":" + path
    job = subprocess.run(
        [os.path.join(RECIPES, "once.sh"), "job", "d4", "true"],
        env={"PATH": path, "HASP_ENDPOINTS": "127.0.0.1:1"},
        capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert (job.returncode, job.stdout) == (status, "")
    assert words in job.stderr and "'job' was not run" in job.stderr


def test_five_workers_work_at_a_time(cluster, recipe):
    workers = [recipe("worker.py", 0.6) for _ in range(8)]

    def holders():
        with cluster.leader().connect() as client:
            return len(client.map("LOCK.SHOW", "render")["holders"])

    seen = [wait_until(lambda: holders() == 5, 20, "five hold it")]
    while any(worker.poll() is None for worker in workers):
        seen.append(holders())
    assert max(seen) == 5
    assert [worker.returncode for worker in workers] == [0] * 8


def test_readers_and_writers_lose_no_addition(recipe, run, tmp_path):
    path = tmp_path / "number"
    path.write_text("0")
    writers = [recipe("readers.py", "add", path) for _ in range(6)]
    assert re.fullmatch(r"\d\n", run("readers.py", "read", path))
    assert [writer.wait(60) for writer in writers] == [0] * 6
    assert run("readers.py", "read", path) == "6\n"


def test_sqlite_refuses_an_old_token(run, tmp_path):
    path = str(tmp_path / "db")
    assert run("fenced_sqlite.py", path, 5) == "balance 5\n"
    assert run("fenced_sqlite.py", path, 7) == "balance 12\n"
    db = fenced_sqlite.connect(path)
    newest = db.execute("SELECT token FROM fence").fetchone()[0]
    with pytest.raises(fenced_sqlite.StaleToken):
        with fenced_sqlite.fenced(db, "account", newest - 1):
            db.execute("DELETE FROM account")
    with fenced_sqlite.fenced(db, "account", newest):
        pass  # The holder itself may write again.
    assert db.execute("SELECT balance FROM account").fetchall() == [(12,)]


def test_a_file_refuses_an_old_token(run, tmp_path):
    path = str(tmp_path / "file")
    token = token_of(run("fenced_file.py", path, "one"))
    assert token_of(run("fenced_file.py", path, "two")) > token
    with pytest.raises(fenced_file.StaleToken):
        fenced_file.write(path, "late", token)
    assert '"two"' in open(path).read()


def test_the_sql_is_that_of_sqlite_too():
    """Both statements, as one would paste them."""
    db = sqlite3.connect(":memory:")
    db.execute(fenced_sqlite.CREATE)

    def admit(token):
        values = {"resource": "r", "token": token}
        return db.execute(fenced_sqlite.ADMIT, values).fetchall()

    assert [admit(t) for t in (5, 5, 4, 6, 5)] == [
        [(5,)], [(5,)], [], [(6,)], [],
    ]


def programs_of_postgres():
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_ctl"))
    # It refuses to run as root.
    can = os.geteuid() != 0 or shutil.which("setpriv")
    return os.path.dirname(found[-1]) if found and can else None


NEEDS_POSTGRES = pytest.mark.skipif(
    programs_of_postgres() is None or shutil.which("psql") is None,
    reason="no PostgreSQL server here",
)


@contextlib.contextmanager
def postgres():
    """A server of our own; a function that runs SQL, or a file of ours."""
    home = tempfile.mkdtemp(prefix="hasp-pg-")
    user, tools = [], programs_of_postgres()
    if os.geteuid() == 0:
        shutil.chown(home, "nobody")
        user = ["setpriv", "--reuid=nobody", "--clear-groups"]

    def do(*words):
        return subprocess.run(
            user + list(words), cwd=home, check=True, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
        ).stdout

    def run_sql(text, **variables):
        path = os.path.join(home, "text.sql")
        with open(path, "w") as file:
            file.write(text)
        given = [x for k, v in variables.items() for x in ("-v", "%s=%s" % (k, v))]
        return do("psql", "-qAtX", "-h", home, "-U", "me", "-d", "postgres",
                  "-v", "ON_ERROR_STOP=1", *given, "-f", path)

    data = os.path.join(home, "data")
    control = [os.path.join(tools, "pg_ctl"), "-D", data, "-w"]
    try:
        do(os.path.join(tools, "initdb"), "-D", data, "-A", "trust",
           "-U", "me", "--no-sync")
        do(*control, "-l", os.path.join(home, "log"), "-o",
           "-k %s -c listen_addresses= -c fsync=off" % home, "start")
        run_sql.environment = {
            "PGHOST": home, "PGUSER": "me", "PGDATABASE": "postgres"}
        yield run_sql
    finally:
        subprocess.run(user + control + ["-m", "immediate", "stop"],
                       cwd=home, timeout=60, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        shutil.rmtree(home, ignore_errors=True)


def sql_of(name):
    with open(os.path.join(RECIPES, name)) as file:
        return file.read()


@NEEDS_POSTGRES
def test_the_sql_is_that_of_postgres_too():
    with postgres() as run_sql:
        answers = [run_sql(sql_of("fence.sql"), resource="'r'", token=token)
                   for token in (5, 5, 4, 6, 5)]
        assert answers == ["5\n", "5\n", "", "6\n", ""]


@NEEDS_POSTGRES
def test_the_gates_of_postgres_refuse_an_old_token():
    def is_refused(text, why):
        with pytest.raises(subprocess.CalledProcessError) as caught:
            run_sql(text)
        return why in caught.value.stderr

    with postgres() as run_sql:
        run_sql(sql_of("gate.sql"))
        run_sql("CREATE TABLE orders (id INT, total INT, token BIGINT);"
                "CREATE TRIGGER hasp_gate BEFORE INSERT OR UPDATE ON orders"
                " FOR EACH ROW EXECUTE FUNCTION hasp_gate();"
                "INSERT INTO orders VALUES (1, 10, 7);")
        write = "UPDATE orders SET total = %d, token = %s WHERE id = 1;"
        assert is_refused(write % (11, 6), "stale token 6 of orders")
        assert is_refused(write % (11, "NULL"), "no token for orders")
        run_sql(write % (12, 7))
        run_sql(write % (13, 9))
        admitted = "BEGIN; SELECT hasp_admit('orders', %d);" + write + "COMMIT;"
        assert run_sql(admitted % (9, 14, 9)) == "9\n"
        assert is_refused(admitted % (8, 15, 9), "stale token 8 of orders")
        assert run_sql("SELECT total, token FROM orders;") == "14|9\n"


@NEEDS_POSTGRES
def test_a_seal_closes_postgres_to_earlier_holders(cluster):
    def run_with(seal):
        return subprocess.run(
            [HASP, "-e", "127.0.0.1:%d" % cluster.nodes[0].client_port, "run",
             "--seal", seal, "app/import", "--", "sh", "-c",
             "echo $HASP_TOKEN"],
            env=dict(os.environ, **run_sql.environment), timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")

    seal = os.path.join(RECIPES, "seal.sh")
    with postgres() as run_sql:
        assert run_with(seal).returncode == 80  # There is no gate yet.
        run_sql(sql_of("gate.sql"))
        done = run_with(seal)
        assert done.returncode == 0, done.stderr
        token = int(done.stdout.split()[-1])
        with pytest.raises(subprocess.CalledProcessError) as caught:
            run_sql("SELECT hasp_admit('orders', %d);" % (token - 1))
        assert "stale token %d of orders" % (token - 1) in caught.value.stderr


def test_the_gate_of_sqlite_refuses_an_old_token():
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE orders (id INT, total INT, token INT)")
    db.executescript(sql_of("gate_sqlite.sql"))
    db.execute("INSERT INTO orders VALUES (1, 10, 7)")
    write = "UPDATE orders SET total = ?, token = ? WHERE id = 1"
    for token in (6, None):
        with pytest.raises(sqlite3.IntegrityError, match="stale token"):
            db.execute(write, (11, token))
    db.execute(write, (12, 7))
    db.execute(write, (13, 9))
    assert db.execute("SELECT total, token FROM orders").fetchall() == [(13, 9)]


def test_redis_py_runs_as_it_is(cluster, run):
    pytest.importorskip("redis")
    where = "127.0.0.1:%d" % cluster.nodes[1].client_port
    assert run("redis_lock.py", where) == (
        "second lock: False\nstill ours: True\n"
    )


def test_a_paused_holder_loses_an_update_unless_the_token_is_checked(run):
    late = run("paused_holder.py").splitlines()
    assert late[-3:] == ["first: wrote 1",
                         "first: learns that the lease was lost",
                         "two additions made 1"]
    good = run("paused_holder.py", "--check").splitlines()
    assert any(line.startswith("first: refused") for line in good)
    assert good[-1] == "two additions made 2"
