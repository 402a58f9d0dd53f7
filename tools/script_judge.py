#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests hasp with the lock scripts of public repositories.

    tools/script_judge.py collect REPOSITORIES SCRIPTS
    tools/script_judge.py judge SCRIPTS [--sample NAME] [--why]
    tools/script_judge.py count SCRIPTS

'collect' takes them out of git repositories (folders owner+name): *.lua files, and
strings of programs, of repositories of locks all, of others those that speak of
locks. Two that differ in comments, spaces and quotes alone are one; its file is
named by its digest.

'judge' asks a node about each that a real Redis can compile: is it understood, that
is, does SCRIPT LOAD take it; and if both then run it on the same random keys, do
they answer the same. tests/vectors/public_scripts.tsv says which sample a
script belongs to: hasp was built with the first, and asked about the others, each once
before anything was changed for it. The scripts themselves are
their authors', and not here. Needs redis-server or redis-tools; $HASPD is judged.
"""

import argparse
import collections
import glob
import hashlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cluster"))
LIST = os.path.join(ROOT, "tests", "vectors", "public_scripts.tsv")

from cluster import Cluster, ReplyError  # noqa: E402
from wire import Wire  # noqa: E402

# --- Collecting -------------------------------------------------------------

LOCKS = re.compile(r"(?<![bc])lock(?!ed_?at|file)|mutex|semaphore|redsync", re.I)
CALL = re.compile(r"redis\s*\.\s*p?call\s*\(")
SOURCES = re.compile(
    r"\.(lua|py|js|mjs|cjs|ts|go|java|kt|cs|fs|vb|php|rb|rs|ex|exs|scala|cpp|hpp|h|"
    r"swift|groovy|cfc|clj|dart)$"
)
CHARACTERS = re.compile(r"\.(java|go|cs|kt|rs|scala|cpp|hpp|h|swift|clj)$")
HASHES = re.compile(r"\.(py|rb|php|ex|exs)$")
FOREIGN = re.compile(r"(^|/)(vendor|node_modules)/")
# A file that others include, or that includes some, is not a script itself.
PARTIAL = re.compile(r"(^|/)(includes?|shared|partials?)/|(^|/)_[^/]*$")
INCLUDES = re.compile(r"@include|include_partial")
SIZE_MAX = 4096  # Not about locks, or incomplete.
LITERAL = re.compile(
    r'''(?sx)
      """(?P<triple>.*?)""" | \'\'\'(?P<triple1>.*?)\'\'\'
    | @"(?P<doubled>(?:[^"]|"")*)"
    | r(?P<hash>\#*)"(?P<raw>.*?)"(?P=hash)
    | `(?P<back>[^`]*)`
    | <<[<~-]?\s*['"]?(?P<tag>[A-Z_][A-Za-z_]*)['"]?[^\n]*\n
      (?P<here>.*?)\n[ \t]*(?P=tag)\b
    | "(?P<double>(?:[^"\\\n]|\\.)*)"
    | (?P<comment>//[^\n]*|/\*.*?\*/)
    | '(?P<single>(?:[^'\\\n]|\\.)*)'
    '''
)
COMMENT = re.compile(r"(?s)//[^\n]*|/\*.*?\*/|#[^\n]*")
# The text allowed between two strings of one script.
JOINED = re.compile(
    r"(?s)^(?:\s|\+|\.(?!\w)|&|\\|_(?=\s)"
    r"|\)?\s*;?\s*\w*\s*\.\s*[aA]ppend(?:Line)?\s*\()*$"
)
LISTED = re.compile(r"(?s)^(?:\s|,|\+)*$")
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}


def strings(text):
    """(from, to, what it says) of each."""
    for m in LITERAL.finditer(text):
        whole = [m[k] for k in ("triple", "triple1", "raw", "back", "here")]
        said = next((one for one in whole if one is not None), None)
        if m["comment"] is not None:
            continue
        if said is not None:
            said = said.replace("\\n", "\n")
        elif m["doubled"] is not None:
            said = m["doubled"].replace('""', '"')
        else:
            escaped = m["double"] or m["single"] or ""
            said = re.sub(r"(?s)\\(.)", lambda e: ESCAPES.get(e[1], e[1]), escaped)
        yield m.start(), m.end(), said


def joined(text, between, glue):
    parts, end = [], 0
    for start, stop, said in strings(text):
        if parts and not between.match(COMMENT.sub("", text[end:start])):
            yield glue.join(parts)
            parts = []
        parts.append(said)
        end = stop
    yield glue.join(parts)


def scripts_of(path, text):
    if path.endswith(".lua"):
        return [] if INCLUDES.search(text) else [text]
    if CHARACTERS.search(path):  # '"' does not begin a string.
        text = re.sub(r"'(?:[^'\\\n]|\\.)'|'(?=[a-z_]+\b[^'])", " ", text)
    if HASHES.search(path):
        text = re.sub(r"(?m)^[ \t]*#[^\n]*$", "", text)
    found = [*joined(text, JOINED, ""), *joined(text, LISTED, "\n")]
    return [
        script
        for script in dict.fromkeys(found)
        if CALL.search(script) and not INCLUDES.search(script)
    ]


def is_of_locks(name, path, script):
    speaks = LOCKS.search(script)
    if LOCKS.search(name) or LOCKS.search(os.path.basename(path)):
        return speaks or len(script) <= SIZE_MAX
    return speaks and len(script) < SIZE_MAX // 2


def digest_of(script):
    """The normal form: equal for scripts that differ in nothing that matters."""
    text = re.sub(r"(?s)--\[\[.*?\]\]|--[^\n]*", " ", script)
    text = re.sub(r"['\"]", "'", text).replace(";", " ")
    return hashlib.sha256("".join(text.split()).encode()).hexdigest()[:16]


def git(folder, *words):
    command = ["git", "-C", folder, *words]
    done = subprocess.run(command, capture_output=True, check=False)
    return done.stdout.decode("utf-8", "replace")


def sources(folder):
    """(path, text) of the files of the newest commit that may have some."""
    head = git(folder, "rev-parse", "-q", "--verify", "HEAD").strip()
    head = head or git(folder, "for-each-ref", "--format=%(objectname)").split("\n")[0]
    names = git(folder, "grep", "-lzIE", r"redis\s*\.\s*p?call", head).split("\0")
    for name in names:
        path = name.partition(":")[2]
        if SOURCES.search(path) and not (FOREIGN.search(path) or PARTIAL.search(path)):
            yield path, git(folder, "cat-file", "blob", name)


def collect(root, out):
    os.makedirs(out, exist_ok=True)
    found = {}
    for name in sorted(os.listdir(root)):
        folder = os.path.join(root, name, "repo")
        folder = folder if os.path.isdir(folder) else os.path.join(root, name)
        for path, text in sources(folder) if os.path.isdir(folder) else ():
            for script in scripts_of(path, text):
                digest = digest_of(script)
                if digest not in found and is_of_locks(name, path, script):
                    found[digest] = name.replace("+", "/", 1), path
                    with open(os.path.join(out, digest + ".lua"), "w") as file:
                        file.write(script)
    for digest, (name, path) in sorted(found.items()):
        print(digest, name, path, sep="\t")


# --- Judging ----------------------------------------------------------------

ROUNDS = 12
# Not runnable by Redis: a template whose variables its library fills in.
NO_SCRIPT = re.compile(r"global variable|readonly table")
COUNTS = re.compile(r"(?i)limit|max|count|num|size|permits|amount|capacity")
TIMES = re.compile(r"(?i)ttl|time|expir|lease|ms\b|sec|now|duration|score")
NUMBER_BEFORE = (
    r"(?i)(?:expire|p?setex|incrby|decrby|tonumber|['\"][pe]x['\"]|range|zadd)[^\n;]*?"
)


def count_of(text, word):
    places = re.findall(word + r"\s*\[\s*(\d+)\s*\]", text)
    if places:
        return max(map(int, places))
    return 2 if re.search(r"(?:#|unpack\s*\(|pairs\s*\()\s*" + word, text) else 0


def argument_of(text, i, rng):
    """The kind of ARGV[i]: a count, a time, or otherwise a token."""
    at = r"ARGV\s*\[\s*%d\s*\]" % i
    named = re.search(r"local\s+(\w+)\s*=\s*(?:tonumber\s*\()?\s*" + at, text)
    name = named[1] if named else ""
    if COUNTS.search(name):
        return "2"
    is_compared = re.search(r"==\s*" + at, text)
    if TIMES.search(name) or (re.search(NUMBER_BEFORE + at, text) and not is_compared):
        return "3000"
    return rng.choice(["tok", "tok", "other"])


def rounded(answer):
    if isinstance(answer, (list, tuple)):
        return [rounded(part) for part in answer]
    if isinstance(answer, int) and answer > 1000:
        return (answer + 1500) // 5000 * 5000
    return str(answer)


def run(wire, text, keys, arguments):
    try:
        return wire.do("EVAL", text, len(keys), *keys, *arguments)
    except ReplyError as error:
        return error


def compare(digest, text, mine, real):
    """The result of running it on both: "same", or why not; None: it is not a
    script."""
    rng = random.Random(digest)
    answered, verdict = 0, "same"
    for i in range(ROUNDS):
        keys = ["%s-%d-%d" % (digest, i, k) for k in range(count_of(text, "KEYS"))]
        arguments = [
            argument_of(text, k + 1, rng)
            for k in range(count_of(text, "ARGV"))
        ]
        holder = rng.choice(["tok", "tok", "other", None])
        state = {key: holder for key in keys if holder and rng.random() < 0.8}
        for key, value in state.items():
            for wire in (mine, real):
                wire.do("SET", key, value, "NX", "PX", 30000)
        for _ in range(2):
            got, wanted = (run(wire, text, keys, arguments) for wire in (mine, real))
            if isinstance(wanted, ReplyError):
                if NO_SCRIPT.search(str(wanted)):
                    return None
                continue  # Redis does not do it either.
            answered += 1
            if verdict == "same" and isinstance(got, ReplyError):
                verdict = "fails: " + re.sub(r"line \d+: ", "", str(got))
            elif verdict == "same" and rounded(got) != rounded(wanted):
                verdict = "answers otherwise"
    return verdict if answered else "not run: no arguments were found that Redis takes"


def verdict_on(digest, text, mine, real):
    try:
        real.do("SCRIPT", "LOAD", text)
    except ReplyError:
        return None
    verdict = compare(digest, text, mine, real)
    try:
        mine.do("SCRIPT", "LOAD", text)
    except ReplyError as error:
        said = str(error).split("script: ", 1)[-1]
        return verdict and "refused: " + re.sub(r"line \d+: ", "", said)
    return verdict


def count(folder):
    """Prints in how many of the listed scripts each command of core/redis occurs."""
    texts = []
    for digest in samples():
        path = os.path.join(folder, digest + ".lua")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
    print("%d scripts" % len(texts))
    for path in sorted(glob.glob(os.path.join(ROOT, "core/redis/key_*.c"))):
        with open(path, encoding="utf-8") as file:
            for name in re.findall(r'^    \{"([A-Z]+)",', file.read(), re.M):
                word = re.compile(r"""['"]%s['"]""" % name, re.I)
                found = sum(1 for text in texts if word.search(text))
                print(os.path.basename(path), name, found)


def start_redis(folder):
    program = shutil.which("redis-server") or shutil.which("redis-check-rdb")
    if program is None:
        sys.exit("script_judge: install redis-server or redis-tools")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    process = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1"]
        + ["--save", "", "--appendonly", "no", "--dir", folder],
        executable=program, stdout=subprocess.DEVNULL, start_new_session=True,
    )
    for _ in range(200):
        try:
            return process, Wire(port)
        except OSError:
            time.sleep(0.05)
    sys.exit("script_judge: redis-server does not start")


def samples():
    """The sample of each listed script, by digest."""
    with open(LIST, encoding="utf-8") as file:
        rows = [line.split("\t") for line in file if not line.startswith("#")]
    return {row[1]: row[0] for row in rows}


def judge(folder, sample, is_why):
    listed = samples()
    verdicts = collections.defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="hasp-judge-") as place:
        process, real = start_redis(place)
        try:
            settings = "[redis]\nno_ttl = durable\ndel = allow\n"
            with Cluster(1, extra=settings) as cluster:
                mine = Wire(cluster.leader().client_port)
                for name in sorted(os.listdir(folder)):
                    digest = name.removesuffix(".lua")
                    if sample is not None and listed.get(digest) != sample:
                        continue
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        verdict = verdict_on(digest, file.read(), mine, real)
                    if verdict is not None:
                        verdicts[verdict].append(digest)
                mine.close()
        finally:
            real.close()
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(10)
    tell(verdicts, is_why)


def tell(verdicts, is_why):
    counts = collections.Counter()
    for verdict, digests in verdicts.items():
        counts[verdict.split(":")[0]] += len(digests)
    total = sum(counts.values())
    understood = total - counts["refused"]
    print(
        "scripts %d, understood %d (%.1f %%); run on both: the same %d, otherwise %d, "
        "hasp alone fails %d; not run %d"
        % (total, understood, 100 * understood / max(total, 1), counts["same"],
           counts["answers otherwise"], counts["fails"], counts["not run"])
    )
    for verdict in sorted(verdicts, key=lambda v: (-len(verdicts[v]), v)):
        if is_why and verdict != "same":
            print(len(verdicts[verdict]), verdict, *verdicts[verdict][:3])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parts = parser.add_subparsers(dest="part", required=True)
    collecting = parts.add_parser("collect")
    collecting.add_argument("repositories")
    collecting.add_argument("scripts")
    judging = parts.add_parser("judge")
    judging.add_argument("scripts")
    judging.add_argument("--sample", choices=["built", "held-out", "second"])
    judging.add_argument("--why", action="store_true")
    parts.add_parser("count").add_argument("scripts")
    words = parser.parse_args()
    if words.part == "collect":
        collect(words.repositories, words.scripts)
    elif words.part == "count":
        count(words.scripts)
    else:
        judge(words.scripts, words.sample, words.why)


if __name__ == "__main__":
    main()
