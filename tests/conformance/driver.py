# SPDX-License-Identifier: MIT
"""Runs the `conform` of a language and talks to it, as README.md says."""

import atexit
import fcntl
import filecmp
import glob
import json
import os
import shutil
import subprocess
import tempfile
import threading
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), '..', '..'))
# The requirements of each language, and its program.
LANGUAGES = {
    'c': ('make', []),
    'go': (shutil.which('go'), []),
    'java': (shutil.which('javac'), []),
    'python': ('/usr/bin/python3', ['clients/python/tests/conform.py']),
    'node': (shutil.which('node'), ['clients/node/test/conform.js']),
}
PATIENCE_S = 40
# Where the programs in C are, and what one of them is made of.
BUILD = os.path.relpath(os.environ.get('HASP_BUILD',
                                       os.path.join(ROOT, 'build/release')),
                        ROOT)
IN_C = ['base', 'client', 'include', 'lease', 'net', 'tests/client',
        *(os.path.join(BUILD, part) for part in
          ('base', 'client', 'lease', 'net'))]
built = {}  # Programs that were compiled, by language and tree.


def go_program(root):
    """Compiled once for each tree, and for each process that tests."""
    if ('go', root) not in built:
        path = os.path.join(tempfile.mkdtemp(prefix='conform-'), 'conform')
        atexit.register(shutil.rmtree, os.path.dirname(path))
        env = dict(os.environ, GOPROXY='off', GOFLAGS='-mod=mod',
                   GOCACHE=os.path.join(ROOT, 'build', 'go'))
        subprocess.run(['go', 'build', '-o', path, './conform'], check=True,
                       cwd=os.path.join(root, 'clients', 'go'), env=env)
        built['go', root] = path
    return [built['go', root]]


def java_program(root):
    """Compiled once for all processes that test; for a copy, only what
    differs."""
    if ('java', root) not in built:
        sources = [os.path.relpath(one, root) for one in glob.glob(os.path.join(
            root, 'clients/java/src/*/java/hasp/*.java'))]
        path = os.path.join(ROOT, 'build', 'java')
        if root == ROOT:
            compile_once(sources, path)
        else:
            java_program(ROOT)
            own = tempfile.mkdtemp(prefix='conform-')
            atexit.register(shutil.rmtree, own)
            javac([one for one in sources if not filecmp.cmp(
                os.path.join(root, one), os.path.join(ROOT, one), False)],
                root, path, own)
            path = own + ':' + path
        built['java', root] = path
    return ['java', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-cp',
            built['java', root], 'hasp.Conform']


def javac(sources, root, path, to):
    subprocess.run(['javac', '-nowarn', '-cp', path, '-d', to, *sources],
                   check=True, cwd=root)


def compile_once(sources, path):
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, 'made'), 'a+', encoding='utf-8') as made:
        fcntl.flock(made, fcntl.LOCK_EX)
        newest = str(max(os.stat(os.path.join(ROOT, one)).st_mtime_ns
                         for one in sources))
        made.seek(0)
        if made.read() != newest:
            javac(sources, ROOT, path, path)
            made.truncate(0)
            made.write(newest)


def c_program(root):
    """The program of this tree; for a copy, built with this tree's outputs."""
    program = os.path.join(root, BUILD, 'client-tests', 'conform')
    if root != ROOT:
        subprocess.run(['make', '-s', 'B=' + BUILD,
                        'FLAVOUR=' + os.path.basename(BUILD),
                        os.path.join(BUILD, 'client-tests', 'conform')],
                       check=True, cwd=root)
    return [program]


def copy(language, to):
    """Copies a client's sources into an empty folder; returns its own part."""
    parts = IN_C if language == 'c' else [os.path.join('clients', language)]
    for part in parts:
        shutil.copytree(os.path.join(ROOT, part), to / part)
    if language == 'c':
        shutil.copy(os.path.join(ROOT, 'Makefile'), to)
    return to if language == 'c' else to / parts[0]


class Refused(Exception):
    """The client answered an error: 'word'."""

    def __init__(self, word, text):
        super().__init__(f'{word}: {text}')
        self.word = word


class Conform:
    def __init__(self, language, root=ROOT, **env):
        program, words = LANGUAGES[language]
        command = {'c': c_program, 'go': go_program, 'java': java_program}.get(
            language, lambda _: [program, *words])(root)
        self.process = subprocess.Popen(
            command, cwd=root, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env={**os.environ, **env})
        self.news = threading.Condition()
        self.answers, self.events, self.log = {}, [], []
        self.count = 0
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            told = json.loads(line)
            with self.news:
                self.log.append(told)
                if 'event' in told:
                    self.events.append(told)
                else:
                    self.answers[told['id']] = told
                self.news.notify_all()

    def begin(self, do, **words):
        """Gives the id under which it will be answered."""
        self.count += 1
        line = json.dumps({'id': self.count, 'do': do, **words}) + '\n'
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # It has been killed.
        return self.count

    def _wait(self, find, what, patience):
        until = time.monotonic() + (patience or PATIENCE_S)
        with self.news:
            while not find():
                left = until - time.monotonic()
                assert left > 0, f'no report of {what}: {self.log}'
                self.news.wait(left)
            return find()

    def end(self, number, patience=None):
        told = self._wait(lambda: self.answers.get(number), f'id {number}',
                          patience)
        if 'error' in told:
            raise Refused(told['error'], told['text'])
        return told['ok']

    def do(self, do, **words):
        return self.end(self.begin(do, **words))

    def event(self, kind, patience=None):
        def find():
            for told in self.events:
                if told['event'] == kind:
                    return told
            return None

        told = self._wait(find, f'the event {kind}', patience)
        self.events.remove(told)
        return told

    def close(self, kill=False):
        """Gives its exit status."""
        if kill:
            self.process.kill()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            return self.process.wait(20)
        finally:
            self.process.kill()
            self.reader.join(20)
            self.process.stdout.close()
