# SPDX-License-Identifier: MIT
"""Shares the tests out among the processes of pytest-xdist.

Tests of a file that share a cluster run in one process, in their order; others
are shared out one by one. The longest begin first, so that no process is still
busy when the others have ended: xdist's own order gave one process 93 tests of
clients that wait, and it took four minutes longer than the others.
"""

import os
import re

import pytest

try:
    from xdist.scheduler import LoadScopeScheduling
except ImportError:  # Without xdist nobody asks for a scheduler.
    LoadScopeScheduling = object

ROOT = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
)
# Here only certificates are shared.
APART = ("test_conformance.py",)
# Seconds of the longest, found in the test's name. Only the order counts.
LONG = {
    "test_bad_input": 212, "test_agent": 168, "cluster/test_run.py": 159,
    "test_java_client": 154, "test_pairs": 137, "test_go_client": 90,
    "test_libhasp": 83, "test_identity.py": 80, "test_kubelet_secrets": 62,
    "test_nemesis.py": 59, "test_examples": 57, "test_two_never": 50,
    "test_page": 47, "test_tool.py": 33, "test_redis_clients": 33,
    "test_node_links": 31, "flushes_are_slow": 31, "python_planted": 30,
    "test_doctor": 27, "celery_runs": 27,
    "java_frameworks": 25, "circumstances": 26, "test_recipes": 26,
    "test_tool_views": 26, "test_pods": 26, "test_faults": 24,
    "test_python_links": 23, "test_http_api": 21, "test_goals": 20,
    "test_rotation": 19, "test_tls_clients": 19, "test_interrupts": 18,
    "test_sim_long": 18, "test_doors": 17, "test_tls.py": 17,
    "test_node_cron": 16, "test_client_types": 16, "test_ctdb_lock": 16,
    "test_storage_errors": 15, "test_flushes": 15, "test_tls_storm": 15,
    "test_redis_scripts": 15, "test_protocol_server": 15, "test_slow_disk": 11,
    "test_planted": 9, "test_conformance.py": 5, "test_members": 5,
}


def seconds(unit):
    return max((LONG[name] for name in LONG if name in unit), default=0)


class Shares(LoadScopeScheduling):
    shared = {}

    def _split_scope(self, nodeid):
        path = nodeid.split("::")[0]
        if path not in self.shared:
            with open(os.path.join(ROOT, path)) as file:
                self.shared[path] = not path.endswith(APART) and bool(
                    re.search(r"scope=.module|\bworld\b", file.read())
                )
        return path if self.shared[path] else nodeid

    def _assign_work_unit(self, node):
        self.workqueue.move_to_end(max(self.workqueue, key=seconds), last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    return Shares(config, log)
