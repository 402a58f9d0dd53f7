# SPDX-License-Identifier: MIT
"""The packages as `make clients` makes them, each installed into an empty
environment; there the example of the README and those in examples/ run, the
same for both languages, on a real cluster whose leaders are frozen, killed and
cut off."""

import glob
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENTS = os.path.join(HERE, '..', '..')
ROOT = os.path.join(CLIENTS, '..')
sys.path.insert(0, os.path.join(ROOT, 'tests', 'cluster'))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'conformance'))

from cable import Cable  # noqa: E402
from cluster import Cluster, wait_until  # noqa: E402

FENCE = {'python': 'python', 'node': 'js'}
NEEDS = {'python': shutil.which('python3'), 'node': shutil.which('npm')}


def run(*words, **more):
    done = subprocess.run(words, stdout=subprocess.PIPE, timeout=100,
                          stderr=subprocess.STDOUT, text=True, **more)
    assert done.returncode == 0, done.stdout
    return done.stdout


class Language:
    """A package, installed with nothing else beside it; gone with it are the
    paths to this checkout."""

    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        self.environment = {key: value for key, value in os.environ.items()
                            if key not in ('PYTHONPATH', 'NODE_PATH')}
        package = glob.glob(os.path.join(
            folder, 'made', '*.whl' if name == 'python' else '*.tgz'))[0]
        if name == 'python':
            run('/usr/bin/python3', '-m', 'venv', '--without-pip', folder)
            self.program = [os.path.join(folder, 'bin', 'python')]
            run('/usr/bin/python3', '-m', 'pip', '--python', *self.program,
                'install', '--no-index', '--no-deps', package)
        else:
            self.program = ['node']
            run('npm', 'install', '--offline', '--no-audit', '--no-fund',
                package, cwd=folder)

    def start(self, path, *words, endpoints=''):
        environment = dict(self.environment)
        if endpoints:
            environment['HASP_ENDPOINTS'] = endpoints
        return Program([*self.program, path, *map(str, words)],
                       dict(environment, PYTHONUNBUFFERED='1'), self.folder)

    def example(self, name):
        """Beside the package, as it is; a program may be reading it."""
        name += '.py' if self.name == 'python' else '.js'
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            shutil.copy(os.path.join(CLIENTS, self.name, 'examples', name),
                        path)
        return path

    def readme(self):
        """Its first example, as a program."""
        with open(os.path.join(CLIENTS, self.name, 'README.md'),
                  encoding='utf-8') as file:
            found = re.search(rf'^```{FENCE[self.name]}\n(.*?)^```',
                              file.read(), re.DOTALL | re.MULTILINE)
        path = os.path.join(self.folder, 'readme.' + FENCE[self.name])
        with open(path, 'w', encoding='utf-8') as file:
            file.write(found.group(1))
        return path


class Program:
    """A process, and the lines that it prints, with the time of each."""

    def __init__(self, words, environment, folder):
        self.process = subprocess.Popen(
            words, env=environment, cwd=folder, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.lines = []
        self.news = queue.Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append((time.monotonic(), line.rstrip()))
            self.news.put(line.rstrip())

    def expect(self, pattern, timeout=40):
        """The next line that it matches."""
        until = time.monotonic() + timeout
        while True:
            try:
                line = self.news.get(timeout=max(0, until - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f'no {pattern!r}: {self.lines}') from None
            found = re.search(pattern, line)
            if found:
                return found

    def token(self, timeout=40):
        return int(self.expect(r'(?:leading|holds).* token (\d+)',
                               timeout).group(1))

    def skip(self):
        """Ignores the output so far."""
        while not self.news.empty():
            self.news.get()

    def finish(self, timeout=60):
        status = self.process.wait(timeout)
        self.reader.join(timeout)
        return status, '\n'.join(line for _, line in self.lines)

    def signal(self, number):
        self.process.send_signal(number)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self.reader.join(10)
        self.process.stdout.close()


@pytest.fixture(scope='module')
def cluster():
    with Cluster(3) as nodes:
        nodes.leader()
        yield nodes


@pytest.fixture(scope='module')
def endpoints(cluster):
    return ','.join(f'127.0.0.1:{node.client_port}' for node in cluster.nodes)


@pytest.fixture(scope='module', params=sorted(FENCE))
def language(request):
    if not NEEDS[request.param]:
        pytest.skip(f'needs {request.param}')
    folder = tempfile.mkdtemp(prefix='hasp-installed-')
    try:
        run('make', '-s', '-C', ROOT, f'client-{request.param}',
            'CLIENTS_TO=' + os.path.join(folder, 'made'))
        yield Language(request.param, folder)
    finally:
        shutil.rmtree(folder)


@pytest.fixture
def start(language, endpoints):
    """Starts a program; all are gone when the test ends."""
    started = []

    def begin(path, *words, through=None):
        if not os.path.isabs(path):
            path = language.example(path)
        started.append(language.start(path, *words,
                                      endpoints=through or endpoints))
        return started[-1]

    yield begin
    for program in started:
        program.close()


def test_the_package_has_what_it_promises(language):
    files = {os.path.relpath(path, language.folder) for path in glob.glob(
        os.path.join(language.folder, '**', '*'), recursive=True)}
    wanted = r'site-packages/hasp/(py\.typed|aio\.py)$' \
        if language.name == 'python' else \
        r'node_modules/hasp/(index\.d\.ts|lib/lock\.js|README\.md)$'
    assert len([one for one in files if re.search(wanted, one)]) >= 2, files
    assert not [one for one in files if 'test_' in one and 'hasp' in one]


def test_the_leader_of_the_readme_loses_when_it_is_frozen_or_killed(
        language, start):
    one = start(language.readme())
    first = one.token()
    two = start(language.readme())
    one.signal(signal.SIGSTOP)  # For longer than its lease of 5 s.
    second = two.token()
    assert second > first
    one.skip()
    one.signal(signal.SIGCONT)
    one.expect('not leading')
    two.signal(signal.SIGKILL)
    assert one.token() > second


def test_two_never_lead_at_once(cluster, start):
    """A leader that is cut off, and does not hear of it, stops before another
    one begins. Each line is read after it was printed, so the time of the last
    step is one before which it was made: here it counts against the client."""
    wire = Cable([node.client_port for node in cluster.nodes])
    try:
        one = start('election', 'one', through=wire.endpoints)
        first = one.token()
        two = start('election', 'two')
        for _ in range(3):
            one.expect('step')
        wire.is_cut = True
        second = two.token()
        assert second > first
        one.expect('not leading')
        last = max(at for at, line in one.lines if f'token {first}' in line)
        begun = min(at for at, line in two.lines if f'token {second}' in line)
        assert last < begun
        wire.is_cut = False
        cluster.leader().kill()
        two.skip()
        two.expect('step')  # It leads on over the failover.
        two.signal(signal.SIGTERM)
        assert one.token() > second
        assert not [line for _, line in two.lines if 'not leading' in line]
    finally:
        wire.close()
        cluster.start()
        cluster.leader()


def test_a_job_runs_once_in_each_period(language, start, tmp_path):
    log, job = tmp_path / 'log', f'job of {language.name}'
    command = ['sh', '-c', f'echo done >> {log}']
    jobs = [start('cron', job, 'd1', *command) for _ in range(4)]
    assert [one.finish() for one in jobs] == [(0, '')] * 4
    assert start('cron', job, 'd1', *command).finish() == (0, '')
    assert log.read_text() == 'done\n'
    assert start('cron', job, 'd2', *command).finish() == (0, '')
    assert log.read_text() == 'done\ndone\n'
    assert start('cron', job, 'd3', 'sh', '-c', 'exit 3').finish()[0] == 3


def test_five_work_at_a_time(cluster, start):
    def count(whom):
        with cluster.leader().connect() as client:
            return len(client.map('LOCK.SHOW', 'render')[whom])

    def holders():
        return count('holders')

    with cluster.leader().connect() as client:  # Until all wait.
        client.do('SESSION.OPEN', 'TTL', 60000)
        for number in range(5):
            client.do('LOCK.ACQUIRE', 'render', 'SLOTS', 5, 'OWNER', number)
        workers = [start('workers', 0.5) for _ in range(8)]
        wait_until(lambda: count('queue') == 8, 50, 'eight wait')
        client.do('SESSION.CLOSE')
    seen = [wait_until(lambda: holders() == 5, 30, 'five hold it')]
    while any(worker.process.poll() is None for worker in workers):
        seen.append(holders())
    assert max(seen) == 5
    assert [worker.finish() for worker in workers] == [(0, 'begin\nend')] * 8


def test_a_late_write_changes_nothing(start, tmp_path):
    path = tmp_path / 'file'
    late = start('fenced', path, 'late', 1)
    old = late.token()
    late.signal(signal.SIGSTOP)  # Between its last look and its write.
    next_ = start('fenced', path, 'next')
    assert next_.finish()[0] == 0
    late.signal(signal.SIGCONT)
    status, told = late.finish()
    assert status == 1 and f'refused: token {old} is below' in told
    assert [one.read_text() for one in tmp_path.iterdir()] == ['next']
