#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the Debian packages in a clean root and tests them in others.

    tools/test_deb.py [PART ...]      as root, on Debian 12 (make deps-deb)

Parts: build, lint, piuparts, install, upgrade, repo, release, same. All: in this order,
about 20 minutes on two cores. Each prints its results, with times. The roots are
in build/roots, made by mmdebstrap from the mirrors that this machine uses;
systemd-nspawn runs them. Where systemd is to run in them (install, upgrade),
three of them are three machines, which share the loopback interface of this one.
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
ROOTS = os.environ.get('HASP_ROOTS', os.path.join(TOP, 'build', 'roots'))
VERSION = re.search(r'^VERSION := (\S+)', open(
    os.path.join(TOP, 'Makefile')).read(), re.M).group(1)
NEXT = VERSION.rsplit('.', 1)[0] + '.%d' % (int(VERSION.split('.')[-1]) + 1)
# The commit at the start, even if others are committed meanwhile.
TREE = subprocess.run(
    ['git', 'rev-parse', '--short=12', os.environ.get('HASP_TREE', 'HEAD')],
    cwd=TOP, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
BUILD_NEEDS = (
    'build-essential debhelper dh-python lintian git libraft-dev/{backports} '
    'pkg-config libuv1-dev liblmdb-dev uthash-dev libxxhash-dev libinih-dev '
    'libsmartcols-dev libjansson-dev libsystemd-dev libmicrohttpd-dev '
    'libssl-dev python3-all python3-setuptools pybuild-plugin-pyproject '
    'faketime locales-all diffoscope-minimal').split()


def say(text):
    print('%s  %s' % (time.strftime('%H:%M:%S'), text), flush=True)


def run(*words, **options):
    options.setdefault('timeout', 1800)
    options.setdefault('check', True)
    done = subprocess.run(words, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **{
                              k: v for k, v in options.items()
                              if k != 'check'})
    if options['check'] and done.returncode != 0:
        sys.exit('%s\n%s: exit %d' % (done.stdout[-6000:], ' '.join(words),
                                      done.returncode))
    return done


# --- Roots -------------------------------------------------------------------

def mirrors():
    """Lines for sources.list: (those of Debian itself, backports)."""
    told = run('apt-get', 'indextargets', '--format',
               '$(REPO_URI) $(CODENAME) $(COMPONENT)',
               'Created-By: Packages').stdout.split('\n')
    with open('/etc/os-release') as file:
        name = re.search(r'VERSION_CODENAME=(\w+)', file.read()).group(1)
    suites = (name, name + '-updates', name + '-security')
    lines = sorted({'deb %s %s main' % tuple(line.split()[:2])
                    for line in told
                    if line.split()[1:] in [[s, 'main'] for s in suites]})
    extra = sorted({'deb %s %s main' % tuple(line.split()[:2])
                    for line in told
                    if line.split()[1:] == [name + '-backports', 'main']})
    if not lines:
        sys.exit('apt of this machine knows no mirror of Debian')
    return name, lines, extra[:1]


def base(name, extra_packages='', with_backports=False):
    """The file of a root, created if it does not exist."""
    path = os.path.join(ROOTS, name + '.tar')
    if os.path.exists(path):
        return path
    codename, lines, extra = mirrors()
    os.makedirs(ROOTS, exist_ok=True)
    began = time.time()
    run('mmdebstrap', '--variant=minbase',
        '--include=ca-certificates' + extra_packages, codename,
        path + '.new.tar', *lines, *(extra if with_backports else []))
    os.rename(path + '.new.tar', path)
    say('%s: %.0f s by mmdebstrap' % (path, time.time() - began))
    return path


def systemd_base():
    return base('systemd', ',systemd,systemd-sysv,dbus,iproute2')


def unpack(archive, name):
    folder = os.path.join(ROOTS, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    run('tar', '-C', folder, '-xf', archive)
    shutil.copy('/etc/resolv.conf', folder + '/etc/resolv.conf')
    return folder


def nspawn(folder, *words):
    return ['systemd-nspawn', '-q', '--register=no', '--keep-unit',
            '--resolv-conf=off', '-D', folder, *words]


def inside(folder, script, **options):
    """Runs a script in a root. The output of nspawn itself is dropped."""
    script = 'export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8\n' + script
    done = run(*nspawn(folder, 'bash', '-euc', script), **options)
    done.stdout = re.sub(r'Attempted to remove disk file system.*\n?', '',
                         done.stdout)
    return done


def builder():
    folder = os.path.join(ROOTS, 'builder')
    if not os.path.exists(folder + '/ready'):
        unpack(base('backports', with_backports=True), 'builder')
        codename = mirrors()[0]
        needs = ' '.join(BUILD_NEEDS).format(
            backports=codename + '-backports')
        inside(folder, 'apt-get update -qq\napt-get install -qq -y '
               '--no-install-recommends %s\ntouch /ready' % needs)
    return folder


def packages(version=VERSION):
    """Those of another commit are rebuilt: nodes of two commits before the
    first release need not understand each other."""
    folder = os.path.join(ROOTS, 'debs-' + version)
    if not os.path.exists(folder + '/of-' + TREE):
        build(version)
    return sorted(path for path in glob.glob(folder + '/*.deb')
                  if '-dbgsym_' not in path)


# --- Parts -------------------------------------------------------------------

def export(version, folder):
    """The tree as committed, with another version if required."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    archive = subprocess.run(['git', '-c', 'tar.umask=0022', 'archive', TREE],
                             cwd=TOP, check=True, stdout=subprocess.PIPE)
    subprocess.run(['tar', '-x', '-C', folder], input=archive.stdout,
                   check=True)
    for name in ('Makefile', 'debian/changelog'):
        path = os.path.join(folder, name)
        with open(path) as file:
            text = file.read()
        with open(path, 'w') as file:
            file.write(re.sub(r'^(VERSION := |hasp \()%s' % VERSION,
                              r'\g<1>' + version, text, flags=re.M))


def build(version=VERSION):
    root = builder()
    began = time.time()
    export(version, root + '/b/hasp')
    inside(root, 'cd /b && rm -f *.deb *.changes *.dsc *.tar.* *.buildinfo\n'
           'cd hasp && dpkg-buildpackage -us -uc >/b/log 2>&1 '
           '|| { tail -n 60 /b/log; exit 1; }')
    target = os.path.join(ROOTS, 'debs-' + version)
    shutil.rmtree(target, ignore_errors=True)
    os.makedirs(target)
    for path in glob.glob(root + '/b/*.*'):
        if os.path.isfile(path):
            shutil.move(path, target)
    open(target + '/of-' + TREE, 'w').close()
    say('build: %d packages of %s in %.0f s' % (
        len(packages(version)), version, time.time() - began))


def lint():
    root = builder()
    copy_into(root, '/b/lint')
    done = inside(root, 'lintian --allow-root --fail-on error,warning -I '
                  '--color never --hyperlinks off /b/lint/*.changes')
    say('lint: lintian has no error and no warning'
        + ''.join('\n  ' + line for line in done.stdout.splitlines()
                  if line[:2] in ('I:', 'P:')))


def copy_into(root, place, version=VERSION):
    packages(version)
    shutil.rmtree(root + place, ignore_errors=True)
    shutil.copytree(os.path.join(ROOTS, 'debs-' + version), root + place)
    return True


def piuparts():
    began = time.time()
    # With systemd, otherwise its own folders would count as left behind.
    root = unpack(systemd_base(), 'piuparts')
    add_backports(root)
    archive = os.path.join(ROOTS, 'piuparts.tar.gz')
    run('sh', '-c', 'tar -C %s -cf - . | gzip -1 > %s' % (root, archive))
    log = os.path.join(ROOTS, 'piuparts.log')
    done = run('piuparts', '--basetgz=' + archive, '--keep-sources-list',
               '-d', mirrors()[0], '--no-eatmydata',
               '--install-remove-install', '--log-file=' + log, *packages(),
               check=False)
    shutil.rmtree(root)
    os.remove(archive)
    if done.returncode != 0:
        with open(log) as file:
            sys.exit(''.join(line for line in file
                             if 'ERROR' in line or 'FAIL' in line))
    say('piuparts: %d packages installed, removed, installed again, purged: '
        'nothing is left; %.0f s' % (len(packages()), time.time() - began))


def pin(root):
    """The pin of docs/install.md, with which apt installs libraft."""
    with open(os.path.join(TOP, 'docs', 'install.md')) as file:
        text = re.search(r'^(Package: .*\nPin: .*\nPin-Priority: .*\n)',
                         file.read(), re.M).group(1)
    with open(root + '/etc/apt/preferences.d/hasp', 'w') as file:
        file.write(text)


def add_backports(root):
    with open(root + '/etc/apt/sources.list.d/backports.list', 'w') as file:
        file.write(''.join(line + '\n' for line in mirrors()[2]))
    pin(root)


# --- Machines ----------------------------------------------------------------

class Machine:
    """A root in which systemd runs. It shares the network of this machine."""

    def __init__(self, number, archive):
        self.number = number
        self.address = '127.7.0.%d' % number
        self.folder = unpack(archive, 'machine-%d' % number)
        self.log = open(os.path.join(ROOTS, 'machine-%d.log' % number), 'w')
        words = nspawn(self.folder, '--hostname=machine-%d' % number)
        self.process = subprocess.Popen(
            words[:1] + words[2:] + ['-b'], stdin=subprocess.DEVNULL,
            stdout=self.log, stderr=self.log)
        self.init = self.wait_for_init()

    def wait_for_init(self):
        children = '/proc/%d/task/%d/children' % ((self.process.pid,) * 2)
        for _ in range(600):
            with open(children) as file:
                pids = file.read().split()
            for pid in pids:
                self.init = int(pid)
                done = self.run('systemctl is-system-running', check=False)
                if re.search('running|degraded', done.stdout):
                    return self.init
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        sys.exit('machine %d did not start: see %s' % (
            self.number, self.log.name))

    def run(self, script, **options):
        return run('nsenter', '-t', str(self.init), '-m', '-u', '-i', '-p',
                   'bash', '-euc',
                   'export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 '
                   'PATH=/usr/sbin:/usr/bin:/sbin:/bin\n' + script, **options)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                os.kill(self.init, signal.SIGKILL)
                self.process.wait(60)
        self.log.close()


ENDPOINTS = ','.join('127.7.0.%d:7420' % number for number in (1, 2, 3))
# On the first machine.
ADMIN = 'export HASP_ENDPOINTS=%s HASP_TLS=/root/certs/user-admin\n' % ENDPOINTS


def give(machine, paths):
    folder = machine.folder + '/debs'
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for path in paths:
        shutil.copy(path, folder)


def named(paths, *names):
    return [path for path in paths
            if os.path.basename(path).split('_')[0] in names]


def in_parallel(function, machines):
    threads, errors = [], []

    def one(machine):
        try:
            function(machine)
        except (Exception, SystemExit) as error:  # a thread's end is unseen
            errors.append(error)
    for machine in machines:
        threads.append(threading.Thread(target=one, args=(machine,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def install_on(machine):
    done = machine.run('cd /debs && apt-get install -y -qq ./*.deb')
    assert 'haspd has no configuration yet' in done.stdout, done.stdout
    state = machine.run('systemctl is-enabled haspd; systemctl is-active haspd '
                        '|| true').stdout.split()
    assert state == ['enabled', 'inactive'], state


def set_up(machines):
    """A cluster with TLS and users, and a user 'app', by hasp setup."""
    machines[0].run('cd /root && hasp setup %s' % ' '.join(
        'machine-%d=%s' % (m.number, m.address) for m in machines))
    for machine in machines:
        shutil.copy('%s/root/certs/machine-%d.setup' % (
            machines[0].folder, machine.number), machine.folder + '/root')
    in_parallel(lambda machine: machine.run(
        'hasp setup --install /root/machine-%d.setup' % machine.number),
                machines)
    machines[0].run(ADMIN + 'until hasp -t 1s health; do sleep 0.1; done\n'
                    "hasp user add app --may 'lock,read:app/*'\n"
                    'cd /root && hasp cert user app', timeout=60)


def machines_with(debs):
    """Three machines with a cluster; prints the time from apt to a lock."""
    archive = systemd_base()
    machines = []
    try:
        for number in (1, 2, 3):
            machines.append(Machine(number, archive))
            add_backports(machines[-1].folder)
            give(machines[-1], debs)
        in_parallel(lambda machine: machine.run('apt-get update -qq'),
                    machines)
        say('three machines run systemd')
        began = time.time()
        in_parallel(install_on, machines)
        set_up(machines)
        machines[0].run('HASP_ENDPOINTS=%s HASP_TLS=/root/certs/user-app '
                        'hasp run -w 60s app/x -- true' % ENDPOINTS)
        say('from apt install ./*.deb on three machines to hasp run app/x -- '
            'true over TLS, as a user: %.1f s' % (time.time() - began))
    except BaseException:
        stop_all(machines)
        raise
    return machines, time.time() - began


def stop_all(machines):
    for machine in machines:
        machine.stop()


def install():
    """The error without backports, then a cluster, then the package's test."""
    root = unpack(base('fresh'), 'bare')
    copy_into(root, '/debs')
    done = inside(root, 'apt-get update -qq; cd /debs; rm -f *dbgsym*; '
                  'apt-get install -y ./haspd_*.deb', check=False)
    assert done.returncode == 100, done.stdout
    assert 'libraft0-is-in-bookworm-backports' in done.stdout, done.stdout
    say('without backports apt says: '
        + ' '.join(re.findall(r'libraft0.*', done.stdout)[:2]))
    machines, seconds = machines_with(named(packages(), 'hasp', 'haspd'))
    try:
        assert seconds <= 60, seconds
        exercise(machines)
        exercise_units(machines)
    finally:
        stop_all(machines)
    root = unpack(base('fresh'), 'bare')
    add_backports(root)
    copy_into(root, '/debs')
    export(VERSION, root + '/src')
    needs = re.search(r'Depends: (.*)', open(
        TOP + '/debian/tests/control').read()).group(1)
    done = inside(root, 'apt-get update -qq\ncd /debs && rm -f *dbgsym*\n'
                  'apt-get install -y -qq ./*.deb %s >/dev/null 2>&1\n'
                  '/src/debian/tests/three-nodes' % ' '.join(
                      need for need in needs.split(', ') if '-' not in need
                      and 'hasp' not in need or need == 'pkg-config'))
    say('debian/tests/three-nodes:\n' + done.stdout.rstrip())


def exercise(machines):
    """Tests the other files of the packages."""
    first = machines[0]
    told = first.run('stat -c "%U %a" /var/lib/hasp /var/log/hasp /run/hasp '
                     '/etc/hasp/tls').stdout.split('\n')
    assert told[:4] == ['hasp 700', 'hasp 700', 'hasp 750', 'root 750'], told
    first.run('apt-get install -y -qq --no-install-recommends logrotate cron '
              '>/dev/null 2>&1; systemctl reload haspd')
    before = first.run('ls -i /var/log/hasp/audit.jsonl').stdout
    first.run('logrotate -f /etc/logrotate.d/haspd')
    for _ in range(100):
        done = first.run('ls -i /var/log/hasp/audit.jsonl', check=False)
        if done.returncode == 0 and done.stdout != before:
            break
        time.sleep(0.1)
    else:
        sys.exit('logrotate: haspd did not open its audit file again')
    first.run('test -s /var/log/hasp/audit.jsonl.1')
    done = first.run('systemd-analyze security --no-pager haspd').stdout
    level = re.search(r'level for haspd.service: ([\d.]+)', done).group(1)
    assert float(level) <= 1.2, level
    for machine in machines:
        machine.run('hasp setup --check')
    first.run('bash -c ". /usr/share/bash-completion/completions/hasp; '
              'complete -p hasp"')
    say('logrotate makes haspd open a new audit file; systemd-analyze '
        'security says %s' % level)


# The files for the user 'app' on a machine, as in docs/recipes.md.
CLIENT = """
install -d -m 0700 /etc/hasp/client /etc/hasp/run /etc/hasp/once
install -m 0400 /root/user-app/* /etc/hasp/client
echo HASP_ENDPOINTS=%s > /etc/hasp/client.conf
""" % ENDPOINTS
JOB = """
mkdir -p /etc/systemd/system/hasp-run@app-mail.service.d
printf '[Service]\nUser=nobody\nRestartSec=1\n' \
    > /etc/systemd/system/hasp-run@app-mail.service.d/user.conf
systemctl daemon-reload
echo 'COMMAND=/usr/bin/sleep 1000' > /etc/hasp/run/app-mail.conf
echo 'OPTIONS=--ttl 2s' >> /etc/hasp/run/app-mail.conf
systemctl enable --now hasp-run@app-mail
printf 'COMMAND=/usr/bin/touch /root/did-it' > /etc/hasp/once/app-nightly.conf
"""
CREDENTIALS = """
mkdir -p /etc/systemd/system/haspd.service.d
cat > /etc/systemd/system/haspd.service.d/key.conf <<'TEXT'
%s
WatchdogSec=3
TEXT
chown root:root /etc/hasp/tls/node.key
chmod 0400 /etc/hasp/tls/node.key
systemctl daemon-reload
systemctl restart haspd
hasp setup --check || true
until hasp --socket /var/lib/hasp/data -t 1s health; do sleep 0.1; done
"""
CELL = """
cat > /etc/hasp/cell.conf <<'TEXT'
[node]
id = 1
dir = /var/lib/hasp-cell/data
[cluster]
name = cell
[listen]
client = 127.0.0.1:7520
peer = 127.0.0.1:7521
http = off
local = /run/hasp-cell/client.sock
[audit]
file = /var/log/hasp-cell/audit.jsonl
TEXT
systemctl enable --now haspd@cell
hasp -e unix:/run/hasp-cell/client.sock run -w 20s x -- true
stat -c '%U %a' /var/lib/hasp-cell /run/hasp-cell /var/log/hasp-cell
"""


# A damaged file is named, and the unit fails.
BACKUP = """
systemctl start haspd-backup.service
cd /var/lib/hasp/backup
test $(stat -c '%U %a' *.snap | sort -u | tr -d ' ') = hasp600
truncate -s -10 *.snap
sleep 1.1
! systemctl start haspd-backup.service 2>/dev/null
systemctl show -P ExecMainStatus haspd-backup.service
journalctl -u haspd-backup --no-pager -o cat | grep -o 'hasp: .*damaged'
systemctl enable --now haspd-backup.timer
systemctl list-timers haspd-backup.timer | grep -q haspd-backup
rm *.snap
systemctl start haspd-backup.service
systemctl start haspd-drill.service
journalctl -u haspd-drill --no-pager -o cat | grep -q '^GRANT *ok'
systemctl enable --now haspd-drill.timer
"""
# A program that is tied to the agent of the machine holds a lock for a minute
# after its last heartbeat, unless the agent reports its death. The agent is
# restarted and killed before; systemd keeps its socket.
AGENT = """
systemctl enable --now hasp-agent.service
test $(systemctl is-enabled hasp-agent.socket) = enabled
systemctl restart hasp-agent.service
export HASP_TLS=/root/user-app
mkfifo /root/lines
sleep 100 > /root/lines 2>&1 &
feeder=$!
tied 127.7.0.1:7420 /run/hasp-agent/agent.sock must app/tied \\
    < /root/lines > /root/tied.out 2>&1 &
pid=$!
until grep -q held /root/tied.out; do sleep 0.1; done
kill -9 $(systemctl show -P MainPID hasp-agent.service)
until hasp agent status 2>/dev/null | grep -q '^ties 1'; do sleep 0.1; done
kill -9 $pid
HASP_ENDPOINTS=%s hasp run -w 20s app/tied -- true
systemctl stop hasp-agent.service 2>/dev/null
hasp agent status | grep '^processes'
systemctl is-active hasp-agent.service
kill $feeder
""" % ENDPOINTS


def exercise_backup(machine):
    told = machine.run(BACKUP, timeout=60).stdout.split('\n')
    assert told[0] == '65' and '1 of 2 files are damaged' in told[1], told
    say('haspd-backup saves as hasp, and fails when a file is damaged')


def exercise_agent(machine):
    """With a program of the tests, made beside this tool."""
    built = os.path.join(TOP, 'build', 'release')
    run('make', '-s', '-C', TOP, 'build/release/client-tests/tied')
    shutil.copy(built + '/client-tests/tied', machine.folder + '/usr/bin')
    shutil.copy(built + '/libhasp.so.0', machine.folder + '/usr/lib')
    told = machine.run(AGENT, timeout=90).stdout.split()
    assert told[-3:] == ['processes', '0', 'active'], told
    say('hasp-agent frees the lock of a killed program, after the agent was '
        'restarted and killed; its socket starts it again')


SLEEPERS = 'grep -ls "^sleep$" /proc/[0-9]*/comm || true\n'


def where_it_runs(machines):
    """The machines on which the program of hasp-run@app-mail runs."""
    return [machine for machine in machines
            if machine.run(SLEEPERS).stdout.strip()]


def until(condition, what, seconds=30):
    for _ in range(seconds * 10):
        found = condition()
        if found:
            return found
        time.sleep(0.1)
    sys.exit('not within %d s: %s' % (seconds, what))


def exercise_units(machines):
    """A key that only root can read, the watchdog, a second node of a machine, a
    service on one machine at a time, a timer's job once for all machines."""
    first = machines[0]
    with open(TOP + '/docs/install.md') as file:
        unit = re.search(r'^```ini\n(\[Service\]\n.*?)^```', file.read(),
                         re.M | re.S).group(1)
    first.run(CREDENTIALS % unit.rstrip(), timeout=60)
    say('haspd serves with a key of mode 0400 that is root\'s, as a credential')
    pid = first.run('systemctl show -P MainPID haspd').stdout.strip()
    first.run('kill -STOP ' + pid)
    until(lambda: first.run('systemctl show -P MainPID haspd').stdout.strip()
          not in (pid, '0'), 'another haspd after the watchdog')
    say('a haspd that is frozen is ended by the watchdog, and restarted')
    done = first.run(CELL, timeout=60).stdout.split('\n')
    assert done[-4:-1] == ['hasp 700', 'hasp 750', 'hasp 700'], done
    first.run('hasp --socket /var/lib/hasp-cell/data user add x\n'
              'logrotate -f /etc/logrotate.d/haspd\n'
              'test -s /var/log/hasp-cell/audit.jsonl.1')
    until(lambda: os.path.exists(first.folder
                                 + '/var/log/hasp-cell/audit.jsonl'),
          'a new audit file of haspd@cell')
    say('haspd@cell is a second node on the same machine')
    for machine in machines:
        if machine is not first:
            shutil.copytree(first.folder + '/root/certs/user-app',
                            machine.folder + '/root/user-app')
    shutil.copytree(first.folder + '/root/certs/user-app',
                    first.folder + '/root/user-app')
    in_parallel(lambda machine: machine.run(CLIENT + JOB), machines)
    one = until(lambda: where_it_runs(machines), 'hasp-run@app-mail')
    time.sleep(3)
    assert where_it_runs(machines) == one and len(one) == 1
    one[0].run('systemctl stop hasp-run@app-mail')
    other = until(lambda: where_it_runs(machines), 'another machine')
    assert len(other) == 1 and other != one
    user = other[0].run('stat -c %U $(' + SLEEPERS.strip() + ')').stdout
    assert user.strip() == 'nobody', user
    say('hasp-run@app-mail runs on one machine, as nobody, and on another one '
        'after it was stopped')
    in_parallel(lambda machine: machine.run(
        'systemctl start hasp-once@app-nightly'), machines)
    did = [machine for machine in machines
           if os.path.exists(machine.folder + '/root/did-it')]
    assert len(did) == 1, did
    first.run('systemctl enable --now hasp-once@app-nightly.timer\n'
              'systemctl list-timers hasp-once@app-nightly.timer | grep -q once')
    say('hasp-once@app-nightly ran on one of three machines')
    exercise_backup(first)
    exercise_agent(first)


# --- An upgrade under load ---------------------------------------------------

LOADER = """
import json, sys, threading, time
sys.path.insert(0, %r)
import hasp
stop, out, guard = time.monotonic() + float(sys.argv[1]), [], threading.Lock()
def work(number):
    errors, ends = [], []
    with hasp.Session(name='load') as session:
        while time.monotonic() < stop:
            try:
                with session.lock('app/%%d' %% number):
                    pass
                ends.append(time.monotonic())
            except Exception as error:
                errors.append(repr(error))
            time.sleep(0.005)
    gaps = [b - a for a, b in zip(ends, ends[1:])]
    with guard:
        out.append({'cycles': len(ends), 'errors': errors, 'gap': max(gaps)})
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(json.dumps(out))
"""


def upgrade():
    """Each machine in turn gets the next version while clients work."""
    later = named(packages(NEXT), 'hasp', 'haspd')
    machines, _ = machines_with(named(packages(), 'hasp', 'haspd'))
    seconds = 45
    try:
        env = dict(os.environ, HASP_ENDPOINTS=ENDPOINTS,
                   HASP_TLS=machines[0].folder + '/root/certs/user-app')
        load = subprocess.Popen(
            [sys.executable, '-c', LOADER % (TOP + '/clients/python'),
             str(seconds)], env=env, stdout=subprocess.PIPE, text=True)
        time.sleep(3)
        for machine in machines:
            give(machine, later)
            began = time.time()
            machine.run('cd /debs && apt-get install -y -qq ./*.deb')
            wait_for_version(machines[0], machine)
            say('machine %d has %s after %.1f s' % (
                machine.number, NEXT, time.time() - began))
            time.sleep(2)
        assert load.poll() is None, 'the load ended before the upgrade'
        workers = json.loads(load.communicate(timeout=seconds + 60)[0])
    finally:
        stop_all(machines)
    errors = [error for worker in workers for error in worker['errors']]
    gap = max(worker['gap'] for worker in workers)
    say('upgrade under load: %d cycles of acquire and release, %d errors, '
        'longest gap %.0f ms' % (sum(w['cycles'] for w in workers),
                                 len(errors), gap * 1000))
    assert not errors, errors[:3]
    assert gap < 0.3, gap


def wait_for_version(first, machine):
    for _ in range(300):
        done = first.run(ADMIN + 'hasp -o plain status', check=False).stdout
        rows = [line.split('\t') for line in done.splitlines()]
        mine = [row for row in rows if row[0] == str(machine.number)]
        if (mine and NEXT in mine[0] and len(rows) >= 3
                and ('leader' in mine[0] or 'follower' in mine[0])):
            return
        time.sleep(0.1)
    sys.exit('machine %d did not come back:\n%s' % (machine.number, done))


# --- A repository ------------------------------------------------------------

def repo():
    """A signed repository: a clean root installs from it, and refuses a
    package with a changed byte."""
    home = tempfile.mkdtemp()
    os.chmod(home, 0o700)
    env = dict(os.environ, GNUPGHOME=home)
    out = os.path.join(ROOTS, 'release')
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(os.path.join(ROOTS, 'debs-' + VERSION), out)
    try:
        run('gpg', '--batch', '--passphrase', '', '--quick-generate-key',
            'hasp test <test@hasp.invalid>', 'ed25519', 'sign', '1d', env=env)
        key = re.search(r'^fpr:+(\w+):', run(
            'gpg', '--batch', '--with-colons', '-k', env=env).stdout,
            re.M).group(1)
        run(TOP + '/tools/package.sh', 'repo',
            env=dict(env, HASP_OUT=out, HASP_GPG_KEY=key))
    finally:
        run('gpgconf', '--homedir', home, '--kill', 'gpg-agent', check=False)
        shutil.rmtree(home)
    root = unpack(base('fresh'), 'bare')
    add_backports(root)
    shutil.copytree(out + '/repo', root + '/srv/hasp')
    shutil.copy(out + '/repo/hasp.gpg', root + '/usr/share/keyrings/hasp.gpg')
    with open(root + '/etc/apt/sources.list.d/hasp.list', 'w') as file:
        file.write('deb [signed-by=/usr/share/keyrings/hasp.gpg] '
                   'file:/srv/hasp %s main\n' % mirrors()[0])
    inside(root, 'apt-get update --error-on=any -qq')
    deb = glob.glob(root + '/srv/hasp/pool/main/h/hasp/haspd_*.deb')[0]
    inside(root, 'apt-get install -y -qq --no-install-recommends hasp haspd '
           'python3-hasp\nhasp --version\nhaspd --version\n'
           'apt-get remove -y -qq haspd\napt-get clean')
    flip(deb)
    done = inside(root, 'apt-get install -y --no-install-recommends haspd',
                  check=False)
    assert done.returncode == 100 and 'Hash Sum mismatch' in done.stdout, (
        done.stdout)
    flip(deb)
    for name in ('Release', 'Packages'):
        path = glob.glob(root + '/srv/hasp/dists/*/**/%s' % name,
                         recursive=True)[0]
        path = path if name != 'Release' else path.replace('Release',
                                                           'InRelease')
        flip(path)
        done = inside(root, 'rm -rf /var/lib/apt/lists/*hasp*\n'
                      'apt-get update --error-on=any', check=False)
        assert done.returncode == 100, (name, done.stdout)
        flip(path)
    inside(root, 'apt-get update --error-on=any -qq\n'
           'apt-get install -y -qq --no-install-recommends haspd')
    say('repo: a fresh root installs by Signed-By; one byte changed in a '
        'package, InRelease or Packages is refused')


def release():
    """The published files: the signature, the sums, the list of libraries."""
    out = os.path.join(ROOTS, 'release')
    shutil.rmtree(out, ignore_errors=True)
    keys = tempfile.mkdtemp()
    key = keys + '/key'
    try:
        run('minisign', '-G', '-W', '-s', key, '-p', key + '.pub')
        shutil.copytree(os.path.join(ROOTS, 'debs-' + VERSION), out)
        run(TOP + '/tools/package.sh', 'release',
            env=dict(os.environ, HASP_OUT=out, HASP_MINISIGN=key))

        def verify():
            signed = run('minisign', '-Vm', out + '/SHA256SUMS', '-p',
                         key + '.pub', check=False).returncode
            summed = run('sha256sum', '--check', '--strict', 'SHA256SUMS',
                         cwd=out, check=False).returncode
            return signed == 0 and summed == 0
        assert verify()
        names = os.listdir(out)
        for name in ('SHA256SUMS', 'hasp-%s.tar.gz' % VERSION,
                     'hasp-%s.spdx.json' % VERSION,
                     next(n for n in names if n.startswith('haspd_'))):
            flip(os.path.join(out, name))
            assert not verify(), name
            flip(os.path.join(out, name))
        assert verify()
    finally:
        shutil.rmtree(keys)
    check_sbom(out)
    say('release: %d files verify, one bit changed in any does not; the SBOM '
        'has each library of ldd' % len(open(
            out + '/SHA256SUMS').readlines()))


def check_sbom(out):
    with open(out + '/hasp-%s.spdx.json' % VERSION) as file:
        document = json.load(file)
    told = {package['name'] for package in document['packages']}
    for path in named(packages(), 'hasp', 'haspd', 'libhasp0'):
        folder = tempfile.mkdtemp()
        run('dpkg-deb', '-x', path, folder)
        for name in glob.glob(folder + '/usr/*bin/*') + glob.glob(
                folder + '/usr/lib/*/*.so.?'):
            for library in re.findall(r'=> (/\S+)', run('ldd', name).stdout):
                owner = next(
                    line for line in (run('dpkg-query', '-S', place,
                                          check=False).stdout
                                      for place in (library,
                                                    os.path.realpath(library),
                                                    os.path.realpath(library)
                                                    .replace('/usr', '', 1)))
                    if 'no path found' not in line).split(':')[0]
                assert owner in told, (name, library, owner)
        shutil.rmtree(folder)
    identifiers = {part['SPDXID'] for kind in ('packages', 'files')
                   for part in document[kind]} | {'SPDXRef-DOCUMENT'}
    for edge in document['relationships']:
        assert edge['spdxElementId'] in identifiers, edge
        assert edge['relatedSpdxElement'] in identifiers, edge
    assert len(identifiers) == 1 + len(document['packages']) + len(
        document['files']), 'two parts have one name'


def flip(path):
    """Flips one bit in the middle; a second call flips it back."""
    with open(path, 'r+b') as file:
        middle = os.path.getsize(path) // 2
        file.seek(middle)
        byte = file.read(1)[0]
        file.seek(middle)
        file.write(bytes([byte ^ 1]))


def same():
    """Two builds in other folders, with another umask, time, locale."""
    root = builder()
    began = time.time()
    variants = (('/b/one', '022', '', 'C.UTF-8', 'UTC'),
                ('/b/elsewhere/two', '002', 'faketime -f +400d ',
                 'de_DE.UTF-8', 'Asia/Tokyo'))
    for place, umask, clock, locale, zone in variants:
        export(VERSION, root + place + '/hasp-' + VERSION)
        inside(root, 'umask %s\nexport LC_ALL=%s TZ=%s\ncd %s/hasp-%s\n'
               '%sdpkg-buildpackage -us -uc -b >../log 2>&1 '
               '|| { tail -n 40 ../log; exit 1; }' % (
                   umask, locale, zone, place, VERSION, clock))
    names = sorted(os.path.basename(path) for path in glob.glob(
        root + '/b/one/*.deb'))
    assert len(names) > 6
    for name in names:
        inside(root, 'cmp /b/one/{0} /b/elsewhere/two/{0} || '
               '{{ diffoscope /b/one/{0} /b/elsewhere/two/{0} | head -50; '
               'exit 1; }}'.format(name))
    say('same: %d packages are the same bytes from two builds; %.0f s' % (
        len(names), time.time() - began))


PARTS = {'build': build, 'lint': lint, 'piuparts': piuparts,
         'install': install, 'upgrade': upgrade, 'repo': repo,
         'release': release, 'same': same}


def main():
    if os.geteuid() != 0:
        sys.exit('test_deb: run this as root')
    for tool in ('mmdebstrap', 'systemd-nspawn', 'piuparts', 'reprepro',
                 'gpg'):
        if shutil.which(tool) is None:
            sys.exit('test_deb: %s is missing; install it by: make deps-deb'
                     % tool)
    os.chdir(TOP)
    for part in sys.argv[1:] or PARTS:
        if part not in PARTS:
            sys.exit(__doc__)
        PARTS[part]()


if __name__ == '__main__':
    main()
