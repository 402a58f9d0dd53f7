# SPDX-License-Identifier: MIT
"""libhasp against real nodes: tests/client/libhasp.c plays the scenarios, this
does to the nodes what they ask for.

The programs are in $HASP_BUILD (default: build/release).
"""

import os
import signal
import subprocess
import time

import pytest

from cluster import ROOT, Cluster, wait_until

BUILD = os.path.abspath(
    os.environ.get('HASP_BUILD', os.path.join(ROOT, 'build', 'release')))
DRIVER = os.path.join(BUILD, 'client-tests', 'libhasp')


def endpoints(cluster):
    return ','.join('127.0.0.1:%d' % n.client_port for n in cluster.nodes)


class Act:
    """What a scenario may ask for; each word is a method."""

    def __init__(self, cluster, process):
        self.cluster = cluster
        self.process = process

    def queue(self, lock, count):
        """Waits until so many wait for the lock."""
        def has():
            def show(client):
                return len(client.map('LOCK.SHOW', lock)['queue'])
            return self.cluster.retry(show) == int(count)
        wait_until(has, 10, '%s wait for %s' % (count, lock))

    def kill(self, _):
        leader = self.cluster.leader()
        leader.kill()
        self.cluster.leader(besides=(leader,))

    def pause(self, _):
        for node in self.cluster.nodes:
            node.pause()

    def resume(self, _):
        for node in self.cluster.nodes:
            node.resume()

    def stop(self, _):
        """SIGSTOP for longer than a lease of one second."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        self.process.send_signal(signal.SIGCONT)

    def blacklist(self, name):
        self.cluster.retry(lambda client: client.do(
            'BLACKLIST.ADD', 'CLIENT', name, 'REASON', 'test'))


def play(cluster, scenario):
    environment = dict(os.environ, HASP_ENDPOINTS=endpoints(cluster))
    process = subprocess.Popen(
        [DRIVER, scenario], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=environment)
    act = Act(cluster, process)
    try:
        for line in process.stdout:
            word, *rest = line.split()
            getattr(act, word)(*rest)
            process.stdin.write('\n')
            process.stdin.flush()
        told = process.stderr.read()
        assert process.wait(30) == 0, told
        # The library says nothing.
        assert told == ''
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(10)
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
        act.resume(None)


@pytest.fixture(scope='module')
def cluster():
    with Cluster() as three:
        three.leader()
        yield three


@pytest.mark.parametrize('scenario', [
    'basic', 'modes', 'reentrant', 'many', 'threads', 'deadlock', 'timed',
    'interrupt', 'events', 'limit_after_wait', 'callback', 'alive', 'forks',
    'misuse', 'stopped', 'blacklisted', 'unknown', 'blackout'])
def test_scenario(cluster, scenario):
    play(cluster, scenario)


def test_a_leader_dies_while_one_holds_and_one_waits():
    with Cluster() as three:
        three.leader()
        play(three, 'failover')


def test_only_public_functions_can_be_seen():
    names = subprocess.run(
        ['nm', '-D', '--defined-only', os.path.join(BUILD, 'libhasp.so')],
        check=True, capture_output=True, text=True).stdout.split('\n')
    names = {line.split()[-1] for line in names if line}
    assert 'hasp_acquire' in names and 'hasp_fence_enter' in names
    assert [name for name in names if not name.startswith('hasp_')] == []
    # The archive keeps its own names to itself, too.
    names = subprocess.run(
        ['nm', '--defined-only', '--extern-only',
         os.path.join(BUILD, 'libhasp.a')],
        check=True, capture_output=True, text=True).stdout.split('\n')
    names = {line.split()[-1] for line in names if ' T ' in line}
    assert [name for name in names if not name.startswith('hasp_')] == []
