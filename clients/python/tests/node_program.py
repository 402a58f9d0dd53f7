# SPDX-License-Identifier: MIT
"""Runs a test of the Node.js client, which kills, starts and freezes nodes of a
cluster by what it prints."""

import os
import subprocess

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..',
                     'node', 'test')


def run(name, cluster):
    """AssertionError: it failed, with its output."""
    nodes = {str(node.client_port): node for node in cluster.nodes}
    program = subprocess.Popen(
        ['node', os.path.join(TESTS, name)],
        env=dict(os.environ, HASP_ENDPOINTS=','.join(
            f'127.0.0.1:{port}' for port in nodes)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    frozen, told = [], []

    def freeze(port):
        frozen.append(nodes[port])
        frozen[0].pause()

    verbs = {'kill': lambda port: nodes[port].kill(), 'freeze': freeze,
             'start': lambda _: cluster.start(),
             'thaw': lambda _: frozen.pop().resume()}
    try:
        for line in program.stdout:
            told.append(line)
            verb, _, port = line.strip().partition(' ')
            if verb in verbs:
                verbs[verb](port)
                program.stdin.write('done\n')
                program.stdin.flush()
        assert program.wait(10) == 0 and told[-1] == 'ok\n', ''.join(told)
    finally:
        for node in frozen:
            node.resume()
        program.kill()
        program.wait()
        program.stdin.close()
        program.stdout.close()
