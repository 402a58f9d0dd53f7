# SPDX-License-Identifier: MIT
"""The strict type checkers of Python and TypeScript on the examples of the
READMEs and on the facts about a lock that is held; and the text of help() about
the options."""

import glob
import os
import pydoc
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from cluster import ROOT
from test_client_packages import packed, run

sys.path.insert(0, os.path.join(ROOT, "clients", "python"))

import hasp  # noqa: E402
import hasp.aio  # noqa: E402
from hasp.hold import Options  # noqa: E402

MYPY, TSC = shutil.which("mypy"), shutil.which("tsc")


def examples(page, fence):
    with open(os.path.join(ROOT, page)) as file:
        text = file.read()
    return re.findall(r"^```%s\n(.*?)^```" % fence, text, re.M | re.S)


# --- Python ------------------------------------------------------------------

# The examples use these names.
PYTHON_BEFORE = """\
from typing import Iterator
import hasp
from hasp import Election, HeldElection, HeldLock, Session

class Store:
    def write(self, row: int, fence: int) -> None: ...

store = Store()
row = 1

def work() -> Iterator[int]:
    yield 1

async def write(token: int) -> None: ...

def step(token: int) -> None: ...

"""

PYTHON_HELD = """\
import hasp.aio

def with_lock(session: Session) -> int:
    with session.lock('a') as lock:
        return one_step(lock)

def one_step(lock: HeldLock) -> int:
    return lock.token

def with_election(session: Session) -> int:
    with Election(session, 'a', value='b') as lead:
        lead.leader()
        return lead.token

def with_slot(session: Session) -> int:
    with hasp.Semaphore(session, 'a', 3).slot() as slot:
        return slot.token

def with_readers(session: Session) -> int:
    with hasp.ReadWriteLock(session, 'a').read() as lock:
        return lock.token

async def with_task(session: hasp.aio.Session) -> int:
    async with session.lock('a') as lock:
        held: hasp.aio.HeldLock = lock
        return held.token

async def with_tasks_election(session: hasp.aio.Session) -> int:
    async with hasp.aio.Election(session, 'a') as lead:
        await lead.leader()
        return lead.token
"""

PYTHON_NOT_HELD = """\
def without(session: Session) -> int:
    return session.lock('a').token  # error: it may be None
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A Python that has the package, as a user's has it."""
    if MYPY is None:
        pytest.skip("no mypy")
    folder = packed("python", tmp_path_factory)
    venv = str(tmp_path_factory.mktemp("venv"))
    run("/usr/bin/python3", "-m", "venv", "--without-pip", venv)
    python = os.path.join(venv, "bin", "python")
    run("/usr/bin/python3", "-m", "pip", "-q", "--python", python, "install",
        "--no-index", "--no-deps", glob.glob(folder + "/*.whl")[0])
    return python


def mypy(python, folder, text):
    path = folder / "program.py"
    path.write_text(PYTHON_BEFORE + text)
    done = subprocess.run(
        [MYPY, "--strict", "--python-executable", python, str(path)],
        cwd=str(folder), capture_output=True, text=True, timeout=300)
    return done.stdout


def test_mypy_accepts_the_examples_of_python(installed, tmp_path):
    text = ""
    found = [example for page in ("clients/python/README.md", "README.md",
                                  "docs/recipes.md")
             for example in examples(page, "python")
             if "redis.Redis" not in example]
    assert len(found) == 5
    for example in found:
        lines = example.splitlines()
        imports = [line for line in lines if re.match("from|import", line)]
        rest = [line for line in lines if line not in imports]
        text += "async def example_%d() -> None:\n" % text.count("example_")
        text += textwrap.indent("\n".join(imports + rest) + "\n", "    ")
    assert mypy(installed, tmp_path, text).startswith("Success")


def test_mypy_knows_that_a_held_lock_has_a_token(installed, tmp_path):
    assert mypy(installed, tmp_path, PYTHON_HELD).startswith("Success")
    told = mypy(installed, tmp_path, PYTHON_NOT_HELD)
    # Older and newer ones write the type differently.
    assert re.search(
        r'got "(Optional\[int\]|int \| None)", expected "int"', told), told


@pytest.mark.parametrize("made", [
    hasp.Lock, hasp.Election, hasp.Session.lock, hasp.Semaphore,
    hasp.ReadWriteLock, hasp.aio.Lock, hasp.aio.Election,
    hasp.aio.Session.lock], ids=lambda made: made.__module__ + "." +
    made.__qualname__)
def test_help_names_each_option_of_a_lock(made):
    said = pydoc.plain(pydoc.render_doc(made))
    for name in Options.__annotations__:
        assert re.search(r"^[\s|]*%s: " % name, said, re.M), (name, said)


@pytest.mark.parametrize("made", [hasp.Session, hasp.aio.Session],
                         ids=["threads", "aio"])
def test_help_names_each_option_of_a_session(made):
    said = pydoc.plain(pydoc.render_doc(made))
    for name in ("endpoints", "name", "ttl", "linger", "timeout", "alive",
                 "on_event", "tls", "secret_file", "durable", "reason",
                 "own_connection", "tie", "agent"):
        assert re.search(r"^[\s|]*%s: " % name, said, re.M), (name, said)


# --- TypeScript --------------------------------------------------------------

# The types of Node.js are a package of their own; the examples need these.
NODE_TYPES = """\
declare module 'node:events' {
  export class EventEmitter {
    on(event: string, listener: (...words: any[]) => void): this;
    emit(event: string, ...words: any[]): boolean;
  }
}
declare module 'node:timers/promises' {
  export function setTimeout(ms: number): Promise<void>;
}
"""

SCRIPT_BEFORE = """\
import { Election, type Held, Lock, Session } from 'hasp';
declare function work(): number[];
declare const store: {
  write(row: number, token: number, how: { signal: AbortSignal }):
    Promise<void>;
};
"""

SCRIPT_HELD = """\
function step(lock: Held): number {
  const signal: AbortSignal = lock.signal;
  return signal.aborted ? 0 : lock.token;
}
async function lead(leader: Held<Election>): Promise<number> {
  await leader.leader();
  return leader.token;
}
export async function all(session: Session): Promise<number> {
  const one: number = await session.lock('a').run(step);
  const two: number = await new Election(session, 'a').run(lead);
  const lock = await session.lock('a').enter();
  await lock.release();
  return one + two + lock.token;
}
"""

SCRIPT_NOT_HELD = """\
export const token = (lock: Lock): number => lock.token;
"""


def tsc(folder, name, text):
    if TSC is None:
        pytest.skip("no TypeScript")
    modules = folder / "node_modules"
    if not modules.exists():
        modules.mkdir()
        (modules / "hasp").symlink_to(
            os.path.join(ROOT, "clients", "node"), True)
        (folder / "node.d.ts").write_text(NODE_TYPES)
    (folder / name).write_text(text)
    (folder / "tsconfig.json").write_text("""{
      "compilerOptions": {
        "strict": true, "noEmit": true, "target": "es2022",
        "lib": ["es2022", "dom"], "module": "node16",
        "moduleResolution": "node16", "types": [], "preserveSymlinks": true,
        "allowJs": true, "checkJs": true, "maxNodeModuleJsDepth": 0,
        "noImplicitAny": %s
      },
      "files": ["node.d.ts", "%s"]
    }""" % ("false" if name.endswith(".js") else "true", name))
    done = subprocess.run([TSC, "-p", "."], cwd=str(folder), timeout=300,
                          capture_output=True, text=True)
    return done.stdout


def test_typescript_accepts_the_examples_of_node(tmp_path):
    """The first is a whole program; the second a part of one."""
    program, part = examples("clients/node/README.md", "js")
    assert tsc(tmp_path, "program.js", program) == ""
    text = SCRIPT_BEFORE + "export async function main() {\n" + part + "}\n"
    assert tsc(tmp_path, "part.ts", text) == ""


def test_typescript_knows_that_a_held_lock_has_a_token(tmp_path):
    assert tsc(tmp_path, "held.ts", SCRIPT_BEFORE + SCRIPT_HELD) == ""
    told = tsc(tmp_path, "open.ts", SCRIPT_BEFORE + SCRIPT_NOT_HELD)
    assert "'number | null' is not assignable to type 'number'" in told
