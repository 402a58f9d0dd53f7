# SPDX-License-Identifier: MIT
"""hasp setup: from packages on three machines to a lock over TLS with a user, by
the commands of docs/install.md; and what it says when something is wrong."""

import os
import re
import shlex
import subprocess

import pytest

from cluster import HASPD, ROOT, wait_until
from machines import HASP_ID, Machines, why_not

HASP = os.path.abspath(
    os.environ.get("HASP", os.path.join(os.path.dirname(HASPD), "hasp"))
)
COMMANDS_MAX = 8
THREE = "lock1=10.213.0.1 lock2=10.213.0.2 lock3=10.213.0.3"

needs_machines = pytest.mark.skipif(
    why_not() is not None, reason=str(why_not())
)


def documented():
    """The commands of the page, for the addresses of these machines."""
    with open(os.path.join(ROOT, "docs", "install.md")) as file:
        page = file.read()
    section = page.split("## A cluster on three machines\n", 1)[1]
    block = re.search(r"^```sh\n(.*?)^```", section, re.M | re.S).group(1)
    lines = [re.sub(r"\s+#.*", "", line) for line in block.splitlines()]
    return [line.replace("10.0.0.", "10.213.0.") for line in lines]


@pytest.fixture(scope="module")
def machines():
    made = Machines(HASP, os.path.abspath(HASPD))
    yield made
    made.close()


@pytest.fixture(scope="module")
def cluster(machines):
    """The machines after the page's commands, and what these printed."""
    script = "\n".join(documented())
    done = machines.at_desk(script)
    logs = "".join(
        machine.run("tail -n 5 /var/log/haspd.log", is_checked=False).stdout
        for machine in machines.machines
    )
    assert done.returncode == 0, done.stdout + logs
    machines.printed = done.stdout
    return machines


def tool(folder, *words):
    return subprocess.run(
        [HASP, *words], cwd=folder, capture_output=True, text=True, timeout=30
    )


@needs_machines
def test_a_machine_that_is_not_set_up_is_told_what_is_missing(machines):
    done = machines.machines[0].run("hasp setup --check", is_checked=False)
    assert done.returncode == 1
    assert "/etc/hasp/haspd.conf is missing: hasp setup creates" in done.stdout


@needs_machines
def test_one_of_three_machines_says_that_the_others_are_missing(machines):
    done = machines.at_desk(
        "hasp setup --dir alone %s\n"
        "ssh 10.213.0.1 sudo hasp setup --install - < alone/lock1.setup\n"
        "! ssh 10.213.0.1 sudo hasp -t 1s setup --check\n" % THREE
    )
    machines.forget(machines.machines[0])
    assert done.returncode == 0, done.stdout
    assert "node 2" in done.stdout and "node 3" in done.stdout
    assert re.search(
        "^node 2 +missing +10.213.0.2:7421: Connection refused",
        done.stdout,
        re.M,
    )
    assert "no leader yet; a new cluster starts once" in done.stdout


@needs_machines
def test_one_machine_alone_is_a_cluster_too(machines):
    done = machines.at_desk(
        "hasp setup --dir solo lock1=10.213.0.1\n"
        "ssh 10.213.0.1 sudo hasp setup --install - < solo/lock1.setup\n"
        "export HASP_ENDPOINTS=10.213.0.1 HASP_TLS=solo/user-admin\n"
        "hasp run -w 10s x -- echo alone\n"
    )
    machines.forget(machines.machines[0])
    assert done.returncode == 0, done.stdout
    assert "1 machine survives the loss of none" in done.stdout
    assert done.stdout.splitlines()[-1] == "alone"


@needs_machines
def test_eight_commands_lead_to_a_lock_of_a_user_over_tls(cluster):
    commands = documented()
    assert len(commands) <= COMMANDS_MAX
    assert all(re.match(r"(hasp|ssh|export|HASP_TLS)\b", c) for c in commands)
    assert cluster.printed.splitlines()[-1] == "locked"
    # The output of setup is the page's next step.
    told = re.findall(r"^  (ssh .*)$", cluster.printed, re.M)
    assert told == commands[1:4]
    exported = re.search(r"^  (export .*)$", cluster.printed, re.M).group(1)
    assert commands[4].replace("$PWD", cluster.desk) == exported


@needs_machines
def test_the_cluster_serves_users_over_tls_alone(cluster):
    env = documented()[4]
    done = cluster.at_desk(
        "%s\nhasp whoami\n! HASP_TLS= hasp list\n"
        "! HASP_TLS=certs/user-app hasp run other -- true\n" % env
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"USER +admin\n.*\n.*\nACCESS +required", done.stdout)
    assert "this port requires TLS" in done.stdout
    assert "user 'app' may not lock 'other'" in done.stdout


@needs_machines
def test_every_machine_says_that_nothing_is_missing(cluster):
    for machine in cluster.machines:
        done = machine.run("hasp -o plain setup --check", is_checked=False)
        assert done.returncode == 0, done.stdout + done.stderr
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        assert [row[0].replace(" (this)", "") for row in rows] == [
            *("user", "configuration", "service", "at boot"),
            *("node 1", "node 2", "node 3", "cluster"),
        ]
        assert all(row[1] == "ok" for row in rows)


@needs_machines
def test_only_the_node_reads_its_key(cluster):
    told = cluster.machines[0].run(
        "stat -c '%n %a %U %G' /etc/hasp/tls /etc/hasp/tls/* "
        "/etc/hasp/haspd.conf /var/lib/hasp /var/log/hasp /run/hasp"
    )
    assert told.stdout.splitlines() == [
        "/etc/hasp/tls 750 root hasp",
        "/etc/hasp/tls/ca.crt 644 root root",
        "/etc/hasp/tls/node.crt 644 root root",
        "/etc/hasp/tls/node.key 640 root hasp",
        "/etc/hasp/haspd.conf 644 root root",
        "/var/lib/hasp 700 hasp hasp",
        "/var/log/hasp 700 hasp hasp",
        "/run/hasp 750 hasp hasp",
    ]
    assert os.stat(cluster.desk + "/certs/lock1.setup").st_mode & 0o777 == 0o600


@needs_machines
def test_a_program_on_a_machine_comes_by_the_local_socket(cluster):
    """With its user's secret, and as a member of the group hasp."""
    done = cluster.at_desk(
        "%s\nhasp secret add app --file app.secret\n" % documented()[4]
    )
    assert done.returncode == 0, done.stdout
    with open(cluster.desk + "/app.secret") as file:
        secret = file.read()
    as_member = "setpriv --reuid 65534 --regid %d --clear-groups" % HASP_ID
    done = cluster.machines[1].run(
        "install -o 65534 -m 0600 /dev/stdin /tmp/app.secret\n"
        "export HASP_SECRET_FILE=/tmp/app.secret\n"
        "%s hasp -e unix:/run/hasp/client.sock run app/x -- echo locally\n"
        % as_member,
        text=secret,
    )
    assert done.stdout == "locally\n"


@needs_machines
def test_what_is_there_is_not_written_over(cluster):
    first = cluster.machines[0]
    before = first.run("sha256sum /etc/hasp/haspd.conf /etc/hasp/tls/*").stdout
    done = cluster.at_desk(
        "hasp setup --dir other --cluster test %s\n"
        "! ssh 10.213.0.1 sudo hasp setup --install - < other/lock1.setup\n"
        "hasp setup --dir again %s\n"
        "! ssh 10.213.0.1 sudo hasp setup --install - < again/lock1.setup\n"
        "! hasp setup %s lock4=10.213.0.4\n"
        "head -c 900 certs/lock1.setup > cut\n"
        "! ssh 10.213.0.1 sudo hasp setup --install - < cut\n"
        % (THREE, THREE, THREE)
    )
    assert done.returncode == 0, done.stdout
    assert "'/etc/hasp/haspd.conf' exists and differs" in (
        done.stdout
    )
    assert "'/etc/hasp/tls/ca.crt' exists and differs" in done.stdout
    assert "'certs/machines' belongs to another cluster or other" in done.stdout
    assert "is not a complete file of 'hasp setup'" in done.stdout
    after = first.run("sha256sum /etc/hasp/haspd.conf /etc/hasp/tls/*").stdout
    assert before == after


@needs_machines
def test_a_renewed_certificate_is_installed_by_the_same_command(cluster):
    first = cluster.machines[0]
    before = first.run("cat /etc/hasp/tls/node.crt").stdout
    done = cluster.at_desk(
        "hasp cert renew certs/node-1\nhasp setup %s\n"
        "ssh 10.213.0.1 sudo hasp setup --install - < certs/lock1.setup\n"
        % THREE
    )
    assert done.returncode == 0, done.stdout
    assert first.run("cat /etc/hasp/tls/node.crt").stdout != before
    first.run("kill -HUP $(cat /run/haspd.pid)")
    wait_until(
        lambda: first.run("hasp setup --check", is_checked=False).returncode
        == 0,
        10,
        "the node with its new certificate",
    )


@needs_machines
def test_a_configuration_that_haspd_refuses_is_not_put_in_place(cluster):
    first = cluster.machines[0]
    with open(cluster.desk + "/certs/lock1.setup") as file:
        bundle = file.read().replace("peer = require", "peer = perhaps")
    first.run("mv /etc/hasp/haspd.conf /etc/hasp/kept")
    try:
        done = first.run(
            "hasp setup --install -", is_checked=False, text=bundle
        )
        assert done.returncode == 78, done.stderr
        assert "peer = .perhaps. must be off" in done.stderr.replace("'", ".")
        assert first.run("ls /etc/hasp").stdout.split() == ["kept", "tls"]
    finally:
        first.run("mv /etc/hasp/kept /etc/hasp/haspd.conf")


@needs_machines
def test_without_root_nothing_is_installed(cluster):
    done = cluster.machines[2].run(
        "setpriv --reuid 65534 --regid 65534 --clear-groups "
        "hasp setup --install - < /dev/null",
        is_checked=False,
    )
    assert done.returncode == 77
    assert "needs root: sudo hasp setup --install FILE" in done.stderr


def test_what_is_wrong_with_the_machines_is_said(tmp_path):
    for words, expected in (
        ([], "missing machines: give e.g. lock1=10.0.0.1"),
        (["a=10.0.0.1", "--check"], "missing machines: give e.g. lock1=10.0.0.1"),
        (["a=10.0.0.1:7420"], "invalid address '10.0.0.1:7420' of 'a'"),
        (["a="], "invalid address '' of 'a'"),
        (["a=10.0.0.1,"], "invalid address '' of 'a'"),
        (["=10.0.0.1"], "invalid machine '=10.0.0.1'"),
        (["a/b=10.0.0.1"], "invalid machine 'a/b=10.0.0.1'"),
        (["%s=10.0.0.1" % ("x" * 65)], "invalid machine 'xxx"),
        (["a=10.0.0.1", "a=10.0.0.2"], "two machines have the name 'a'"),
        (["a=10.0.0.1", "b=10.0.0.1"], "have the same address, 10.0.0.1"),
        (["a=127.0.0.1", "b=10.0.0.1"], "cannot reach 'a' at 127.0.0.1"),
        (["m%d=10.0.0.%d" % (i, i) for i in range(1, 11)], "more than 9"),
        (["a=10.0.0.1", "--cluster", "a b"], "invalid cluster 'a b'"),
        (["a=%s" % ",".join(["x" * 200] * 5)], "too many addresses of 'a'"),
    ):
        done = tool(tmp_path, "setup", *words)
        assert done.returncode == 64, (words, done.stderr)
        assert expected in done.stderr, (words, done.stderr)
        assert os.listdir(tmp_path) == []
    done = tool(tmp_path, "setup", "no-such-name.invalid")
    assert done.returncode == 65
    assert "give it as no-such-name.invalid=ADDRESS" in done.stderr


def test_a_folder_of_another_cluster_is_left_alone(tmp_path):
    tool(tmp_path, "cert", "ca", "--cluster", "test")
    done = tool(tmp_path, "setup", "a=10.0.0.1")
    assert done.returncode == 65
    assert "is for cluster 'test', not for 'production'" in done.stderr


def test_a_folder_with_blanks_is_quoted_in_what_is_to_be_copied(tmp_path):
    done = tool(tmp_path, "setup", "--dir", "my cert's", "a=10.0.0.1")
    assert done.returncode == 0, done.stderr
    words = [shlex.split(line) for line in done.stdout.splitlines()[1:]
             if line.startswith("  ")]
    assert words[0][-1] == "my cert's/a.setup"
    assert words[1][-1] == "HASP_TLS=%s/my cert's/user-admin" % tmp_path


def test_setup_says_the_same_to_programs(tmp_path):
    words = ["setup", "a=10.0.0.1", "b=[::1]", "--dir", "x"]
    assert tool(tmp_path, *words).returncode == 64
    words = ["setup", "a=10.0.0.1", "b=fd00::2,b.lan", "-o", "plain"]
    done = tool(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert "2 machines survive the loss of none" in done.stderr
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert [row[:2] for row in rows] == [["a", "1"], ["b", "2"]]
    with open(tmp_path / "certs" / "b.setup") as file:
        assert "member = 2 [fd00::2]:7421 [fd00::2]:7420" in file.read()
    hosts = tool(tmp_path, "-o", "plain", "cert", "show", "certs/node-2/node.crt")
    assert "fd00::2,b,b.lan" in hosts.stdout
