#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests the container image of tools/image.sh.

    tools/test_image.py [PART ...]    as root (make image; make deps-image)

Parts: inspect, alone, owner, cluster, podman. A container is run by runc, with a
root that is read-only, no capabilities, as user 65532; `cluster` runs three of
them in network namespaces of their own under load. Each part says what it saw.
`podman` is skipped, with the reason, where podman does not work.
"""

import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(TOP, 'tests', 'cluster'))

from nemesis_net import Network  # noqa: E402

VERSION = re.search(r'^VERSION := (\S+)', open(
    os.path.join(TOP, 'Makefile')).read(), re.M).group(1)
OUT = os.environ.get('HASP_OUT', os.path.join(TOP, 'build', 'packages'))
IMAGE = os.path.join(OUT, 'hasp-%s-image.tar' % VERSION)
USER = 65532
SIZE_MAX = 40 << 20
STOP_S = 2.0


def say(text):
    print('%s  %s' % (time.strftime('%H:%M:%S'), text), flush=True)


def run(*words, check=True, **options):
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=300, **options)
    if check and done.returncode != 0:
        sys.exit('%s\n%s: exit %d' % (done.stdout[-4000:], ' '.join(words),
                                      done.returncode))
    return done


class Container:
    """One container of the image, run by runc as kubelet would."""

    number = 0

    def __init__(self, world, hostname, variables, owner=USER, network=None):
        Container.number += 1
        self.name = 'hasp-test-%d-%d' % (os.getpid(), Container.number)
        self.bundle = os.path.join(world, self.name)
        self.volume = os.path.join(world, 'volume-' + hostname)
        self.log = os.path.join(world, self.name + '.log')
        self.state = os.path.join(world, 'runc')
        run('umoci', 'unpack', '--image', world + '/layout:' + VERSION,
            self.bundle)
        os.makedirs(self.volume, exist_ok=True)
        os.chown(self.volume, owner, owner)
        with open(self.bundle + '/config.json') as file:
            config = json.load(file)
        self.restrict(config, hostname, variables, network)
        with open(self.bundle + '/config.json', 'w') as file:
            json.dump(config, file)
        self.process = None

    def restrict(self, config, hostname, variables, network):
        process = config['process']
        process['terminal'] = False
        process['capabilities'] = {kind: [] for kind in process['capabilities']}
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        process['rlimits'] = [
            {'type': 'RLIMIT_NOFILE', 'hard': files, 'soft': files}]
        process['env'] += ['%s=%s' % pair for pair in variables.items()]
        config['root']['readonly'] = True
        config['hostname'] = hostname
        bind = {'type': 'bind', 'options': ['bind', 'rw', 'nosuid', 'nodev',
                                            'noexec']}
        config['mounts'] = [
            mount for mount in config['mounts'] if mount['destination'] not in
            ('/var/lib/hasp', '/sys', '/sys/fs/cgroup')]
        config['mounts'].append(dict(bind, source=self.volume,
                                     destination='/var/lib/hasp'))
        if network is not None:
            hosts, namespace = network
            config['mounts'].append(dict(bind, source=hosts,
                                         destination='/etc/hosts'))
            for entry in config['linux']['namespaces']:
                if entry['type'] == 'network':
                    entry['path'] = namespace
        config['linux'].pop('resources', None)

    def runc(self, *words, **options):
        return run('runc', '--root', self.state, *words, **options)

    def start(self):
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(
                ['runc', '--root', self.state, 'run', '-b', self.bundle,
                 self.name], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def tool(self, *words, check=True):
        return self.runc('exec', self.name, '/usr/bin/hasp', *words,
                         check=check)

    def wait(self, condition, what):
        by = time.monotonic() + 30
        while not condition():
            if time.monotonic() > by or self.process.poll() is not None:
                sys.exit('%s\nno %s' % (self.text(), what))
            time.sleep(0.05)

    def wait_healthy(self):
        self.wait(lambda: self.tool('health', check=False).returncode == 0,
                  'health')

    def text(self):
        with open(self.log) as file:
            return file.read()

    def stop(self):
        """Stops it with TERM; returns how long that took."""
        began = time.monotonic()
        self.runc('kill', self.name, 'TERM')
        status = self.process.wait(30)
        assert status == 0, (status, self.text())
        return time.monotonic() - began

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.runc('kill', self.name, 'KILL', check=False)
            self.process.wait(30)
        self.runc('delete', '-f', self.name, check=False)


@contextlib.contextmanager
def unpacked():
    folder = tempfile.mkdtemp(prefix='hasp-image-')
    try:
        os.mkdir(folder + '/layout')
        run('tar', '-C', folder + '/layout', '-xf', IMAGE)
        yield folder
    finally:
        shutil.rmtree(folder)


def inspect():
    size = os.path.getsize(IMAGE)
    assert size <= SIZE_MAX, size
    config = json.loads(run('skopeo', 'inspect', '--config',
                            'oci-archive:' + IMAGE).stdout)['config']
    assert config['User'] == '%d:%d' % (USER, USER), config
    assert list(config['Volumes']) == ['/var/lib/hasp']
    assert sorted(config['ExposedPorts']) == [
        '7420/tcp', '7421/tcp', '7422/tcp']
    assert config['StopSignal'] == 'SIGTERM'
    assert config['Entrypoint'] == ['/usr/sbin/haspd', '--container']
    labels = config['Labels']
    assert labels['org.opencontainers.image.version'] == VERSION
    assert labels['org.opencontainers.image.licenses'] == 'MIT'
    with unpacked() as world:
        bundle = world + '/bundle'
        run('umoci', 'unpack', '--image', world + '/layout:' + VERSION, bundle)
        root = bundle + '/rootfs'
        files = [os.path.join(folder, name) for folder, _, names in
                 os.walk(root) for name in names]
        programs = [path[len(root):] for path in files if re.search(
            r'^/(usr/)?s?bin/', path[len(root):])]
        assert sorted(programs) == ['/usr/bin/hasp', '/usr/sbin/haspd']
        set_id = [path for path in files if not os.path.islink(path)
                  and os.stat(path).st_mode & 0o6000]
        assert set_id == []
        status = os.stat(root + '/var/lib/hasp')
        assert (status.st_uid, status.st_mode & 0o7777) == (USER, 0o700)
        with open(root + '/usr/share/doc/haspd/hasp.spdx.json') as file:
            told = {part['name'] for part in json.load(file)['packages']}
        assert {'libraft0', 'liblmdb0', 'libssl3'} <= told
    say('inspect: %.1f MB, user %s, no shell, %d files' % (
        size / 1e6, config['User'], len(files)))


def alone():
    """One variable, and TERM as the first process of a namespace."""
    with unpacked() as world:
        one = Container(world, '4b1dfe0a98', {'HASP_CLUSTER_ALONE': 'yes'})
        try:
            began = time.monotonic()
            one.start().wait_healthy()
            took = time.monotonic() - began
            done = one.tool('run', 'x', '--', '/usr/bin/hasp', 'show', 'x')
            assert "'x' is held" in done.stdout, done.stdout
            assert 'traffic is not encrypted' in one.text()
            stopped = one.stop()
            assert stopped < STOP_S, stopped
        finally:
            one.close()
        refused = Container(world, '4b1dfe0a99', {})
        try:
            assert refused.start().process.wait(30) == 78
            assert 'HASP_CLUSTER_ALONE=yes' in refused.text(), refused.text()
        finally:
            refused.close()
    say('alone: a lock %.1f s after the start, ended %.2f s after TERM; without '
        'HASP_CLUSTER_ALONE it ends with 78' % (took, stopped))


def owner():
    with unpacked() as world:
        one = Container(world, 'x', {'HASP_CLUSTER_ALONE': 'yes'}, owner=0)
        try:
            assert one.start().process.wait(30) == 70
            text = one.text()
        finally:
            one.close()
    assert ('belongs to user 0 and group 0' in text
            and 'chown -R 65532:65532' in text
            and 'fsGroup: 65532' in text), text
    say('owner: ' + text.strip().splitlines()[-1])


def cluster():
    """Three containers with names; each is ended by TERM and started again
    while clients work."""
    network = Network()
    containers = []
    try:
        with unpacked() as world:
            try:
                three(network, world, containers)
            except BaseException:
                for one in containers:
                    print(one.text()[-3000:])
                raise
            finally:
                for one in containers:
                    one.close()
    finally:
        network.close()


def three(network, world, containers):
    hosts = world + '/hosts'
    members = []
    with open(hosts, 'w') as file:
        file.write('127.0.0.1 localhost\n')
        for number in (1, 2, 3):
            host = 'c%d' % number
            network.add(host)
            file.write('%s hasp-%d\n' % (network.addresses[host], number))
            members.append('%d hasp-%d:7421 hasp-%d:7420' % ((number,) * 3))
    os.chmod(hosts, 0o644)
    variables = {'HASP_CLUSTER_MEMBER': ','.join(members),
                 'HASP_SECURITY_INSECURE': 'yes'}
    for number in (1, 2, 3):
        containers.append(Container(
            world, 'hasp-%d' % number, variables,
            network=(hosts, '/run/netns/' + network.namespace('c%d' % number))))
        containers[-1].start()
    for one in containers:
        one.wait_healthy()
    endpoints = ','.join('%s:7420' % network.addresses['c%d' % number]
                         for number in (1, 2, 3))
    load = subprocess.Popen(
        ['ip', 'netns', 'exec', network.hub, sys.executable,
         os.path.join(TOP, 'tests', 'cluster', 'steady_load.py'), '4'],
        env={'PATH': os.environ['PATH'], 'HASP_ENDPOINTS': endpoints},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert load.stdout.readline() == 'ready\n'
        took = [again(one) for one in containers]
        found = json.loads(load.communicate('', timeout=60)[0])
    finally:
        load.kill()
        load.wait()
    led = sum('handed over' in one.text() or 'handed_over=yes' in one.text()
              for one in containers)
    gap = max([length for _, length in found['gaps']], default=0.0)
    say('cluster: three containers ended by TERM in %s s; %d cycles, %d errors, '
        'longest gap %s' % (
            ', '.join('%.2f' % seconds for seconds in took), found['cycles'],
            len(found['errors']), '%.0f ms' % (gap * 1000) if gap
            else 'below 100 ms'))
    assert max(took) < STOP_S, took
    assert found['errors'] == [], found['errors'][:3]
    assert led >= 1


def again(one):
    time.sleep(2)
    took = one.stop()
    text = one.text()
    one.runc('delete', '-f', one.name, check=False)
    one.start()
    one.wait_healthy()
    with open(one.log, 'a') as file:
        file.write(text)
    time.sleep(2)
    return took


def podman():
    folder = tempfile.mkdtemp(prefix='hasp-podman-')
    store = ['podman', '--root', folder + '/root', '--runroot',
             folder + '/run', '--storage-driver', 'vfs',
             '--cgroup-manager', 'cgroupfs', '--runtime', 'runc']
    name = 'hasp-test-%d' % os.getpid()
    try:
        done = run(*store, 'load', '-i', IMAGE, check=False)
        if done.returncode != 0:
            say('podman: skipped: ' + done.stdout.strip().splitlines()[-1])
            return
        image = re.search(r'Loaded image: *(\S+)', done.stdout).group(1)
        done = run(*store, 'run', '-d', '--name', name, '--read-only',
                   '--cap-drop', 'ALL', '--network', 'none', '--ulimit', 'host', '-e',
                   'HASP_CLUSTER_ALONE=yes', image, check=False)
        if done.returncode != 0:
            say('podman: skipped: ' + done.stdout.strip().splitlines()[-1])
            return
        for _ in range(100):
            if run(*store, 'exec', name, 'hasp', 'health',
                   check=False).returncode == 0:
                break
            time.sleep(0.1)
        else:
            sys.exit(run(*store, 'logs', name).stdout)
        began = time.monotonic()
        run(*store, 'stop', '-t', '10', name)
        say('podman: runs, read-only, stopped in %.2f s'
            % (time.monotonic() - began))
    finally:
        run(*store, 'rm', '-f', name, check=False)
        run(*store, 'rmi', '-af', check=False)
        shutil.rmtree(folder, ignore_errors=True)


PARTS = {'inspect': inspect, 'alone': alone, 'owner': owner,
         'cluster': cluster, 'podman': podman}


def main():
    if os.geteuid() != 0:
        sys.exit('test_image: run this as root')
    for tool in ('runc', 'umoci', 'skopeo', 'ip'):
        if shutil.which(tool) is None:
            sys.exit('test_image: %s is missing; install it by: make '
                     'deps-image' % tool)
    if not os.path.exists(IMAGE):
        sys.exit('test_image: there is no %s; make it by: make image' % IMAGE)
    for part in sys.argv[1:] or PARTS:
        if part not in PARTS:
            sys.exit(__doc__)
        PARTS[part]()


if __name__ == '__main__':
    main()
