# SPDX-License-Identifier: MIT
"""The daemon's configuration: its refusals, and its order of precedence."""

import os
import signal
import socket
import subprocess

import pytest

from cluster import HASPD, free_ports
from tls_cluster import HASP

GOOD = "[node]\nid = 1\ndir = /nowhere\n"


def haspd(*flags, environment=None, timeout=20):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
    env.update(environment or {})
    return subprocess.run(
        [HASPD, *flags],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=env,
    )


@pytest.fixture
def check(tmp_path):
    """Runs --check-config on a text and returns the finished process."""

    def run(content, *flags, environment=None):
        path = tmp_path / "haspd.conf"
        path.write_text(content)
        return haspd(
            "--config",
            str(path),
            "--check-config",
            *flags,
            environment=environment
        )

    return run


def printed(result):
    """--print-config as {section.key: value}, comments cut."""
    section, values = None, {}
    for line in result.stdout.splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif " = " in line:
            key, value = line.split(" = ", 1)
            values["%s.%s" % (section, key)] = value.split(" ;")[0]
    return values


def test_a_small_file_is_enough(check):
    result = check(GOOD)
    assert (result.returncode, result.stdout) == (0, "configuration ok\n")


@pytest.mark.parametrize(
    "content, line, words",
    [
        (GOOD + "[raft]\nelecton_ms = 5\n", 5, "did you mean 'election_ms'?"),
        (GOOD + "[rafts]\nelection_ms = 500\n", 5, "did you mean [raft]?"),
        (GOOD + "[raft]\nid = 2\n", 5, "'id' belongs in [node], not in [raft]"),
        ("id = 1\n", 1, "before the first [section]"),
        (GOOD + "[raft]\nelection_ms = 29\n", 5, "out of range: 30 to 60000"),
        (GOOD + "[raft]\nelection_ms = 0x40\n", 5, "is not a whole number"),
        (GOOD + "[raft]\nelection_ms = -600\n", 5, "is not a whole number"),
        (GOOD + "[limits]\ntable_size = 5Q\n", 5, "is not a whole number"),
        (
            GOOD + "[limits]\ndisk_reserve = 99999999999999999999\n",
            5,
            "not a whole number",
        ),
        (GOOD + "[client]\nredirect = follow\n", 5, "forward or moved"),
        (GOOD + "[security]\ninsecure = true\n", 5, "yes or no"),
        (GOOD + "id = 2\n", 4, "duplicate 'id'; line 2 has it already"),
        (GOOD + "what is this\n", 4, "expected '[section]' or"),
        (
            GOOD + "[cluster]\nmember = 1 127.0.0.1:7421\n",
            5,
            "ID PEER-ADDRESS",
        ),
        (GOOD + "[cluster]\nname = " + 300 * "x" + "\n", 5, "line too long"),
        (GOOD + "dir =\n", 4, "line 3 has it already"),
    ],
)
def test_a_mistake_is_named_with_its_line(check, content, line, words):
    result = check(content)
    assert result.returncode == 78
    assert "haspd.conf:%d: " % line in result.stderr
    assert words in result.stderr


@pytest.mark.parametrize(
    "content, words",
    [
        ("[node]\ndir = /nowhere\n", "needs an id"),
        ("[node]\nid = 1\n", "needs a data directory"),
        (
            GOOD + "[raft]\nelection_ms = 100\nheartbeat_ms = 50\n",
            "three times",
        ),
        (GOOD + "[limits]\nwal_segment_size = 1048577\n", "multiple of 4096"),
        (GOOD + "[listen]\nclient = 7420\n", "expected an address"),
        (
            GOOD
            + "[cluster]\nmember = 1 127.0.0.1:1 127.0.0.1:2\n"
            + "member = 1 127.0.0.1:3 127.0.0.1:4\n",
            "duplicate member 1",
        ),
        (
            GOOD
            + "[cluster]\nmember = 1 127.0.0.1:1 127.0.0.1:2\n"
            + "member = 2 127.0.0.1:1 127.0.0.1:4\n",
            "127.0.0.1:1 is used by members 1 and 2",
        ),
        (
            GOOD
            + "[cluster]\nmember = 2 127.0.0.1:1 127.0.0.1:2\n"
            + "member = 3 127.0.0.1:3 127.0.0.1:2\n",
            "127.0.0.1:2 is used by members 2 and 3",
        ),
        (
            GOOD + "[cluster]\nmember = 2 127.0.0.1:1 127.0.0.1:1\n",
            "127.0.0.1:1 is used by members 2 and 2",
        ),
        (
            GOOD + "[listen]\nhttp = 127.0.0.1:7420\n",
            "listen.client and listen.http are both 127.0.0.1:7420",
        ),
    ],
)
def test_what_does_not_fit_together_is_refused(check, content, words):
    result = check(content)
    assert result.returncode == 78
    assert words in result.stderr


def test_where_settings_come_from_is_shown_though_they_do_not_fit(tmp_path):
    path = tmp_path / "haspd.conf"
    path.write_text(GOOD)
    result = haspd("--config", str(path), "--print-config",
                   environment={"HASP_LISTEN_HTTP": "127.0.0.1:7420"})
    assert result.returncode == 78
    assert "listen.client and listen.http are both" in result.stderr
    assert "http = 127.0.0.1:7420 ; environment\n" in result.stdout


@pytest.mark.parametrize(
    "line",
    [
        "[listen]\nclient = 0.0.0.0:7420\n",
        "[listen]\npeer = 192.0.2.1:7421\n",
        "[listen]\nhttp = [::]:7422\n",
        "[cluster]\nmember = 1 host.example:7421 127.0.0.1:7420\n",
        "[cluster]\nmember = 2 127.0.0.1:7421 192.0.2.1:7420\n",
    ],
)
def test_a_network_address_needs_insecure(check, line):
    result = check(GOOD + line)
    assert result.returncode == 78
    assert "insecure = yes" in result.stderr
    result = check(GOOD + line + "[security]\ninsecure = yes\n")
    assert (result.returncode, result.stderr) == (0, "")
    assert check(GOOD + line, "--insecure").returncode == 0


def test_a_network_address_is_fine_with_tls(check):
    text = GOOD + "[cluster]\nname = prod\n[listen]\nclient = 0.0.0.0:7420\n"
    tls = "[tls]\ndir = /etc/hasp/tls\nclient = %s\n"
    result = check(text + tls % "require")
    assert result.stderr.splitlines()[-1] == (
        "haspd: warning: the node does not start with these certificates: "
        "cannot open the CA '/etc/hasp/tls/ca.crt': No such file or directory")
    assert check(text + tls % "allow").returncode == 78
    result = check(text + "peer = 0.0.0.0:7421\n" + tls % "require")
    assert result.returncode == 78
    assert "listen.peer = '0.0.0.0:7421' is not a loopback" in result.stderr


@pytest.mark.parametrize("lines, expected", [
    ("[tls]\nclient = require\n", "TLS needs certificates"),
    ("[tls]\ndir = x\npeer = allow\n", "TLS needs a unique cluster.name"),
    ("[cluster]\nname = a b\n[tls]\ndir = x\npeer = allow\n",
     "cannot be used in a certificate"),
    ("[tls]\npeer = yes\n", "must be off, allow or require"),
])
def test_what_tls_needs_is_said(check, lines, expected):
    result = check(GOOD + lines)
    assert result.returncode == 78
    assert expected in result.stderr


def test_flag_beats_environment_beats_file_beats_default(tmp_path):
    path = tmp_path / "c"
    path.write_text(GOOD + "[raft]\nelection_ms = 901\nheartbeat_ms = 91\n")
    environment = {"HASP_RAFT_ELECTION_MS": "902", "HASP_NODE_ID": "7"}
    base = ["--config", str(path), "--print-config"]
    assert (
        printed(haspd("--print-config", "--id", "1", "--dir", "/x"))[
            "raft.election_ms"
        ]
        == "600"
    )
    assert printed(haspd(*base))["raft.election_ms"] == "901"
    values = printed(haspd(*base, environment=environment))
    assert (values["raft.election_ms"], values["node.id"]) == ("902", "7")
    assert values["raft.heartbeat_ms"] == "91"
    values = printed(
        haspd(*base, "--election-ms", "903", environment=environment)
    )
    assert values["raft.election_ms"] == "903"
    values = printed(
        haspd(*base, "--set", "raft.election_ms=904", environment=environment)
    )
    assert values["raft.election_ms"] == "904"


def test_members_of_a_later_source_replace_the_earlier(tmp_path):
    path = tmp_path / "c"
    path.write_text(
        GOOD
        + "[cluster]\nmember = 1 127.0.0.1:1 127.0.0.1:2\n"
        + "member = 2 127.0.0.1:3 127.0.0.1:4\n"
    )
    result = haspd(
        "--config",
        str(path),
        "--print-config",
        environment={
            "HASP_CLUSTER_MEMBER": "1 127.0.0.1:5 127.0.0.1:6,"
            "3 127.0.0.1:7 127.0.0.1:8"
        },
    )
    members = [x for x in result.stdout.splitlines() if x.startswith("member")]
    assert [x.split(" ;")[0] for x in members] == [
        "member = 1 127.0.0.1:5 127.0.0.1:6",
        "member = 3 127.0.0.1:7 127.0.0.1:8",
    ]
    assert (
        printed(result)["listen.client"] == "127.0.0.1:6"
    ), "where its line says"
    assert printed(result)["listen.peer"] == "127.0.0.1:5"


def test_what_is_printed_can_be_read_back(tmp_path):
    path = tmp_path / "c"
    flags = ["--id", "3", "--dir", "/x y", "--set", "limits.table_size=2G"]
    first = haspd("--print-config", *flags)
    path.write_text(first.stdout)
    second = haspd("--config", str(path), "--print-config")
    assert second.returncode == 0, second.stderr
    assert printed(second) == printed(first)
    assert printed(first)["limits.table_size"] == str(2 << 30)
    assert printed(first)["listen.local"] == ""


def test_indented_keys_and_comments_are_fine(check):
    result = check("# a\n; b\n[node]\n\tid = 1 ; mine\n    dir = /nowhere\n")
    assert result.returncode == 0, result.stderr


def test_variables_of_others_are_left_alone_but_typing_errors_are_not(check):
    fine = {"HASP_ENDPOINTS": "x", "HASP_TOKEN": "3", "HASP_LOCK": "a"}
    assert check(GOOD, environment=fine).returncode == 0
    result = check(GOOD, environment={"HASP_RAFT_ELECTION": "600"})
    assert result.returncode == 78
    assert "HASP_RAFT_ELECTION: " in result.stderr
    assert "'election_ms'" in result.stderr


@pytest.mark.parametrize(
    "limits, said",
    [
        ("", []),
        ("waits = 5000\n", []),
        (
            "waits = 5000\nwaits_per_lock = 6000\n",
            [
                "limits.waits_per_lock = 6000 has no effect: "
                "limits.waits = 5000 is reached first"
            ],
        ),
        (
            "locks = 2M\nstate_size = 100M\n",
            [
                "limits.locks = 2097152 has no effect: limits.state_size = "
                "104857600 has room for at most 650279"
            ],
        ),
        (
            "request_size = 5000\n",
            ["limits.request_size = 5000 has no room for limits.value_size = 4096, "],
        ),
        (
            "requests_in_flight = 100\nrequests_per_conn = 200\n",
            ["limits.requests_per_conn = 200 has no effect: "],
        ),
    ],
)
def test_limits_that_do_not_fit_together_are_told(check, limits, said):
    result = check(GOOD + "[limits]\n" + limits)
    assert result.returncode == 0
    assert result.stdout == "configuration ok\n"
    warnings = result.stderr.splitlines()
    assert len(warnings) == len(said), warnings
    for line, text in zip(warnings, said):
        assert line.startswith("haspd: warning: " + text)


def test_who_is_added_later_is_told_to_listen_elsewhere(check):
    text = (GOOD + "[security]\ninsecure = yes\n"
            "[cluster]\nmember = 2 192.0.2.2:7421 192.0.2.2:7420\n")
    result = check(text)
    assert result.returncode == 0
    assert result.stderr.startswith(
        "haspd: warning: listen.peer = 127.0.0.1:7421 is reachable on "
        "this machine only")
    assert check(text + "[listen]\npeer = 192.0.2.1:7421\n").stderr == ""
    own = "member = 1 192.0.2.1:7421 192.0.2.1:7420\n"
    assert check(text + own).stderr == ""


def test_certificates_that_cannot_be_used_are_told_before_the_start(
        check, tmp_path):
    text = (GOOD + "[cluster]\nname = prod\n"
            "[tls]\nclient = require\ndir = %s\n")
    told = "haspd: warning: the node does not start with these certificates: "
    result = check(text % "/nowhere")
    assert (result.returncode, result.stdout) == (78, "")
    assert result.stderr.startswith(told + "cannot open the CA '/nowhere/ca.crt'")
    for words in (("ca", "--cluster", "prod"), ("node", "1=127.0.0.1", "2=127.0.0.1")):
        subprocess.run([HASP, "cert", *words], cwd=tmp_path, check=True,
                       capture_output=True, timeout=20)
    result = check(text % (tmp_path / "certs/node-1"))
    assert (result.returncode, result.stderr) == (0, "")
    result = check(text % (tmp_path / "certs/node-2"))
    assert result.returncode == 78
    assert "is of node 2, this is node 1" in result.stderr


def test_usage(tmp_path):
    assert haspd("--nonsense").returncode == 64
    assert haspd("--set", "raft.election_ms").returncode == 64
    assert haspd("start").returncode == 64
    assert haspd("--version").stdout.startswith("haspd ")
    assert "--check-config" in haspd("--help").stdout
    result = haspd("--config", str(tmp_path / "missing"))
    assert result.returncode == 78
    assert "missing" in result.stderr


def test_a_taken_port_is_69(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        for flag in ("--listen-client", "--listen-peer"):
            others = free_ports(2)
            ports = {
                "--listen-client": others[0],
                "--listen-peer": others[1],
                flag: port,
            }
            flags = [
                w for f, p in ports.items() for w in (f, "127.0.0.1:%d" % p)
            ]
            result = haspd(
                "--id",
                "1",
                "--dir",
                str(tmp_path / "d"),
                "--listen-http",
                "off",
                *flags
            )
            assert result.returncode == 69, result.stderr
            assert str(port) in result.stderr


def test_a_directory_that_cannot_be_used_is_70(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    result = haspd(
        "--id", "1", "--dir", str(file / "d"), "--listen-http", "off"
    )
    assert result.returncode == 70
    assert str(file) in result.stderr


def test_the_directory_of_another_node_is_refused(tmp_path):
    client, peer = free_ports(2)
    flags = [
        "--dir",
        str(tmp_path / "d"),
        "--listen-http",
        "off",
        "--listen-client",
        "127.0.0.1:%d" % client,
        "--listen-peer",
        "127.0.0.1:%d" % peer,
    ]
    first = subprocess.Popen(
        [HASPD, "--id", "1", *flags], stderr=subprocess.PIPE
    )
    try:
        assert b"data directory made" in first.stderr.readline()
        second = haspd("--id", "1", *flags)
        assert second.returncode == 70, "the directory is in use"
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=10)
        assert first.returncode == 0
    finally:
        first.kill()
        first.communicate()
    result = haspd("--id", "2", *flags)
    assert result.returncode == 70
    assert "1" in result.stderr and "2" in result.stderr
