# SPDX-License-Identifier: MIT
"""Each client in each language does the same: README.md says what."""

import glob
import os
import random
import re
import shutil
import signal
import sys
import threading
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, '..', 'cluster'))

from cable import Cable, TlsFront  # noqa: E402
from cluster import Cluster  # noqa: E402
from driver import LANGUAGES, Conform, Refused  # noqa: E402
from script import VARIANTS, Script  # noqa: E402
from tls_cluster import TlsCluster, tool  # noqa: E402

SCRIPTS = sorted(glob.glob(os.path.join(HERE, 'scripts', '*.txt')))


# The lease is 1.5 s, trusted for 1.2 s. A client disturbed in a long work
# continues as long as it believes.
PAUSES_S = (0.5, 1.6, 2.0, 3.0)
WORK_S = (0.1, 6)


# Features that scripts need and a client does not have. Only Node.js has one
# thread for all, so only there can a program stop its own heartbeats.
LACKING = {
    'c': {'freeze', 'place', 'watch', 'throw'},
    'go': {'freeze'},
    'java': {'freeze'},
    'node': set(),
    'python': {'freeze'},
}


@pytest.fixture(params=sorted(LANGUAGES))
def language(request):
    if not LANGUAGES[request.param][0]:
        pytest.skip(f'needs {request.param}')
    return request.param


@pytest.mark.parametrize('path', SCRIPTS, ids=lambda path: os.path.basename(
    path)[:-4])
def test_the_client_does_as_the_script_says(language, path):
    conform = Conform(language)
    try:
        features = conform.do('can')['features']
        is_lacking = False
        with open(path, encoding='utf-8') as file:
            for need in re.findall(r'^# needs (\w+)', file.read(), re.M):
                is_lacking |= need not in features
                assert (need in features) != (need in LACKING[language])
        if not is_lacking:
            Script(path, conform).run()
    except BaseException:
        conform.close(kill=True)
        raise
    assert conform.close() == 0


# A script whose point is an order in time, or what was not sent yet, says
# nothing where each answer is late, or each request is lost at first.
NOT_VARIED = {
    ('torn', 'disk_is_full'): 'what was sent before may have been done',
    ('torn', 'given_up'): 'what was sent before may have been done',
    ('torn', 'hold_waited'): 'the repetition is answered at once',
    ('torn', 'hold_late_answers'): 'its first answer is not received late',
    ('again', 'disk_is_full'): 'what was sent before may have been done',
    ('again', 'given_up'): 'what was sent before may have been done',
    ('torn', 'cancelled_then_tried', 'c'):
        'its next attempt is of another owner, and may be sent first',
    ('notices', 'cancelled_then_tried', 'c'):
        'its next attempt is of another owner, and may be sent first',
    ('late', 'founded_alone'): 'its time-out is short on a busy machine',
    ('late', 'foreign_settled'): 'its time-out is over before the last sending',
    ('late', 'given_back'): 'its time-out is over before the last sending',
    ('late', 'given_up'): 'its time-out is short on a busy machine',
}


@pytest.mark.parametrize('variant', VARIANTS)
def test_it_does_the_same_in_other_circumstances(language, variant):
    """The same scripts, where each answer is late, is lost and asked again, or
    has members that no client knows; six beside each other. In all of them the
    runner compares the client's belief with the rules (rules.py)."""
    failed, room = [], threading.Semaphore(6)
    program = Conform(language)
    features = program.do('can')['features']
    assert program.close() == 0

    def run(path):
        with room:
            conform = Conform(language)
            try:
                Script(path, conform, variant=variant).run()
                assert conform.close() == 0, path
            except BaseException as error:
                failed.append(str(error))
                conform.close(kill=True)

    threads = []
    for path in SCRIPTS:
        with open(path, encoding='utf-8') as file:
            needs = re.findall(r'^# needs (\w+)', file.read(), re.M)
        name = os.path.basename(path)[:-4]
        if set(needs) <= set(features) and not {
                (variant, name), (variant, name, language)} & set(NOT_VARIED):
            threads.append(threading.Thread(target=run, args=[path]))
            threads[-1].start()
    for thread in threads:
        thread.join()
    assert not failed, '\n'.join(failed)


# Cases that TLS or AUTH could break: lost and renewed connections, bytes one by
# one, requests for several locks.
SECURE = ('elsewhere', 'lost_answer', 'several', 'slow', 'stranger')
SECRET = 'hasp1.app.' + 'x' * 43


@pytest.fixture(scope='module', name='certificates')
def certificates_(tmp_path_factory):
    """The certificate of node 1; and the settings of a client without one, but
    with a secret."""
    folder = tmp_path_factory.mktemp('secure')
    tool('cert', 'ca', '--cluster', 'test', folder=folder)
    tool('cert', 'node', '1=127.0.0.1', folder=folder)
    client = folder / 'client'
    client.mkdir()
    shutil.copy(folder / 'certs' / 'ca.crt', client)
    secret = client / 'secret'
    secret.write_text(SECRET + '\n')
    secret.chmod(0o600)
    return str(folder / 'certs' / 'node-1'), str(client)


@pytest.mark.parametrize('name', SECURE)
def test_over_tls_and_with_a_secret_it_does_the_same(language, name,
                                                     certificates):
    node, client = certificates
    conform = Conform(language, HASP_TLS=client,
                      HASP_SECRET_FILE=client + '/secret')
    try:
        path = os.path.join(HERE, 'scripts', name + '.txt')
        Script(path, conform, SECRET,
               lambda endpoints: TlsFront(endpoints, node)).run()
    except BaseException:
        conform.close(kill=True)
        raise
    assert conform.close() == 0


class Believer:
    """One `conform` that wants the lock for ever, and what it said."""

    def __init__(self, language, ports, tells, env):
        self.language, self.tells, self.env = language, tells, env
        self.cable = Cable(ports)
        self.conform = None
        self.believes = self.is_over = False
        self.count = 0
        self.thread = threading.Thread(target=self._want)
        self.thread.start()

    def _want(self):
        while not self.is_over:
            self.conform = Conform(self.language, **self.env)
            try:
                self._once(self.conform)
            except (AssertionError, Refused):
                pass  # It was lost, or killed.
            self.conform.close(kill=True)

    def _once(self, conform):
        conform.do('open', endpoints=self.cable.endpoints, ttl=1500,
                   linger=random.choice([0, 700]), timeout=1500)
        while not self.is_over and conform.process.poll() is None:
            number = conform.begin('lock', names=['hot'], wait=5000,
                                   **{'as': 'hot'})
            told = conform.end(number, 30)
            if told['held']:
                self._believe(conform, told['tokens']['hot'])

    def _believe(self, conform, token):
        """Until it does not, or has worked for a while."""
        seen = None
        try:
            until = time.monotonic() + random.choice(WORK_S)
            while time.monotonic() < until and not self.is_over:
                at = self._guard(conform)
                seen = [min(at, (seen or [at])[0]), at]
                self.believes = True
                time.sleep(0.005)
        finally:
            self.believes = False
            if seen:
                self.count += 1
                self.tells.append((*seen, token, self))
        conform.end(conform.begin('release', **{'as': 'hot'}), 30)

    def _guard(self, conform):
        return conform.end(conform.begin('guard', **{'as': 'hot'}), 30)['at_ns']

    def disturb(self, kind):
        process = self.conform.process
        if kind == 'kill':
            process.kill()
        elif kind == 'freeze':
            process.send_signal(signal.SIGSTOP)
            time.sleep(random.choice(PAUSES_S))
            process.send_signal(signal.SIGCONT)
        else:
            self.cable.is_cut = True
            time.sleep(random.choice(PAUSES_S))
            self.cable.is_cut = False

    def close(self):
        self.is_over = True
        self.thread.join(60)
        self.cable.close()


def holder(believers):
    """The current holder of the lock, or any session if that takes too long."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for one in believers:
            if one.believes:
                return one
        time.sleep(0.001)
    return random.choice(believers)


def believers_at_once(tells):
    """Two that overlap, or a token that did not grow."""
    found = []
    ordered = sorted(tells, key=lambda one: one[0])
    for one, next_ in zip(ordered, ordered[1:]):
        if next_[0] <= one[1] or next_[2] <= one[2]:
            found.append((one[:3], next_[:3]))
    return found


def test_the_oracle_sees_two_believers():
    assert not believers_at_once([(1, 5, 7, 0), (6, 9, 8, 1)])
    assert believers_at_once([(1, 6, 7, 0), (6, 9, 8, 1)])
    assert believers_at_once([(6, 9, 7, 0), (1, 5, 8, 1)])


def plain_cluster():
    return Cluster(3), {}


def closed_cluster():
    """Over TLS, and none but 'app' may have the lock."""
    nodes = TlsCluster(start=False)
    tool('cert', 'user', 'app', folder=nodes.folder)
    nodes.start()
    nodes.leader()
    nodes.hasp('role', 'set', 'app', 'lock:hot')
    nodes.hasp('user', 'add', 'app', '--role', 'app')
    nodes.hasp('access', 'required')
    return nodes, {'HASP_TLS': os.path.join(nodes.certs, 'user-app')}


@pytest.mark.parametrize('languages, make', [
    (('c', 'go', 'java'), plain_cluster),
    (('java', 'node', 'python'), closed_cluster)],
    ids=['c go java', 'java node python, over TLS'])
def test_two_never_believe_at_once(languages, make):
    """While each of them, and the leader, is frozen, killed, cut off."""
    missing = [one for one in languages if not LANGUAGES[one][0]]
    if missing:
        pytest.skip('needs ' + ' '.join(missing))
    seed = random.randrange(1 << 30)
    print('seed', seed)
    random.seed(seed)
    tells = []
    cluster, env = make()
    with cluster:
        cluster.leader()
        ports = [node.client_port for node in cluster.nodes]
        believers = [Believer(one, ports, tells, env) for one in languages]
        try:
            kinds = ['kill', 'freeze', 'cut', 'leader killed', 'leader frozen']
            for kind in random.sample(kinds * 4, 20):
                time.sleep(random.uniform(0.1, 0.5))
                if kind.startswith('leader'):
                    node = cluster.leader()
                    node.kill() if 'killed' in kind else node.pause()
                    time.sleep(random.uniform(0.5, 2))
                    node.resume()
                    cluster.start()
                else:
                    holder(believers).disturb(kind)
            # In the end each of them gets it again.
            counts = [one.count for one in believers]
            until = time.monotonic() + 60
            while any(one.count <= count for one, count in
                      zip(believers, counts)):
                assert time.monotonic() < until, counts
                time.sleep(0.1)
        finally:
            for one in believers:
                one.close()
    assert believers_at_once(tells) == []
    assert len(tells) >= 6
