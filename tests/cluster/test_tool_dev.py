# SPDX-License-Identifier: MIT
"""'hasp dev --secure': certificates, users and no plain port."""

import os
import re
import shlex
import subprocess

from test_tool import Dev, hasp


def test_dev_secure_has_users_certificates_and_no_plain_port(tmp_path):
    folder = str(tmp_path / "made")
    with Dev("--secure", "--dir", folder) as cluster:
        told = ""
        while "Ctrl-C" not in told:
            told += cluster.process.stderr.readline()
        demo, admin = re.findall("export HASP_TLS=(.*)", told)
        who = [cluster.json("--tls", user, "whoami") for user in (demo, admin)]
        assert [w["user"] for w in who] == ["demo", "admin"]
        assert [w["access"] for w in who] == ["required", "required"]
        run = ["run", "demo/x", "--", "echo", "locked"]
        assert cluster.hasp("--tls", demo, *run).stdout == "locked\n"
        for words in (["run", "other", "--", "true"], ["show", "other"],
                      ["user", "list"]):
            refused = cluster.hasp("--tls", demo, *words)
            assert refused.returncode == 77 and "NOPERM" in refused.stderr
            assert cluster.hasp("--tls", admin, *words).returncode == 0
        plain = cluster.hasp("whoami")
        assert plain.returncode == 78 and "requires TLS" in plain.stderr
        redis = shlex.split(re.search("redis-cli -p .*", told).group())
        for name, answer in (("demo/y", "OK"), ("y", "NOPERM ")):
            set_ = ["set", name, "1", "nx", "px", "1000"]
            done = subprocess.run(redis + set_, capture_output=True, text=True,
                                  timeout=20)
            assert done.stdout.startswith(answer), done.stderr
        for i in range(1, 4):
            text = open("%s/n%d/haspd.conf" % (folder, i)).read()
            assert text.count(" = require\n") == 3
    # The kind of the nodes stays; HASP_TLS of a shell before does not matter.
    other = hasp("--tls", folder + "/none", "dev", "--dir", folder)
    assert other.returncode == 78 and "made with --secure" in other.stderr
    with open(demo + "/client.key") as file:
        key = file.read()
    with Dev("--secure", "--dir", folder) as cluster:
        with open(demo + "/client.key") as file:
            assert file.read() == key
        # The nodes' configurations, and so their ports, were kept.
        assert cluster.hasp("--tls", demo, *run).stdout == "locked\n"


def test_dev_secure_leaves_plain_nodes_alone(tmp_path):
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "haspd.conf").write_text("[node]\nid = 1\n")
    refused = hasp("dev", "--secure", "--dir", str(tmp_path))
    assert refused.returncode == 78
    assert "made without --secure" in refused.stderr
    assert os.listdir(tmp_path) == ["n1"]
    long = tmp_path / ("x" * 250)
    refused = hasp("dev", "--secure", "--dir", str(long))
    assert refused.returncode == 64 and "shorter path" in refused.stderr
