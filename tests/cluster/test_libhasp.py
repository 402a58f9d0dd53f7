# SPDX-License-Identifier: MIT
"""libhasp against real nodes: tests/client/libhasp.c plays the scenarios, this
does to the nodes what they ask for.

The programs are in $HASP_BUILD (default: build/release).
"""

import os
import random
import re
import select
import signal
import socket
import subprocess
import threading
import time

import pytest

from cluster import ROOT, Cluster, wait_until
from fake_node import FakeNode

BUILD = os.path.abspath(
    os.environ.get('HASP_BUILD', os.path.join(ROOT, 'build', 'release')))
DRIVER = os.path.join(BUILD, 'client-tests', 'libhasp')
SHARED = DRIVER + '_shared'


def endpoints(cluster):
    return ','.join('127.0.0.1:%d' % n.client_port for n in cluster.nodes)


class Act:
    """The commands of a scenario; each word is a method."""

    def __init__(self, cluster, process):
        self.cluster = cluster
        self.process = process

    def queue(self, lock, count):
        """Waits until 'count' requests wait for the lock."""
        def has():
            def show(client):
                return len(client.map('LOCK.SHOW', lock)['queue'])
            return self.cluster.retry(show) == int(count)
        wait_until(has, 10, '%s wait for %s' % (count, lock))

    def kill(self, _):
        leader = self.cluster.leader()
        leader.kill()
        self.cluster.leader(besides=(leader,))

    def end(self, _):
        for node in self.cluster.nodes:
            node.kill()

    def pause(self, _):
        for node in self.cluster.nodes:
            node.pause()

    def freeze(self, index):
        self.cluster.nodes[int(index)].pause()

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


def play(cluster, scenario, at=None, driver=DRIVER):
    environment = dict(os.environ, HASP_ENDPOINTS=at or endpoints(cluster))
    process = subprocess.Popen(
        [driver, scenario], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
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
    'interrupt', 'events', 'limit_after_wait', 'limit_of_re_entry', 'callback',
    'alive', 'forks', 'misuse', 'stopped', 'late_grant', 'frozen',
    'slow_callback', 'handed_over', 'blacklisted', 'unknown', 'blackout'])
def test_scenario(cluster, scenario):
    play(cluster, scenario)


@pytest.mark.parametrize('scenario', [
    'keys', 'neighbours', 'messages', 'lingers', 'forks'])
def test_sessions_share_a_connection(cluster, scenario):
    play(cluster, scenario, driver=SHARED)


def test_a_connection_that_takes_no_more_sessions_is_left_to_those_it_has():
    with Cluster(1, '[limits]\nsessions_per_conn = 2\n') as one:
        one.leader()
        play(one, 'full', driver=SHARED)


def test_fifty_sessions_on_one_connection_outlive_nodes():
    with Cluster() as three:
        three.leader()
        play(three, 'many', driver=SHARED)


def test_a_leader_dies_while_one_holds_and_one_waits():
    with Cluster() as three:
        three.leader()
        play(three, 'failover')


def test_a_wait_can_be_interrupted_when_nobody_listens():
    with Cluster() as three:
        three.leader()
        play(three, 'refused')


class Cutter(threading.Thread):
    """A proxy of a node: now and then it forwards a request and cuts the
    connection when the answer comes: done, but not reported."""

    def __init__(self, node, seed, part=0.1, doomed=None):
        super().__init__(daemon=True)
        self.part = part
        self.doomed = doomed  # A request with this word gets EXPIRED.
        self.node = node
        self.random = random.Random(seed)
        self.cuts = 0
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.address = '127.0.0.1:%d' % self.listener.getsockname()[1]
        self.peers = {}
        self.is_stopping = False

    def drop(self, one):
        other = self.peers.pop(one)
        self.peers.pop(other)
        one.close()
        other.close()

    def forward(self, one, is_answer):
        other = self.peers[one]
        try:
            data = one.recv(65536)
            if self.doomed and not is_answer and self.doomed in data:
                one.sendall(b'-EXPIRED the session has ended\r\n')
                return
            if is_answer and data and self.random.random() < self.part:
                self.cuts += 1
                data = b''
            if data:
                other.sendall(data)
                return
        except OSError:
            pass
        self.drop(one)

    def run(self):
        nodes = set()
        while not self.is_stopping:
            ready, _, _ = select.select([self.listener, *self.peers], [], [],
                                        0.1)
            for one in ready:
                if one is self.listener:
                    client, _ = self.listener.accept()
                    node = socket.create_connection(
                        ('127.0.0.1', self.node.client_port))
                    for end in (client, node):
                        end.setsockopt(socket.IPPROTO_TCP,
                                       socket.TCP_NODELAY, 1)
                    self.peers.update({client: node, node: client})
                    nodes.add(node)
                elif one in self.peers:
                    self.forward(one, one in nodes)
        for one in list(self.peers):
            if one in self.peers:
                self.drop(one)
        self.listener.close()


@pytest.mark.parametrize('scenario', ['threads', 'reentrant', 'many', 'modes'])
def test_lost_answers_change_nothing(cluster, scenario):
    """Each request is asked again under its number and done once: else a count
    would be wrong, a lock would stay held, or one would be free too early."""
    cuts = 0
    for seed in range(5):
        cutters = [Cutter(node, seed * 10 + node.id)
                   for node in cluster.nodes]
        for cutter in cutters:
            cutter.start()
        try:
            play(cluster, scenario, ','.join(c.address for c in cutters))
        finally:
            for cutter in cutters:
                cutter.is_stopping = True
                cutter.join()
        cuts += sum(cutter.cuts for cutter in cutters)
    assert cuts > 0


def test_all_is_lost_at_once_when_a_node_says_so(cluster):
    """Not only when the keeper hears of it at the next heartbeat."""
    cutter = Cutter(cluster.nodes[0], 0, part=0, doomed=b'doomed')
    cutter.start()
    try:
        play(cluster, 'expired', cutter.address)
    finally:
        cutter.is_stopping = True
        cutter.join()


def public_names():
    names = subprocess.run(
        ['nm', '-D', '--defined-only', os.path.join(BUILD, 'libhasp.so')],
        check=True, capture_output=True, text=True).stdout.split('\n')
    return {line.split()[-1] for line in names if line}


def test_the_manual_has_every_public_function():
    with open(os.path.join(ROOT, 'docs', 'man', 'hasp.3'),
              encoding='utf-8') as page:
        synopsis = page.read().split('.Sh DESCRIPTION')[0]
    shown = re.findall(r'^\.Fn (\w+)', synopsis, re.MULTILINE)
    assert sorted(shown) == sorted(public_names())


def test_a_program_is_bound_to_the_major_version():
    told = subprocess.run(
        ['readelf', '-d', os.path.join(BUILD, 'libhasp.so')],
        check=True, capture_output=True, text=True).stdout
    assert re.findall(r'SONAME.*\[(.*)\]', told) == ['libhasp.so.0']


def test_only_public_functions_can_be_seen():
    names = public_names()
    assert 'hasp_acquire' in names and 'hasp_fence_enter' in names
    assert [name for name in names if not name.startswith('hasp_')] == []
    # The archive keeps its own names to itself, too.
    names = subprocess.run(
        ['nm', '--defined-only', '--extern-only',
         os.path.join(BUILD, 'libhasp.a')],
        check=True, capture_output=True, text=True).stdout.split('\n')
    names = {line.split()[-1] for line in names if ' T ' in line}
    assert [name for name in names if not name.startswith('hasp_')] == []


def run(cluster, *command, timeout=60, **environment):
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout,
        env=dict(os.environ, HASP_ENDPOINTS=endpoints(cluster),
                 **environment))


@pytest.mark.parametrize('program', ['libhasp_uv', 'libhasp_uv_holds'])
def test_callbacks_on_a_loop(cluster, program):
    done = run(cluster, os.path.join(BUILD, 'client-tests', program))
    assert (done.returncode, done.stderr) == (0, '')


@pytest.mark.parametrize('driver', ['thread', 'loop'])
def test_what_is_opened_late_is_closed(driver):
    """By either driver, which ends when that is done."""
    is_over = threading.Event()

    def answer(words):
        if words[0] == b'SESSION.OPEN':
            time.sleep(1.5)
            return {'id': 77, 'ttl_ms': 10000, 'linger_ms': 0}
        if words[0] == b'SESSION.CLOSE':
            is_over.set()
        return 1

    with FakeNode(answer) as node:
        with subprocess.Popen(
                [os.path.join(BUILD, 'client-tests', 'libhasp_uv_late'),
                 driver], stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                env=dict(os.environ, HASP_ENDPOINTS=node.endpoint)) as program:
            assert is_over.wait(20)
            _, told = program.communicate(b'x', timeout=20)
        assert (program.returncode, told) == (0, b'')
        assert node.requests[-1] == [b'SESSION.CLOSE', b'SESSION', b'77']


def test_a_link_has_two_descriptors_and_one_thread(cluster):
    done = run(cluster, os.path.join(BUILD, 'client-tests', 'libhasp_frugal'))
    assert (done.returncode, done.stderr) == (0, '')


@pytest.mark.parametrize('command, code, words', [
    (['exclusive'], 0, '3 of 3 steps'),
    (['leader', '0.5'], 0, 'stepped down'),
    (['slots', '6'], 0, 'at most 2 at the same time'),
    (['loop'], 0, 'given back\nthe loop turned'),
    (['paused', 'check'], 0, 'the number is 2: nothing is lost'),
    (['paused', 'nocheck'], 1, 'the number is 1: an update is lost')])
def test_example(cluster, command, code, words):
    program = os.path.join(BUILD, 'examples', command[0])
    done = run(cluster, program, *command[1:])
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout


def test_the_example_of_cron_runs_a_job_once(cluster):
    once = [os.path.join(BUILD, 'examples', 'once'), 'nightly', '2024-05-07']
    first = run(cluster, *once, 'echo the job')
    second = run(cluster, *once, 'echo the job')
    other = run(cluster, *once[:2], '2024-05-08', 'echo the job')
    assert [done.returncode for done in (first, second, other)] == [0, 0, 0]
    assert first.stdout == other.stdout == 'the job\n'
    assert second.stdout == 'another machine has it\n'


def test_the_example_of_the_page_compiles(tmp_path):
    with open(os.path.join(ROOT, 'docs', 'c-client.md')) as file:
        examples = re.findall(r'^```c\n(.*?)^```', file.read(), re.M | re.S)
    assert examples
    source = tmp_path / 'page.c'
    for example in examples:
        source.write_text(
            '#include <err.h>\n#include <hasp/hasp.h>\n#include <stdbool.h>\n'
            '#include <stdint.h>\n#define STEP_NS UINT64_C(1000000000)\n'
            'bool work_is_left(void);\nvoid do_a_step(uint64_t token);\n'
            'int main(void)\n{\n%s    return 0;\n}\n' % example)
        done = subprocess.run(
            ['cc', '-std=c11', '-Wall', '-Wextra', '-Werror', '-fsyntax-only',
             '-I', os.path.join(ROOT, 'include'), str(source)],
            capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_without_endpoints_the_nodes_of_hasp_dev_are_asked():
    """As in the other languages; without a network, so no node answers."""
    alone = ['unshare', '-rn']
    if subprocess.run([*alone, 'true'], capture_output=True).returncode != 0:
        pytest.skip('no network namespaces')
    environment = {key: value for key, value in os.environ.items()
                   if key != 'HASP_ENDPOINTS'}
    done = subprocess.run(
        [*alone, os.path.join(BUILD, 'examples', 'exclusive')],
        env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0
    for port in (7420, 7430, 7440):
        assert '127.0.0.1:%d: ' % port in done.stderr, done.stderr


def test_every_example_is_run():
    names = {name[:-2] for name in os.listdir(os.path.join(ROOT, 'examples'))
             if name.endswith('.c')}
    # test_packaging.py runs the one that is a node, test_otel.py another.
    assert names == {'exclusive', 'leader', 'slots', 'loop', 'once', 'paused',
                     'embedded', 'otel'}


def test_an_installed_library_is_enough(cluster, tmp_path):
    """Headers, library and hasp.pc from `make install-lib`, used from C with
    both kinds of linking, and the headers from C++."""
    prefix = str(tmp_path / 'usr')
    made = subprocess.run(
        ['make', '-s', 'install-lib', 'PREFIX=' + prefix,
         'B=' + os.path.relpath(BUILD, ROOT)],
        cwd=ROOT, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    config = dict(os.environ, PKG_CONFIG_PATH=prefix + '/lib/pkgconfig')

    def flags(*options):
        return subprocess.run(
            ['pkg-config', *options, 'hasp'], env=config, check=True,
            capture_output=True, text=True).stdout.split()

    assert flags('--modversion')[0] == subprocess.run(
        ['sed', '-n', 's/^VERSION := //p', os.path.join(ROOT, 'Makefile')],
        capture_output=True, text=True).stdout.strip()
    source = os.path.join(ROOT, 'examples', 'exclusive.c')
    shared = str(tmp_path / 'shared')
    subprocess.run(['cc', '-o', shared, source, *flags('--cflags', '--libs')],
                   check=True)
    static = str(tmp_path / 'static')
    words = ['-l:libhasp.a' if word == '-lhasp' else word
             for word in flags('--cflags', '--libs', '--static')]
    subprocess.run(['cc', '-o', static, source, *words], check=True)
    for program in (shared, static):
        done = run(cluster, program, 'installed', '1',
                   LD_LIBRARY_PATH=prefix + '/lib')
        assert done.returncode == 0, done.stderr
    plus = tmp_path / 'plus.cc'
    plus.write_text('#include <hasp/hasp_uv.h>\n'
                    'int main() { return hasp_version()[0] == 0; }\n')
    subprocess.run(['c++', '-Wall', '-Werror', '-o', str(tmp_path / 'plus'),
                    str(plus), *flags('--cflags', '--libs')], check=True)
    assert os.path.exists(prefix + '/share/man/man3/hasp.3')
