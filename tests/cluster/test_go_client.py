# SPDX-License-Identifier: MIT
"""The client in Go: its own tests, under the race detector and against a
cluster of their own; its examples and the program of its README, in a module
outside of this tree."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from bounded import bounded_to
from candidates import Candidates
from cluster import HASPD, ROOT, Cluster, free_base

CLIENT = os.path.join(ROOT, "clients", "go")
HASP = os.path.abspath(
    os.environ.get("HASP", os.path.join(os.path.dirname(HASPD), "hasp"))
)
GO = shutil.which("go")

pytestmark = pytest.mark.skipif(GO is None, reason="needs golang-go")


# The compiler takes minutes where others use the processors.
COMPILE_S = 400
bounded = bounded_to(COMPILE_S + 120)


def go(folder, *words, bound=COMPILE_S, **more):
    """Runs go without a network; its output is kept below build/."""
    env = dict(
        os.environ,
        GOCACHE=os.path.join(ROOT, "build", "go"),
        GOFLAGS="-mod=mod",
        GOPROXY="off",
        GOTOOLCHAIN="local",
        **more,
    )
    done = subprocess.run(
        [GO, *words],
        cwd=folder,
        env=env,
        timeout=bound,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_it_is_formatted_and_vetted():
    listed = subprocess.run(
        ["gofmt", "-l", "."], cwd=CLIENT, capture_output=True, check=True
    )
    assert listed.stdout == b""
    go(CLIENT, "vet", "./...")


@pytest.fixture(scope="module")
def race_test():
    """The tests as one program; the compiler takes its time."""
    path = os.path.join(ROOT, "build", "go", "hasp.test")
    go(CLIENT, "test", "-race", "-c", "-o", path, ".")
    return path


def test_it_compiles_with_the_race_detector(race_test):
    assert os.access(race_test, os.X_OK)


def test_its_tests_pass_under_the_race_detector(race_test):
    run_tests(race_test)


def test_the_tests_of_its_package_concurrency_pass():
    path = os.path.join(ROOT, "build", "go", "concurrency.test")
    go(CLIENT, "test", "-race", "-c", "-o", path, "./concurrency")
    run_tests(path)


def run_tests(program):
    port = free_base((0, 1, 10, 11, 20, 21))
    done = subprocess.run(
        [program, "-test.timeout=100s"],
        cwd=CLIENT,
        env=dict(os.environ, HASP=HASP, HASP_TEST_PORT=str(port)),
        timeout=110,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout == "PASS\n"


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as nodes:
        nodes.leader()
        yield nodes


@pytest.fixture
def module(tmp_path):
    """A program's module, as a user begins one: by the README's command."""
    with open(os.path.join(CLIENT, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    command = re.search(r"^go (mod edit .*)$", readme, re.M).group(1)
    go(tmp_path, "mod", "init", "example")
    go(tmp_path, *command.replace("/path/to/hasp", ROOT).split())
    tmp_path.joinpath("readme.txt").write_text(readme)
    return tmp_path


def endpoints(cluster):
    return ",".join("127.0.0.1:%d" % n.client_port for n in cluster.nodes)


README_MAIN = """package main

import (
    "context"
    "fmt"
    "os"
    "time"

    "hasp"
)

type table struct{}

func (table) Write(row string, token int64) error {
    fmt.Println(row, "written with a token:", token > 0)
    return nil
}

func run(ctx context.Context, store table, row string) error {
%s}

func main() {
    if err := run(context.Background(), table{}, "row"); err != nil {
        fmt.Fprintln(os.Stderr, err)
        os.Exit(1)
    }
}
"""


def test_the_program_of_its_readme_runs(cluster, module):
    shown = re.search(
        r"```go\n(.*?)```", module.joinpath("readme.txt").read_text(), re.S
    ).group(1)
    module.joinpath("main.go").write_text(README_MAIN % shown)
    said = go(module, "run", ".", HASP_ENDPOINTS=endpoints(cluster))
    assert said == "row written with a token: true\n"


def run_example(cluster, module, name, *words):
    source = os.path.join(CLIENT, "examples", name, "main.go")
    shutil.copy(source, module / "main.go")
    return go(module, "run", ".", *words, HASP_ENDPOINTS=endpoints(cluster))


def test_a_job_runs_once_per_period(cluster, module):
    assert run_example(cluster, module, "cron", "job", "day-1") == "runs job\n"
    again = run_example(cluster, module, "cron", "job", "day-1")
    assert again == "another machine runs job\n"
    assert run_example(cluster, module, "cron", "job", "day-2") == "runs job\n"


def test_ten_workers_share_five_slots(cluster, module):
    said = run_example(cluster, module, "workers")
    assert said.count("is done") == 10


def test_an_old_token_does_not_write(cluster, module):
    said = run_example(cluster, module, "fenced").splitlines()
    assert [line.rsplit(" ", 1)[1] for line in said] == ["true", "false"]


def test_a_leader_is_elected_and_followed_by_another(cluster, module):
    shutil.copy(
        os.path.join(CLIENT, "examples", "election", "main.go"),
        module / "main.go",
    )
    go(module, "build", "-o", "elect", ".")
    env = dict(os.environ, HASP_ENDPOINTS=endpoints(cluster))
    with Candidates(module / "elect", **env) as all_:
        all_.is_told()
        all_.end_leader(signal.SIGKILL)
    with Candidates(module / "elect", **env) as all_:
        all_.freeze_leader()
        assert all_.end_leader(signal.SIGTERM) == 0
