# SPDX-License-Identifier: MIT
"""Lock libraries made for Redis, unmodified, through the death of a leader: those
of npm that are downloaded most, where npm has a registry to install them from,
and Debian's symfony/lock on phpredis and predis, and ruby-redis, unpacked from
their packages."""

import contextlib
import os
import shutil
import subprocess

import pytest

from bounded import bounded_to
from cluster import Cluster, wait_until
from debian_files import unpack

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lock_clients")
SPARE_S = 120  # For all sections, on a busy machine.
COUNT = 15
bounded = bounded_to(360)  # npm also fetches the libraries.
PHP = ["php8.2-cli", "php8.2-common", "php8.2-redis", "php8.2-igbinary", "php-predis",
       "php-symfony-lock", "php-symfony-deprecation-contracts", "php-psr-log",
       "libargon2-1", "libsodium23"]
RUBY = ["ruby3.1", "libruby3.1", "ruby-redis"]


@pytest.fixture(scope="module", name="cluster")
def cluster_():
    with Cluster(3) as cluster:
        yield cluster


@contextlib.contextmanager
def programs(cluster, command, env=None):
    """One at each node that does not lead, and then the leader dies once."""
    leader = cluster.leader()
    cluster.converged(SPARE_S)
    ports = [n.client_port for n in cluster.nodes if n is not leader]
    running = [subprocess.Popen([str(one) for one in words], cwd=FOLDER, text=True,
                                env={**os.environ, **(env or {})},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
               for words in command(ports)]
    try:
        yield leader, running
        for one in running:
            said, _ = one.communicate(timeout=SPARE_S)
            assert one.returncode == 0 and said.endswith("ok\n"), said
            assert "overlap" not in said, said
    finally:
        for one in running:
            one.kill()
            one.wait()
            one.stdout.close()
        if not leader.is_running:
            leader.start()


def has_ended(running):
    return any(one.poll() is not None for one in running)


def lines(path):
    return path.read_text().splitlines() if path.exists() else []


def has_overlap(events):
    """Between two lines of a holder there is none of another."""
    words = [line.split() for line in events]
    return any(enter[0] != "enter" or leave != ["leave", enter[1]]
               for enter, leave in zip(words[::2], words[1::2]))


def test_an_overlap_is_seen():
    assert not has_overlap(["enter 1", "leave 1", "enter 2", "leave 2"])
    assert has_overlap(["enter 1", "enter 2", "leave 1", "leave 2"])


def run_sections(cluster, path, command, env):
    with programs(cluster, command, env) as (leader, running):
        # Each of them is past its first steps.
        wait_until(lambda: has_ended(running) or len(running) == len(
            {line.split()[1] for line in lines(path)}), SPARE_S, "sections")
        leader.kill()
    events = lines(path)
    assert len(events) == 2 * COUNT * len(running)
    assert not has_overlap(events), events


def debian_root(tmp_path_factory, name, packages):
    root = unpack(tmp_path_factory.getbasetemp() / name, *packages)
    return root, {"LD_LIBRARY_PATH": str(root / "usr/lib/x86_64-linux-gnu")}


@pytest.mark.parametrize("kind", ["phpredis", "predis"])
def test_symfony_lock(cluster, kind, tmp_path, tmp_path_factory):
    root, env = debian_root(tmp_path_factory, "php", PHP)
    path = tmp_path / "sections"
    modules = next((root / "usr/lib/php").glob("20*"))
    php = [root / "usr/bin/php8.2", "-n", "-d", "extension_dir=%s" % modules,
           "-d", "extension=igbinary", "-d", "extension=redis",
           "-d", "include_path=%s" % (root / "usr/share/php"), "symfony.php"]
    run_sections(cluster, path, lambda ports: [
        [*php, kind, "symfony-" + kind, COUNT, path, port] for port in ports], env)


def test_ruby_redis(cluster, tmp_path, tmp_path_factory):
    root, env = debian_root(tmp_path_factory, "ruby", RUBY)
    path = tmp_path / "sections"
    env["RUBYLIB"] = ":".join(str(one) for one in [
        *root.glob("usr/lib/*/ruby/3.1.0"), root / "usr/lib/ruby/3.1.0",
        *root.glob("usr/share/rubygems-integration/all/gems/redis-*/lib")])
    ruby = [root / "usr/bin/ruby3.1", "--disable-gems", "section.rb"]
    run_sections(cluster, path, lambda ports: [
        [*ruby, "ruby", COUNT, path, port] for port in ports], env)


def test_the_libraries_of_npm(cluster, tmp_path):
    for file in ("locks.js", "package.json"):
        shutil.copy(os.path.join(FOLDER, file), tmp_path)
    shutil.copytree(os.path.join(FOLDER, "framework"), tmp_path / "framework")
    try:
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts",
                        "--legacy-peer-deps", "--fetch-retries=0"], cwd=tmp_path,
                       check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip("npm has no registry to fetch lock libraries from: %s" % error)
    node = ["node", tmp_path / "locks.js", "npm", COUNT]
    with programs(cluster, lambda ports: [[*node, *ports]]) as (leader, running):
        with leader.connect() as client:
            wait_until(lambda: has_ended(running) or client.do(
                "EXISTS", "npm-redlock"), SPARE_S, "a lock")
        leader.kill()
