#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants faults and checks that the nemesis test finds them, on real processes.

A plant is a mistake of the clients, of disks or of clocks (NEMESIS_PLANT), or a
patch of tests/mutants, with which haspd is built; with it goes the schedule of
faults of the nodes. Real time decides as well as the seed, so a plant has up to
four runs to be found in.

    tools/nemesis_plants.py            all of them; needs root, about 20 minutes
    tools/nemesis_plants.py NAME...    those whose names contain NAME

Prints the table of docs/correctness.md: for each plant the faults under which
it was found, how long its runs took until then, and the first sentence that
says so. Exits with 1 if one was not found. The tree is copied to build/plants;
the checkout is never changed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time

from collections import namedtuple

import mutants_plant

RUNS = 4
WIDTH = 120  # The width of a message.
TREE = 'build/plants'
Plant = namedtuple('Plant', 'name what faults nodes seconds')
NETWORK = 'process,client,network'
PLANTS = [
    Plant('forever', 'A client trusts its lease for ever.', NETWORK, 3, 30),
    Plant('answer', 'A client counts its lease from the answer, and all of it.',
          'client,clock', 3, 40),
    Plant('late', 'A client believes until its release is answered.', NETWORK,
          3, 20),
    Plant('client-clock', 'The clocks of clients run at 0.3.', 'client,clock',
          3, 30),
    Plant('node-clock', 'The clocks of nodes run at 2.5.', 'client,clock', 3,
          30),
    Plant('no-flush', 'Disks lie: flushes count for nothing.', 'power', 3, 20),
]
PATCHES = [
    ('leader-applies-uncommitted', 'process,network', 3, 40),
    ('wal-without-dsync', 'power', 3, 20),
    ('refusal-not-kept', NETWORK, 3, 20),
    ('mrelease-leaves-last', 'client', 3, 20),
    ('upgrade-keeps-token', 'client', 3, 20),
    ('fence-goes-down', 'client', 3, 20),
    ('granted-in-quarantine', 'client,restore', 3, 20),
    ('new-life-no-gap', 'client,restore', 3, 20),
    ('unknown-told-as-undone', NETWORK, 3, 40),
    ('keep-answered-unheard', NETWORK, 3, 40),
    ('again-not-the-last', NETWORK, 3, 20),
    ('life-of-event-ignored', 'client,restore', 3, 20),
    ('spent-number-is-new', 'client', 3, 20),
    ('reader-passes-writer', 'client', 3, 20),
    ('shared-beside-slots', 'client', 3, 20),
    ('slots-one-more', 'client', 3, 20),
    ('barge-into-closed', 'client', 3, 20),
    ('max-hold-without-delay', 'client', 3, 20),
    ('former-tokens-admitted', 'client,restore', 3, 20),
    ('push-of-the-question', 'client', 3, 20),
    ('durable-times-out', 'process,client', 3, 20),
    ('share-gives-lock', 'client', 3, 20),
    ('certificate-of-anyone', 'client', 3, 20),
    ('http-forgets-numbers', 'client', 3, 20),
]


def patch_of(name):
    with open(f'tests/mutants/{name}.patch', encoding='utf-8') as file:
        return file.read()


def plants():
    yield from PLANTS
    for name, *rest in PATCHES:
        what = re.search(r'^What: (.*(?:\n .*)*)', patch_of(name), re.M)[1]
        yield Plant(name, ' '.join(what.split()), *rest)


def in_tree(*command, **environment):
    return subprocess.run(
        command, cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
        env=dict(os.environ, **environment))


def build():
    done = in_tree('make', '-s', f'-j{os.cpu_count()}', 'all', 'client-tests')
    if done.returncode != 0:
        sys.exit(f'it does not build:\n{done.stdout}')


def prepare():
    """A build of a copy of the files in git."""
    files = subprocess.run(['git', 'ls-files', '-z'], stdout=subprocess.PIPE,
                           check=True).stdout.decode().split('\0')
    for path in filter(os.path.isfile, files):
        copy = os.path.join(TREE, path)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if not os.path.exists(copy) or \
                open(path, 'rb').read() != open(copy, 'rb').read():
            shutil.copy(path, copy)
    build()


def patched(plant):
    """Plants it, and returns the original text."""
    texts = mutants_plant.planted(TREE, patch_of(plant.name))
    before = {path: mutants_plant.read(f'{TREE}/{path}') for path in texts}
    write(texts)
    return before


def write(texts):
    for path, text in texts.items():
        with open(f'{TREE}/{path}', 'w', encoding='utf-8') as file:
            file.write(text)


def run(plant, seed):
    """The first violation, or None."""
    is_patch = plant not in PLANTS
    release = os.path.join(os.path.abspath(TREE), 'build/release')
    done = in_tree(
        '/usr/bin/python3', '-m', 'pytest', '-q', '-s', '-k', 'three_nodes',
        'tests/cluster/test_nemesis.py',
        HASPD=f'{release}/haspd', HASP=f'{release}/hasp', HASP_BUILD=release,
        NEMESIS_SECONDS=str(plant.seconds), NEMESIS_NODES=str(plant.nodes),
        NEMESIS_FAULTS=plant.faults, NEMESIS_SEED=str(seed),
        NEMESIS_PLANT='' if is_patch else plant.name)
    found = re.search(r'^found: (.*)$', done.stdout, re.M)
    is_judged = re.search(r'^\d+ beliefs, ', done.stdout, re.M)
    if found is None and not is_judged:
        # The run was aborted: the cluster could not continue.
        found = re.search(r'^E +\w*Error: (.*)$', done.stdout, re.M)
        if found is None:
            sys.exit(done.stdout)
    return found and found[1]


def hunt(plant):
    before = {} if plant in PLANTS else patched(plant)
    try:
        build()
        begun = time.monotonic()
        for seed in range(1, RUNS + 1):
            found = run(plant, seed)
            if found is not None:
                break
        return seed, time.monotonic() - begun, found
    finally:
        write(before)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('names', nargs='*')
    options = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
    prepare()
    survived = 0
    print('| plant | faults | runs | seconds | found |\n|---|---|---|---|---|')
    for plant in plants():
        if options.names and not any(n in plant.name for n in options.names):
            continue
        runs, seconds, found = hunt(plant)
        survived += found is None
        found = (found or '**not found**').replace('|', '/')[:WIDTH]
        print(f'| {plant.what} (`{plant.name}`) | {plant.faults} | {runs} | '
              f'{seconds:.0f} | {found} |', flush=True)
    sys.exit(survived != 0)


if __name__ == '__main__':
    main()
