# SPDX-License-Identifier: MIT
"""Ties in each language: what a client says to a fake agent and makes of its
answers, and kill -9 of a process that the real agent has tied."""

import hashlib
import os
import re
import subprocess
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, '..', 'cluster'))

from cluster import Cluster, wait_until  # noqa: E402
from fake_agent import TIE, UNTIE, FakeAgent  # noqa: E402
from driver import LANGUAGES, Conform, Refused  # noqa: E402
from tls_cluster import HASP  # noqa: E402

SOON_S = 20  # Far below the TTL of 60 s.
WITHOUT_A_CALL = 'c'  # hasp_credentials() unties by itself.


@pytest.fixture(params=sorted(LANGUAGES), name='language')
def language_(request):
    if not LANGUAGES[request.param][0]:
        pytest.skip(f'needs {request.param}')
    return request.param


@pytest.fixture(scope='module', name='cluster')
def cluster_():
    with Cluster(1) as cluster:
        cluster.leader()
        yield cluster


def endpoints(cluster):
    return ','.join(f'127.0.0.1:{node.client_port}' for node in cluster.nodes)


@pytest.fixture(name='agent')
def agent_():
    agent = FakeAgent()
    yield agent
    agent.end()


@pytest.fixture(name='conform')
def conform_(language):
    conform = Conform(language)
    yield conform
    conform.close(kill=True)


def start_of(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as file:
        return file.read().rpartition(')')[2].split()[19]


def opens(cluster, conform, agent, tie, **options):
    conform.do('open', endpoints=endpoints(cluster), tie=tie, agent=agent,
               **options)


def is_tied(conform):
    return conform.do('tied')['tied']


def refused(conform, do, **words):
    with pytest.raises(Refused) as told:
        conform.do(do, **words)
    return told.value


def notices(conform):
    return [one for one in list(conform.log) if one.get('event') == 'notice']


def test_a_session_is_tied_by_its_death_word(cluster, conform, agent):
    opens(cluster, conform, agent.path, 'must')
    assert is_tied(conform)
    told = agent.said(TIE)[0]
    assert told[3] == start_of(conform.process.pid) and told[4] == '60000'
    assert conform.do('state')['left_ns'] > 40e9
    with cluster.leader().connect() as client:
        assert client.do('SESSION.DIED', told[1], told[2]) == 1
    conform.event('lost', SOON_S)
    assert not notices(conform)


def test_a_session_that_is_closed_is_untied(cluster, conform, agent):
    opens(cluster, conform, agent.path, 'must')
    conform.do('close')
    assert agent.wait_for(UNTIE)[2] == agent.said(TIE)[0][2]


def test_the_sessions_of_a_process_share_a_connection(cluster, conform, agent):
    opens(cluster, conform, agent.path, 'must', beside=True)
    one, other = agent.said(TIE)
    assert one[1] != other[1] and one[2] != other[2] and agent.count == 1
    conform.do('close')
    agent.wait_for(UNTIE, 2)


def test_the_environment_names_the_agent(cluster, language, agent):
    conform = Conform(language, HASP_AGENT=agent.path)
    try:
        conform.do('open', endpoints=endpoints(cluster), tie='must')
        assert is_tied(conform) and agent.count == 1
    finally:
        conform.close(kill=True)


def test_a_refusal_is_reported(cluster, conform, agent):
    agent.answer = lambda line: 'ERR too many ties of this process'
    told = refused(conform, 'open', endpoints=endpoints(cluster), tie='must',
                   agent=agent.path)
    assert told.word == 'UNREACHABLE' and 'too many ties' in str(told)
    opens(cluster, conform, agent.path, 'try')
    told = conform.event('notice', SOON_S)
    assert 'too many ties' in told['text'] and agent.path in told['text']
    assert not is_tied(conform)


def test_a_connection_that_ends_is_replaced(cluster, conform, agent):
    """The agent has restarted: what lives ties again."""
    opens(cluster, conform, agent.path, 'try')
    wait_until(lambda: is_tied(conform), SOON_S, 'a tie')
    agent.stop()
    assert agent.path in conform.event('notice', SOON_S)['text']
    assert not is_tied(conform)
    agent.start()
    first, second = agent.wait_for(TIE), agent.wait_for(TIE, 2)
    assert first[0] == second[0]
    wait_until(lambda: is_tied(conform), SOON_S, 'another tie')
    assert conform.do('state')['state'] == 'held' and len(notices(conform)) == 1


def test_an_agent_that_hangs_holds_up_nothing(cluster, conform, agent):
    agent.answer = lambda line: None
    began = time.monotonic()
    told = refused(conform, 'open', endpoints=endpoints(cluster), tie='must',
                   agent=agent.path, name='nobody')
    assert told.word == 'UNREACHABLE' and 'answer' in str(told)
    assert 0.9 <= time.monotonic() - began < SOON_S
    with cluster.leader().connect() as client:
        assert b'nobody' not in repr(client.do('SESSION.LIST')).encode()
    opens(cluster, conform, agent.path, 'try')
    assert conform.do('lock', **{'as': 'a', 'names': ['hangs'],
                                 'wait': 0})['held']
    conform.event('notice', SOON_S)
    conform.do('close')


def test_what_is_no_answer_ends_the_connection(cluster, conform, agent):
    agent.answer = lambda line: 'OK tied\nOK tied' if len(agent.lines) == 1 \
        else 'OK tied'
    opens(cluster, conform, agent.path, 'try')
    agent.wait_for(TIE, 2)
    wait_until(lambda: is_tied(conform), SOON_S, 'another tie')


def test_a_session_is_handed_over_only_untied(cluster, conform, language,
                                              agent):
    opens(cluster, conform, agent.path, 'must')
    if language not in WITHOUT_A_CALL:
        told = refused(conform, 'credentials', tied=True)
        assert told.word == 'MISUSE' and 'untie' in str(told)
    good, agent.answer = agent.answer, lambda line: None
    told = refused(conform, 'credentials')
    assert told.word == 'UNREACHABLE' and 'nothing was handed over' in str(told)
    agent.answer = good
    wait_until(lambda: is_tied(conform), SOON_S, 'it is tied as before')
    told = conform.do('credentials')
    assert agent.said(UNTIE)[-1][1] == str(told['session'])
    assert not is_tied(conform)
    with cluster.leader().connect() as client:
        client.do('SESSION.ATTACH', told['session'], told['secret'])
    # For good: whatever the agent does.
    count = len(agent.said(TIE))
    agent.cut()
    conform.do('lock', **{'as': 'a', 'names': ['handed'], 'wait': 0})
    time.sleep(1.5)
    assert len(agent.said(TIE)) == count and not is_tied(conform)
    assert conform.do('credentials') == told


def test_what_was_never_tied_needs_no_agent(cluster, conform):
    opens(cluster, conform, '/nonexistent/a.sock', 'try')
    assert '/nonexistent/a.sock' in conform.event('notice', SOON_S)['text']
    told = conform.do('credentials')
    assert re.fullmatch('[0-9a-f]{32}', told['secret'])


def test_a_killed_process_passes_its_lock_on(cluster, conform, tmp_path):
    """The real agent: the TTL is 60 s."""
    path = str(tmp_path / 'a.sock')
    agent = subprocess.Popen([HASP, '-e', endpoints(cluster), 'agent',
                              '--listen', path], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: os.path.exists(path), SOON_S, 'an agent')
        opens(cluster, conform, path, 'must')
        token = conform.do('lock', **{'as': 'a', 'names': ['killed'],
                                      'wait': 0})['tokens']['killed']
        assert is_tied(conform)
        with cluster.leader().connect() as client:
            client.do('SESSION.OPEN', 'TTL', 30000)
            assert client.do('LOCK.ACQUIRE', 'killed', 'REQ', 1) is None
            conform.process.kill()
            after = client.do('LOCK.ACQUIRE', 'killed', 'WAIT', SOON_S * 1000,
                              'REQ', 2)
            assert after is not None and after > token
            assert 'died' in repr(client.do('LOCK.HISTORY', 'killed', 'COUNT',
                                            100))
            client.do('SESSION.CLOSE')
    finally:
        agent.terminate()
        assert agent.wait(SOON_S) == 0


def test_the_word_is_not_shown(cluster, conform, agent):
    """Only its hash goes to the nodes, and it is not the session's secret."""
    opens(cluster, conform, agent.path, 'must')
    word = agent.said(TIE)[0][2]
    told = conform.do('credentials')
    assert told['secret'] != word
    assert hashlib.sha256(word.encode()).hexdigest() != told['secret']
