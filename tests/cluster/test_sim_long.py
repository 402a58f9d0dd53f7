# SPDX-License-Identifier: MIT
"""`make sim-long`: a failing seed is shrunk, and its page can be read."""

import html.parser
import importlib.util
import os
import re
import subprocess
import sys
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))
SIM = os.path.join(os.environ.get('HASP_BUILD', 'build/release'), 'sim')
# The rules that a client breaks if it trusts its session forever.
RULES = ('the client ends first', 'one believer per exclusive lock',
         'a client that believes in a hold has it')


class Page(html.parser.HTMLParser):
    """The elements and their texts; each element that is opened has to be
    closed."""

    VOID = ('meta', 'br')

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.tags, self.links = [], {}, {}, []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.links += [value for name, value in attrs
                       if name in ('src', 'href', 'xlink:href', 'data')]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open:
            key = self.open[-1]
            self.texts[key] = self.texts.get(key, '') + data


@pytest.fixture(scope='module', name='told')
def long_run(tmp_path_factory):
    """Some seeds with a bug planted into the rogues: they trust for ever."""
    if not os.path.exists(os.path.join(ROOT, SIM)):
        subprocess.run(['make', '-s', SIM], cwd=ROOT, check=True, timeout=600)
    out = tmp_path_factory.mktemp('sim-long')
    done = subprocess.run(
        [sys.executable, 'tools/sim_long.py', '--sim', SIM, '--sim-args=--plant',
         '--hours', '0', '--jobs', '1', '--seeds', '10', '--first', '6000',
         '--failures', '1', '--shrink-seconds', '5', '--out', str(out)],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False, timeout=300)
    assert done.returncode == 1, done.stdout
    seed, rule = re.search(r'^seed (\d+): (.*?): ', done.stdout, re.M).groups()
    assert rule in RULES
    return done.stdout, out, seed, rule


def test_a_failing_seed_is_shrunk_and_still_fails(told):
    stdout, out, seed, rule = told
    command = re.search(r'repeat: (.*) --verbose', stdout)[1].split()
    sizes = re.search(r'shrunk: (\d+) \D*(\d+) faults, ([\d.]+) s to '
                      r'(\d+) \D*(\d+) faults, ([\d.]+) s', stdout).groups()
    before, after = sizes[:3], sizes[3:]
    assert all(float(new) <= float(old) for new, old in zip(after, before))
    assert '--seconds' in command
    again = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE,
                           text=True, check=False, timeout=120)
    assert again.returncode == 1
    assert f'seed {seed}: {rule}' in again.stdout
    trace = (out / f'{seed}.txt').read_text()
    assert 'VIOLATION: ' + rule in trace


def test_faults_that_are_not_needed_are_left_out():
    spec = importlib.util.spec_from_file_location(
        'sim_long', os.path.join(ROOT, 'tools', 'sim_long.py'))
    sim_long = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sim_long)
    needed, faults = {3, 9, 10}, list(range(1, 41))
    case = object.__new__(sim_long.Case)
    case.skipped, case.change = set(), {}
    case.fails = lambda _, skipped: not skipped & needed
    case.shrink_faults(list(faults), time.time() + 60)
    assert set(faults) - case.skipped == needed
    assert sim_long.ranges(case.skipped) == '1-2,4-8,11-40'


def test_its_page_names_the_sentence_and_needs_nothing_else(told):
    _, out, seed, rule = told
    text = (out / f'{seed}.html').read_text()
    page = Page(text)
    assert page.texts['h1'] == rule
    assert page.texts['title'].startswith(rule)
    assert not page.links and 'url(http' not in text and '@import' not in text
    assert page.tags['svg'] == 2 and page.tags['rect'] > 10
    assert page.tags['line'] > 20 and 'marker' in page.tags
    assert 'trusts its lease' in text and 'VIOLATION' in text


def test_what_was_reached_is_told(told):
    table = (told[1] / 'coverage.md').read_text()
    assert table.startswith('# What 10 seeds have reached')
    reached = dict(re.findall(r'^\| (.*) \| (\d+) \|$', table, re.M))
    assert int(reached['a session is marked as quiet']) > 0
    assert re.search(r'Pairs of faults .*: [1-9]\d* of \d+\.', table)
