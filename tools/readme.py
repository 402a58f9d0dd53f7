#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the examples of README.md and docs/ and compares what they print.

An example is a fenced block with the info string "console": lines that begin
with "$ " are commands (a trailing backslash continues them), the lines below
them the output. Runs of digits and of hex digits count as equal whatever their
value, "..." on a line of its own stands for any lines, "..." inside a line for
any text; in the table of "hasp status" any node may lead. docs/errors.md is
compared with the error words of the server. The blocks of one file run in one
shell, against one fresh cluster of three nodes on free ports (its own, if the
file has "$ hasp dev" or starts nodes in a loop); the default ports (7420 to
7452) are replaced by those. The folder is an empty one that has "docs" and
"clients" as the checkout has. Several files run beside each other, since most
of what they do is to wait.

    tools/readme.py BUILD [FILE...]
"""

import concurrent.futures
import contextlib
import glob
import io
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ports import free_base

TIMEOUT = 60
JOBS = 2
EX_USAGE = 64
WORDS_PAGE = 'docs/errors.md'


def blocks(path):
    """Gives (line, [(command, [expected line])]) of each example."""
    found, current = [], None
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file.read().split('\n'), 1):
            if current is None:
                if line.strip() == '```console':
                    current = (number, [])
            elif line.strip() == '```':
                found.append(current)
                current = None
            elif line.startswith('$ '):
                current[1].append([line[2:], []])
            elif current[1] and current[1][-1][0].endswith('\\') and \
                    not current[1][-1][1]:
                current[1][-1][0] += '\n' + line
            elif current[1]:
                current[1][-1][1].append(line)
    return found


def commands_of(text):
    """Gives the words of each command of a piece of shell."""
    words = []
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    for word in lexer:
        if re.fullmatch(r'[;&|()]+', word):
            yield words
            words = []
        else:
            words.append(word)
    yield words


def tool_commands(path):
    """Gives (line, arguments) of each command of hasp in blocks of "sh"."""
    found, text = [], None
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            if line.strip().startswith('```'):
                text = '' if line.strip() == '```sh' else None
                continue
            if text is None:
                continue
            text += line
            try:
                commands = list(commands_of(text))
            except ValueError:
                continue  # A quoted text continues on the next line.
            text = ''
            for words in commands:
                if words[:2] == ['sudo', '-u']:
                    words = words[3:]
                if words[:1] == ['hasp']:
                    found.append((number, words[1:]))
    return found


def check_commands(build, path):
    """Gives (passed, failed): does the tool understand its arguments?"""
    passed = failed = 0
    for line, arguments in tool_commands(path):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [f'{build}/hasp', *arguments], capture_output=True, text=True,
                cwd=folder, timeout=TIMEOUT, check=False,
                env=dict(os.environ, HASP_ENDPOINTS='127.0.0.1:1',
                         HASP_TIMEOUT='1s'))
        if done.returncode != EX_USAGE:
            passed += 1
            continue
        failed += 1
        print(f'{path}:{line}: hasp {" ".join(arguments)}')
        print('  ' + done.stderr)
    return passed, failed


def copy_checkout(folder):
    """Copies the checkout's files; gives each one's size and time."""
    names = subprocess.run(['git', 'ls-files', '-z'], capture_output=True,
                           text=True, check=True).stdout.split('\0')
    for name in filter(os.path.isfile, names):
        target = os.path.join(folder, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(name, target)
    return states(folder, names)


def states(folder, names):
    """Returns the size and time of a file; None if it is gone."""
    found = {}
    for name in filter(None, names):
        try:
            state = os.stat(os.path.join(folder, name))
            found[name] = state.st_size, state.st_mtime_ns
        except FileNotFoundError:
            found[name] = None
    return found


def normal(line):
    line = re.sub(r'\b[0-9a-f]{16,}\b', '#', line.rstrip())
    line = re.sub(r'\d+', '#', re.sub(r'\s+', ' ', line))
    return re.sub(r'^( ?# \S+) (leader|follower)\b', r'\1 role', line)


def matches(expected, actual):
    pattern = ''
    for line in expected:
        if line.strip() == '...':
            pattern += r'(?:.*\n)*?'
        else:
            pattern += '.*?'.join(re.escape(normal(part)) for part in
                                  line.split('...')) + '\n'
    text = ''.join(normal(line) + '\n' for line in actual)
    return re.fullmatch(pattern, text) is not None


def processes(session):
    """Returns a table of the processes of the session."""
    return subprocess.run(
        ['ps', '-s', str(session), '-o', 'pid,ppid,stat,wchan:20,time,args'],
        capture_output=True, text=True, check=False).stdout


class Hang(Exception):
    """A command that did not end: its output so far, and the processes."""


class Shell:
    def __init__(self, build, port, folder):
        environment = dict(os.environ, PATH=f'{build}:{os.environ["PATH"]}',
                           HASP_ENDPOINTS=','.join(
                               f'127.0.0.1:{port + 10 * i}'
                               for i in range(3)), NO_COLOR='1',
                           PYTHONDONTWRITEBYTECODE='1')
        self.port = port
        self.process = subprocess.Popen(
            ['bash', '--norc'], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment, cwd=folder, start_new_session=True)

    def run(self, command):
        for i in range(4):
            for j in range(3):
                command = command.replace(str(7420 + 10 * i + j),
                                          str(self.port + 10 * i + j))
        if re.match(r'hasp dev\b', command) and '--port' not in command:
            command = command.replace('hasp dev',
                                      f'hasp dev --port {self.port}', 1)
        self.process.stdin.write(
            f'{{ {command}\n}} </dev/null\necho; echo "@@end $?"\n'.encode())
        self.process.stdin.flush()
        # redis-cli prints the time of an answer that took half a second.
        lines = [line for line in self.read(command)
                 if not re.fullmatch(r'\(\d+\.\d\ds\)', line)]
        while lines and lines[-1] == '':
            lines.pop()
        return lines

    def read(self, command):
        """Gives the lines that the command prints, up to the end mark."""
        end, text = time.monotonic() + TIMEOUT, b''
        while not re.search(rb'^@@end \d+\n', text, re.M):
            left = max(0, end - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise Hang(command, text, processes(self.process.pid))
            part = os.read(self.process.stdout.fileno(), 65536)
            if not part:
                raise Hang(command, text, 'the shell has ended')
            text += part
        return text.decode()[:text.index(b'@@end')].split('\n')

    def close(self):
        """Stops everything that the file started, and waits for it."""
        group = self.process.pid
        try:
            os.killpg(group, signal.SIGTERM)
            self.process.wait(10)
            for _ in range(100):
                os.killpg(group, 0)
                time.sleep(0.1)
            os.killpg(group, signal.SIGKILL)
        except subprocess.TimeoutExpired:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass


def words_of_page(path):
    """Gives {word: was it done?} of the table in docs/errors.md."""
    with open(path, encoding='utf-8') as file:
        rows = [line.split(' | ') for line in file if line.startswith('| `')]
    return {row[0].strip('| `'): row[-2] for row in rows}


def words_of_server():
    """Gives {word: does it deny any effect?} of the server's own table."""
    with open('core/core.h', encoding='utf-8') as file:
        table = re.search(r'#define CORE_WORDS\(X\)((?:.*\\\n)*.*)', file.read())
    return {word: denies == 'true'
            for word, denies in re.findall(r'X\((\w+), (\w+)', table.group(1))}


def check_words(path):
    """Gives (passed, failed): does the page have each word of the server?"""
    page, server = words_of_page(path), words_of_server()
    wrong = [f'{word} is missing' for word in server if word not in page]
    wrong += [f'no node sends {word}' for word in page if word not in server]
    # The server itself lists the words that deny any effect.
    wrong += [f'{word} must {"" if denies else "not "}say "no"'
              for word, denies in server.items()
              if word in page and (page[word] == 'no') != denies]
    for one in wrong:
        print(f'{path}: {one}')
    return len(server) - len(wrong), len(wrong)


def left_over(shell, folder, before):
    """Reports what a reader would be left with after the file's examples."""
    after = states(folder, before)
    for name, state in before.items():
        if after[name] != state:
            yield f'its examples change or remove {name} of the checkout'
    for line in processes(shell.process.pid).split('\n'):
        if 'haspd' in line:
            yield f'its examples leave this running: {line}'


def run_file(build, path):
    """Runs the examples of one file; gives (passed, failed)."""
    passed, failed = check_commands(build, path)
    if path == WORDS_PAGE:
        good, bad = check_words(path)
        passed, failed = passed + good, failed + bad
    examples = blocks(path)
    if not examples:
        return passed, failed
    port = free_base(range(40))
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.join(temporary, 'hasp')
        before = copy_checkout(folder)
        shell = Shell(build, port, folder)
        text = open(path, encoding='utf-8').read()
        own = re.search(r'^\$ (hasp dev|for .*\bhaspd --id)', text, re.M)
        cluster = None
        if not own:
            cluster = subprocess.Popen(
                [f'{build}/hasp', 'dev', '--port', str(port), '--dir',
                 os.path.join(folder, 'dev')],
                stdout=subprocess.PIPE, text=True, start_new_session=True)
            if not select.select([cluster.stdout], [], [], TIMEOUT)[0] or \
                    not cluster.stdout.readline().startswith('ready'):
                print(f'{path}:1: the cluster did not start')
                cluster.kill()
                return 0, 1
        try:
            for line, commands in examples:
                for command, expected in commands:
                    while expected and expected[-1] == '':
                        expected.pop()
                    actual = shell.run(command)
                    if matches(expected, actual):
                        passed += 1
                        continue
                    failed += 1
                    print(f'{path}:{line}: $ {command}')
                    print('  expected:', *expected, sep='\n    ')
                    print('  actual:', *actual, sep='\n    ')
            for problem in left_over(shell, folder, before):
                failed += 1
                print(f'{path}: {problem}')
        except Hang as hang:
            command, text, table = hang.args
            failed += 1
            print(f'{path}: no end after {TIMEOUT} s: $ {command}')
            print('  so far:', *text.decode().split('\n'), sep='\n    ')
            print('  processes:', *table.split('\n'), sep='\n    ')
        finally:
            shell.close()
            if cluster:
                cluster.terminate()
                cluster.wait(15)
    return passed, failed


def told_of_file(build, path):
    """Runs a file's examples; gives (passed, failed, messages)."""
    with contextlib.redirect_stdout(io.StringIO()) as told:
        passed, failed = run_file(build, path)
    return passed, failed, told.getvalue()


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith('-'):
        print(__doc__)
        return 0 if sys.argv[1:] in (['--help'], ['-h']) else EX_USAGE
    build = os.path.abspath(sys.argv[1])
    files = sys.argv[2:] or ['README.md'] + sorted(glob.glob('docs/**/*.md',
                                                             recursive=True))
    passed = failed = 0
    # Processes, since each has ports of its own.
    with concurrent.futures.ProcessPoolExecutor(JOBS) as pool:
        runs = {path: pool.submit(told_of_file, build, path) for path in files}
        for path, run in runs.items():
            good, bad, told = run.result()
            print(told, end='')
            if good + bad:
                print(f'{path}: {good} passed, {bad} failed')
            passed, failed = passed + good, failed + bad
    return 1 if failed or not passed else 0


sys.exit(main())
