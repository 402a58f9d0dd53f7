# SPDX-License-Identifier: MIT
"""What sessions of the Node.js client share, on a real cluster whose nodes are
killed and frozen."""

import os
import shutil
import subprocess
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..', '..')
sys.path.insert(0, os.path.join(ROOT, 'tests', 'cluster'))

from cluster import Cluster  # noqa: E402


@pytest.mark.skipif(shutil.which('node') is None, reason='needs Node.js')
def test_sessions_of_the_node_client_share_a_connection():
    with Cluster(3) as cluster:
        cluster.leader()
        nodes = {str(node.client_port): node for node in cluster.nodes}
        environment = dict(os.environ, HASP_ENDPOINTS=','.join(
            f'127.0.0.1:{port}' for port in nodes))
        run = subprocess.Popen(
            ['node', os.path.join(ROOT, 'clients', 'node', 'test',
                                  'links.js')],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
        frozen, told = [], []
        try:
            for line in run.stdout:
                told.append(line)
                verb, _, rest = line.strip().partition(' ')
                if verb == 'kill':
                    nodes[rest].kill()
                elif verb == 'start':
                    cluster.start()
                elif verb == 'freeze':
                    frozen.append(nodes[rest])
                    frozen[0].pause()
                elif verb == 'thaw':
                    frozen.pop().resume()
                else:
                    continue
                run.stdin.write('done\n')
                run.stdin.flush()
            assert run.wait(10) == 0 and told[-1] == 'ok\n', ''.join(told)
        finally:
            for node in frozen:
                node.resume()
            run.kill()
            run.wait()
            run.stdin.close()
            run.stdout.close()
