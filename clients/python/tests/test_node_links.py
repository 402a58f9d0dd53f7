# SPDX-License-Identifier: MIT
"""The connections that sessions of the Node.js client share, on a real cluster
with nodes that are killed and frozen."""

import os
import shutil
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, '..', '..', '..', 'tests', 'cluster'))

import node_program  # noqa: E402
from cluster import Cluster  # noqa: E402


@pytest.mark.skipif(shutil.which('node') is None, reason='needs Node.js')
def test_sessions_of_the_node_client_share_a_connection():
    with Cluster(3) as cluster:
        cluster.leader()
        node_program.run('links.js', cluster)


@pytest.mark.skipif(shutil.which('node') is None, reason='needs Node.js')
def test_what_is_aborted_at_any_tick_leaves_nothing_behind():
    with Cluster(3) as cluster:
        cluster.leader()
        node_program.run('interrupts.js', cluster)
