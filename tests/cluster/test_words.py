# SPDX-License-Identifier: MIT
"""tools/words.py fails when prose or names get worse, and names the new lines."""

import os
import shutil
import subprocess
import sys

import pytest

TOOL = os.path.join(os.path.dirname(__file__), "../../tools/words.py")
GOOD = "/* The leader sends each entry to its followers. */\n"
BAD = "/* Who has the lock is told. */\n"


class Checkout:
    def __init__(self, top):
        self.top = top
        (top / "tools").mkdir()
        (top / "room").mkdir()
        shutil.copy(TOOL, top / "tools/words.py")
        self.run("git", "init", "-q")

    def run(self, *command):
        return subprocess.run(
            command, cwd=self.top, capture_output=True, text=True, timeout=60,
            check=False)

    def words(self, *arguments):
        return self.run(sys.executable, "tools/words.py", *arguments)

    def put(self, path, text):
        (self.top / path).parent.mkdir(exist_ok=True)
        (self.top / path).write_text(text)

    def commit(self):
        self.run("git", "add", "-A")
        done = self.run(
            "git", "-c", "user.name=ann", "-c", "user.email=ann@example.org",
            "commit", "-qm", "x")
        assert done.returncode == 0, done.stderr


@pytest.fixture
def checkout(tmp_path):
    made = Checkout(tmp_path)
    made.put("room/a.c", BAD + GOOD * 100)
    made.commit()
    assert made.words("--write").returncode == 0
    made.commit()
    return made


def test_what_the_table_has_passes(checkout):
    done = checkout.words()
    assert done.returncode == 0, done.stdout
    assert "exceeded: 0" in done.stdout


def test_a_bad_sentence_is_named_and_older_ones_are_not(checkout):
    checkout.put("room/a.c", BAD + GOOD * 100 + BAD * 2)
    done = checkout.words()
    assert done.returncode == 1
    assert 'room/a.c:102: "who" in: Who has the lock' in done.stdout
    assert 'room/a.c:103: "tell" in: ' in done.stdout
    assert "room/a.c:1:" not in done.stdout
    assert "rewrite the 4 marks on new lines" in done.stdout


def test_docstrings_and_texts_are_read(checkout):
    checkout.put("other/a.py", f'"""Whoever {GOOD[3:-4] * 9}"""\n'
                 'raise Error("the lock is not "\n    "held any more")\n')
    checkout.run("git", "add", "-A")
    done = checkout.words("other/a.py")
    assert 'other/a.py:1: "who"' in done.stdout
    assert 'other/a.py:2: "any more"' in done.stdout


def test_write_lowers_a_figure_and_never_raises_one(checkout):
    def figure():
        table = (checkout.top / "tools/words.tsv").read_text()
        return float(table.split("room\t")[1].split("\n")[0])
    first = figure()
    checkout.put("room/a.c", BAD * 9 + GOOD * 100)
    checkout.words("--write")
    assert figure() == first
    checkout.put("room/a.c", GOOD * 100)
    checkout.words("--write")
    assert figure() < first


def test_a_new_room_begins_at_the_goal(checkout):
    checkout.put("new/a.c", BAD * 9 + GOOD * 10)
    checkout.run("git", "add", "-A")
    checkout.words("--write")
    assert "new\t3\n" in (checkout.top / "tools/words.tsv").read_text()
    assert checkout.words().returncode == 1


@pytest.mark.parametrize("code, finding", [
    ("static int begin(void)\n{\n    return 1;\n}\n", "begin (new/b.c)"),
    ("struct pair {\n    int a;\n};\n", "pair (new/a.c, new/b.c)"),
    ("int pair_put(int a)\n{\n    return a;\n}\n",
     "pair_put (new/a.c, new/b.c)"),
])
def test_names_that_mislead_are_counted(checkout, code, finding):
    checkout.put("new/a.c", "struct pair {\n    int a;\n};\n"
                 "int pair_put(int a)\n{\n    return a;\n}\n")
    checkout.run("git", "add", "-A")
    assert checkout.words().returncode == 0
    checkout.put("new/b.c", code)
    checkout.run("git", "add", "-A")
    done = checkout.words()
    assert done.returncode == 1
    assert finding in done.stdout
