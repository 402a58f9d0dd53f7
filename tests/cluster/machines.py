# SPDX-License-Identifier: MIT
"""Machines that have the packages installed, made of namespaces.

Each has a network address, a host name, processes and files of its own: its
root is this machine's root with a layer in memory above it, so its writes do
not last. It has hasp in /usr/bin, haspd in /usr/sbin and the user hasp, as the
packages would have put them there. Short stand-ins replace systemd, sudo and
sshd; they do what the commands of the docs need. When the process that holds a
machine is killed, all its processes end.
"""

import os
import shutil
import subprocess
import tempfile
import time

import nemesis_net

HASP_ID = 64990  # The user and the group hasp.

SYSTEMCTL = """#!/bin/sh
# Stands for systemd, of which it knows one service.
runs() { [ -s /run/haspd.pid ] && kill -0 "$(cat /run/haspd.pid)" 2>&-; }
case $1 in
enable)
    touch /run/is-enabled
    runs && exit 0
    cd / && umask 077
    setsid setpriv --reuid hasp --regid hasp --clear-groups /usr/sbin/haspd \\
        --config /etc/hasp/haspd.conf > /var/log/haspd.log 2>&1 < /dev/null &
    echo $! > /run/haspd.pid ;;
is-active) runs && echo active && exit; echo inactive; exit 3 ;;
is-enabled)
    [ -e /run/is-enabled ] && echo enabled && exit; echo disabled; exit 1 ;;
*) echo "systemctl: $* is not known here" >&2; exit 64 ;;
esac
"""

MAKE_ROOT = """set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$FOLDER"
mkdir "$FOLDER/upper" "$FOLDER/work" "$FOLDER/root"
mount -t overlay overlay "$FOLDER/root" -o \\
    "lowerdir=/,upperdir=$FOLDER/upper,workdir=$FOLDER/work"
cd "$FOLDER/root"
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mkdir -p run/systemd/system
rm -rf etc/hasp var/lib/hasp var/log/hasp
cp --remove-destination "$HASP" usr/bin/hasp
cp --remove-destination "$HASPD" usr/sbin/haspd
cp --remove-destination "$STANDINS/systemctl" "$STANDINS/sudo" usr/bin
echo "hasp:x:$ID:$ID::/var/lib/hasp:/usr/sbin/nologin" >> etc/passwd
echo "hasp:x:$ID:" >> etc/group
hostname "$NAME"
# bash takes leave of processes whose parent has gone, as init does.
exec chroot . bash -c 'touch /run/is-ready; while :; do sleep 0.2; done'
"""


def why_not():
    """Why there can be no machines here, or None."""
    reason = nemesis_net.why_not()
    if reason is not None:
        return reason
    for tool in ("unshare", "nsenter", "setsid"):
        if shutil.which(tool) is None:
            return "'%s' is not installed" % tool
    with tempfile.TemporaryDirectory() as folder:
        script = (
            'mount -t tmpfs tmpfs "$1" && cd "$1" && mkdir u w m && mount -t '
            "overlay overlay m -o lowerdir=/,upperdir=u,workdir=w"
        )
        done = subprocess.run(
            ["unshare", "-m", "sh", "-c", script, "sh", folder],
            capture_output=True,
            text=True,
        )
    return None if done.returncode == 0 else done.stderr.strip()


class Machine:
    def __init__(self, network, name, programs, folder):
        network.add(name)
        self.name, self.address = name, network.addresses[name]
        root = os.path.join(folder, name)
        os.mkdir(root)
        env = dict(os.environ, FOLDER=root, NAME=name, ID=str(HASP_ID))
        env.update(programs)
        self.holder = subprocess.Popen(
            ["ip", "netns", "exec", network.namespace(name)]
            + ["setpriv", "--pdeathsig", "KILL"]
            + ["unshare", "-m", "-p", "-u", "-f", "--kill-child"]
            + ["sh", "-c", MAKE_ROOT],
            env=env,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.init = self.find_init()

    def find_init(self):
        """The first process of the machine, once its root is in place."""
        path = "/proc/%d/task/%d/children" % ((self.holder.pid,) * 2)
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline and self.holder.poll() is None:
            with open(path) as file:
                pids = file.read().split()
            if pids and self.is_ready(pids[0]):
                return pids[0]
            time.sleep(0.02)
        self.holder.kill()
        raise AssertionError(
            "machine %s: %s" % (self.name, self.holder.stderr.read())
        )

    @staticmethod
    def is_ready(pid):
        return os.path.exists("/proc/%s/root/run/is-ready" % pid)

    @property
    def words(self):
        """The beginning of a command line that runs on the machine."""
        spaces = ["-m", "-p", "-u", "-n", "-r", "-w"]
        return ["nsenter", "-t", self.init, *spaces, "--"]

    def run(self, script, is_checked=True, text=None):
        done = subprocess.run(
            [*self.words, "env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]
            + ["bash", "-c", script],
            input=text,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if is_checked and done.returncode != 0:
            raise AssertionError(
                "%s: %s: exit %d: %s%s"
                % (self.name, script, done.returncode, done.stdout, done.stderr)
            )
        return done

    def close(self):
        self.holder.kill()
        self.holder.communicate()


class Machines:
    """Three machines, and 'desk', from which they are set up by ssh: a folder,
    and a network address."""

    def __init__(self, hasp, haspd, names=("lock1", "lock2", "lock3")):
        self.network = nemesis_net.Network()
        self.folder = tempfile.mkdtemp(prefix="hasp-machines-")
        self.machines = []
        try:
            self.make_standins(hasp)
            programs = {"HASP": hasp, "HASPD": haspd}
            programs["STANDINS"] = self.bin
            for name in names:
                self.machines.append(
                    Machine(self.network, name, programs, self.folder)
                )
            self.make_ssh()
            self.network.add("desk")
        except BaseException:
            self.close()
            raise

    def put_program(self, name, text):
        path = os.path.join(self.bin, name)
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def make_standins(self, hasp):
        self.bin = os.path.join(self.folder, "bin")
        self.desk = os.path.join(self.folder, "desk")
        os.mkdir(self.bin)
        os.mkdir(self.desk)
        os.symlink(os.path.abspath(hasp), os.path.join(self.bin, "hasp"))
        self.put_program("systemctl", SYSTEMCTL)
        self.put_program("sudo", '#!/bin/sh\nexec "$@"\n')

    def make_ssh(self):
        cases = "".join(
            "%s) host='%s' ;;\n" % (machine.address, " ".join(machine.words))
            for machine in self.machines
        )
        self.put_program(
            "ssh",
            "#!/bin/sh\ncase $1 in\n%s*) echo \"ssh: $1?\" >&2; exit 255 ;;\n"
            "esac\nshift\nexec $host env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "
            '"$@"\n' % cases,
        )

    def at_desk(self, script):
        """Runs a script of bash at the desk; returns its output, with its
        commands' errors in it."""
        return subprocess.run(
            [*self.network.wrapper("desk"), "bash", "-e", "-c", script],
            cwd=self.desk,
            env={"PATH": "%s:%s" % (self.bin, os.environ["PATH"])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
        )

    @staticmethod
    def forget(machine):
        """The machine is as if it had never been set up."""
        machine.run(
            "pid=$(cat /run/haspd.pid)\nkill $pid\n"
            "while kill -0 $pid 2>&-; do sleep 0.05; done\n"
            "rm -rf /etc/hasp /run/is-enabled /run/haspd.pid /run/hasp "
            "/var/lib/hasp /var/log/hasp"
        )

    def close(self):
        for machine in self.machines:
            machine.close()
        self.network.close()
        shutil.rmtree(self.folder)
