# SPDX-License-Identifier: MIT
"""What packaging/ holds, and the tables of docs/operations.md, are true."""

import os
import re
import shutil
import subprocess

import pytest

from cluster import HASPD, ROOT

EXAMPLE = os.path.join(ROOT, "packaging", "haspd.conf.example")
UNIT = os.path.join(ROOT, "packaging", "haspd.service")
MANUAL = os.path.join(ROOT, "docs", "operations.md")


def haspd(*flags):
    env = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
    return subprocess.run(
        [HASPD] + list(flags),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=20,
        env=env,
        encoding="utf-8",
    )


def settings(*flags):
    """--print-config as {section.key: (value, source)}."""
    result = haspd("--print-config", *flags)
    assert result.returncode == 0, result.stderr
    section, values = None, {}
    for line in result.stdout.splitlines():
        found = re.fullmatch(r"(\w+) = (.*) ; (\w+)", line)
        if line.startswith("["):
            section = line.strip("[]")
        elif found:
            key, value, source = found.groups()
            values["%s.%s" % (section, key)] = (value, source)
    return values


def test_the_example_is_good_for_each_of_its_nodes():
    for number in "123":
        flags = ("--config", EXAMPLE, "--id", number)
        result = haspd("--check-config", *flags)
        assert (result.returncode, result.stdout) == (0, "configuration ok\n")
        values = settings(*flags)
        assert values["listen.client"][0] == "10.0.0.%s:7420" % number
        assert values["listen.peer"][0] == "10.0.0.%s:7421" % number


def test_what_the_example_has_in_comments_are_the_defaults(tmp_path):
    with open(EXAMPLE) as file:
        text, count = re.subn(r"^#(\w+ = )", r"\1", file.read(), flags=re.M)
    assert count > 10
    path = tmp_path / "haspd.conf"
    path.write_text(text)
    defaults = settings("--id", "1", "--dir", "x")
    changed = {
        key
        for key, (value, source) in settings("--config", str(path)).items()
        if source == "file" and value != defaults.get(key, ("",))[0]
    }
    assert changed == {
        "node.dir", "cluster.name", "cluster.member", "security.insecure",
    }


def size(text):
    """64 MiB and 1 M as numbers."""
    number, _, unit = text.partition(" ")
    factor = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    if unit not in factor or not number.replace(",", "").isdigit():
        return text
    return str(int(number.replace(",", "")) * factor[unit])


def test_the_manual_has_every_setting_with_its_default_and_range():
    with open(MANUAL) as file:
        rows = re.findall(
            r"^\| `([a-z]+\.\w+)` \|([^|]*)\|([^|]*)\|", file.read(), re.M
        )
    told = {key: (size(a.strip()), b.strip()) for key, a, b in rows}
    defaults = settings("--id", "1", "--dir", "x")
    required = {"node.id", "node.dir", "cluster.member"}
    assert set(told) == set(defaults) | required
    for key, (default, bounds) in told.items():
        if key not in required:
            assert default == defaults[key][0], key
        found = re.fullmatch(r"(\S+(?: \w+)?) to (\S+(?: \w+)?)", bounds)
        if not found:
            continue
        low, high = (int(size(bound)) for bound in found.groups())
        result = haspd("--id", "1", "--dir", "x", "--check-config",
                       "--set", "%s=%d" % (key, high + 1))
        assert result.returncode == 78, key
        assert "must be from %d to %d" % (low, high) in result.stderr, key


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze"
)
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    with open(UNIT) as file:
        text = file.read()
    assert "ExecStart=/usr/local/sbin/haspd " in text
    path = tmp_path / "haspd.service"
    path.write_text(
        text.replace("/usr/local/sbin/haspd", os.path.abspath(HASPD))
    )
    result = subprocess.run(
        ["systemd-analyze", "verify", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        encoding="utf-8",
    )
    assert (result.returncode, result.stdout) == (0, "")
