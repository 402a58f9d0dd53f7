# SPDX-License-Identifier: MIT
"""The files of packaging/ and the tables of docs/operations.md are true."""

import os
import re
import shutil
import signal
import subprocess

import pytest

from cluster import (
    HASPD, ROOT, START_S, free_ports, is_sanitized, wait_until,
)

EXAMPLE = os.path.join(ROOT, "packaging", "haspd.conf.example")
MANUAL = os.path.join(ROOT, "docs", "operations.md")
BUILD = os.path.abspath(
    os.environ.get("HASP_BUILD", os.path.join(ROOT, "build", "release"))
)


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
        # All is there but the certificates, which are the operator's.
        assert result.returncode == 78
        assert result.stderr.startswith(
            "haspd: warning: the node does not start with these certificates: "
            "cannot open the CA '/etc/hasp/tls/ca.crt'")
        assert result.stderr.count("\n") == 1
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
        "node.dir", "cluster.name", "cluster.member", "tls.dir",
        "tls.client", "tls.peer",
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
            r"^\| `([a-z]+\.\w+)` \|([^|]*)\|([^|]*)\|([^|]*)\|",
            file.read(), re.M,
        )
    told = {key: (size(a.strip()), b.strip()) for key, a, b, _ in rows}
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
        assert "is out of range: %d to %d" % (low, high) in result.stderr, key


def manual(section):
    """A manual page as roff, and as a reader sees it."""
    made = haspd("--man", section)
    assert (made.returncode, made.stderr) == (0, "")
    seen = subprocess.run(
        ["mandoc", "-T", "utf8", "-O", "width=1000"], input=made.stdout,
        check=True, capture_output=True, encoding="utf-8", timeout=20,
    ).stdout
    return made.stdout, re.sub(r".\x08", "", seen)


def plain(text):
    """The text of a cell of a table in Markdown, without its marks."""
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


def test_the_page_of_the_configuration_says_what_the_manual_says():
    _, page = manual("5")
    with open(MANUAL) as file:
        rows = re.findall(
            r"^\| `([a-z]+)\.(\w+)` \|[^|]*\|[^|]*\|[^|]*\|([^|]*)\|$",
            file.read(), re.M,
        )
    assert len(rows) > 50
    sections = dict(re.findall(
        r"^SECTION \[(\w+)\]\n(.*?)(?=^\S|\Z)", page, re.M | re.S))
    assert set(sections) == {section for section, _, _ in rows}
    for section, key, meaning in rows:
        # The text of another key may begin with this key's word.
        found = re.findall(r"^ +%s\s+(\S.*)$" % key, sections[section], re.M)
        texts = [re.sub(r"\s+", " ", text) for text in found]
        wanted = plain(meaning.strip())
        assert any(text.startswith(wanted) for text in texts), (section, key)
    values = settings("--id", "1", "--dir", "x")
    assert set(values) <= {"%s.%s" % row[:2] for row in rows}


def test_the_page_of_the_daemon_has_each_option_and_exit_code():
    _, page = manual("8")
    said = haspd("--help").stdout
    options = set(re.findall(r"^  (--[a-z-]+)", said, re.M))
    assert len(options) > 20
    assert options <= set(re.findall(r"(--[a-z-]+)", page))
    codes = re.findall(r"\b(\d+) ", said[said.index("Exit codes"):])
    told = page[page.index("EXIT STATUS"):page.index("ENVIRONMENT")]
    assert re.findall(r"^ +(\d+) ", told, re.M) == codes and len(codes) == 8


def test_a_page_of_another_section_is_wrong_usage():
    refused = haspd("--man", "7")
    assert refused.returncode == 64
    assert "--man 7: expected 5 for haspd.conf(5) or 8 for haspd(8)" in (
        refused.stderr)


def seen(path):
    """A page as a reader sees it."""
    done = subprocess.run(
        ["mandoc", "-T", "utf8", "-O", "width=200", path], check=True,
        capture_output=True, encoding="utf-8", timeout=20)
    return re.sub(r".\x08", "", done.stdout)


def test_every_setting_is_in_the_page_of_the_configuration(installed):
    page = seen(installed + "/opt/hasp/share/man/man5/haspd.conf.5")
    keys = set(settings("--id", "1", "--dir", "x"))
    assert len(keys) > 40
    for key in keys | {"node.id", "node.dir", "cluster.member"}:
        assert re.search(r"^ *%s\b" % re.escape(key.split(".")[1]), page,
                         re.M), key


def test_the_pages_of_run_and_of_exit_codes_have_what_the_tool_says(installed):
    folder = installed + "/opt/hasp/share/man/"
    tool = os.path.join(os.path.dirname(HASPD), "hasp")
    said = subprocess.run([tool, "run", "--help"], capture_output=True,
                          text=True, check=True, timeout=20).stdout
    run = seen(folder + "man1/hasp-run.1")
    options = set(re.findall(r"^ +(?:-\w, )?(--[a-z-]+)", said, re.M))
    assert len(options) > 8
    for option in options:
        assert option in run, option
    codes = r"^ +(\d+|other) {2,}\S"
    listed = [re.findall(codes, text, re.M)
              for text in (run, seen(folder + "man7/hasp-exit-codes.7"))]
    assert listed[0] == listed[1] and len(listed[0]) > 10
    assert {"0", "1", "2", "69", "75", "79"} <= set(listed[0])
    refused = subprocess.run([tool, "help", "--man", "x"], capture_output=True,
                             text=True, timeout=20)
    assert refused.returncode == 64 and "'x'" in refused.stderr


def test_mandoc_finds_nothing_wrong_with_the_pages(installed):
    pages = []
    for folder, _, names in os.walk(installed + "/opt/hasp/share/man"):
        pages += [os.path.join(folder, name) for name in names]
    assert {os.path.basename(page) for page in pages} == {
        "hasp.1", "hasp-run.1", "hasp.3", "haspd.conf.5",
        "hasp-exit-codes.7", "haspd.8"}
    for page in pages:
        done = subprocess.run(
            ["mandoc", "-T", "lint", "-W", "warning", page],
            capture_output=True, text=True, timeout=20,
        )
        assert (done.returncode, done.stdout) == (0, ""), page


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with everything at its place below /, by `make install`."""
    folder = str(tmp_path_factory.mktemp("root"))
    made = subprocess.run(
        ["make", "-s", "install", "DESTDIR=" + folder, "PREFIX=/opt/hasp",
         "B=" + os.path.relpath(BUILD, ROOT)],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
    )
    assert made.returncode == 0, made.stderr
    return folder


def flags(root, *words):
    """The output of pkg-config about the files below 'root'."""
    env = dict(
        os.environ,
        PKG_CONFIG_SYSROOT_DIR=root,
        PKG_CONFIG_PATH=root + "/opt/hasp/lib/pkgconfig",
    )
    told = subprocess.run(
        ["pkg-config", *words], env=env, capture_output=True, text=True
    )
    assert told.returncode == 0, told.stderr
    return told.stdout.split()


def compile_c(program, source, *words):
    sanitizers = ["-fsanitize=address,undefined"] if is_sanitized() else []
    done = subprocess.run(
        ["cc", "-Wall", "-Werror", *sanitizers, "-o", program, source, *words],
        capture_output=True, text=True, timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return program


def test_what_is_installed_refers_to_where_it_is(installed):
    prefix = installed + "/opt/hasp"
    with open(prefix + "/lib/systemd/system/haspd.service") as file:
        unit = file.read()
    program = re.search(r"^ExecStart=(\S+) ", unit, re.M).group(1)
    assert program == "/opt/hasp/sbin/haspd"
    assert os.access(installed + program, os.X_OK)
    example = re.search(r"(/\S+/haspd.conf.example)", unit).group(1)
    with open(installed + example) as copy, open(EXAMPLE) as original:
        assert copy.read() == original.read()
    assert "/usr/local" not in unit
    with open(MANUAL) as file:
        manual = file.read()
    for path in (example, "/opt/hasp/lib/systemd/system/haspd.service"):
        assert path.replace("/opt/hasp", "/usr/local") in manual
    headers = set(os.listdir(os.path.join(ROOT, "include", "hasp")))
    assert set(os.listdir(prefix + "/include/hasp")) == headers


def test_each_shell_finds_its_completion(installed):
    share = installed + "/opt/hasp/share"
    for shell, path in (
        ("bash", "bash-completion/completions/hasp"),
        ("zsh", "zsh/site-functions/_hasp"),
        ("fish", "fish/vendor_completions.d/hasp.fish"),
    ):
        script = subprocess.run(
            [installed + "/opt/hasp/bin/hasp", "completion", shell],
            check=True, capture_output=True, text=True,
        ).stdout
        with open(os.path.join(share, path)) as file:
            assert file.read() == script, shell


def test_the_archive_of_a_node_keeps_its_own_names():
    names = subprocess.run(
        ["nm", "--defined-only", "--extern-only",
         os.path.join(BUILD, "libhaspnode.a")],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()
    names = {line.split()[-1] for line in names if " T " in line}
    with open(os.path.join(ROOT, "include", "hasp", "node.h")) as file:
        header = file.read()
    told = re.findall(
        r"^HASP_NODE_API [^;{]*?\b(hasp_node_\w+)\(", header, re.M
    )
    assert names == set(told) and len(told) > 8


def test_a_program_may_link_both_libraries(installed, tmp_path):
    source = tmp_path / "both.c"
    source.write_text(
        "#include <hasp/hasp.h>\n"
        "#include <hasp/node.h>\n"
        "int main(void)\n"
        "{\n"
        "    struct hasp_node_options options;\n"
        "    struct hasp_node_snapshot snapshot;\n"
        "    struct hasp_session *session;\n"
        "    char why[HASP_NODE_WHY_SIZE];\n"
        "    hasp_node_options_init(&options);\n"
        "    return hasp_open(NULL, &session) != 0 &&\n"
        "           hasp_node_inspect(\"/none\", &snapshot, why)\n"
        "           == HASP_NODE_DATA ? 0 : 1;\n"
        "}\n"
    )
    words = flags(installed, "--cflags", "--libs", "--static", "hasp",
                  "haspnode")
    assert "-lhasp" in words
    words = ["-l:libhasp.a" if word == "-lhasp" else word for word in words]
    program = compile_c(str(tmp_path / "both"), str(source), *words)
    env = dict(os.environ, HASP_ENDPOINTS="nonsense")
    assert subprocess.run([program], env=env, timeout=60).returncode == 0


def take_a_lock(program, ports):
    """Through the tool, at each of the nodes; gives the tokens."""
    tokens = []
    for port in ports:
        done = subprocess.run(
            [program, "-e", "127.0.0.1:%d" % port, "run", "embedded", "--",
             "sh", "-c", "echo $HASP_TOKEN"],
            capture_output=True, text=True, timeout=30,
        )
        assert done.returncode == 0, done.stderr
        tokens.append(int(done.stdout))
    return tokens


@pytest.mark.parametrize("kind", ["built", "installed"])
def test_three_programs_with_a_node_are_a_cluster(request, tmp_path, kind):
    if kind == "built":
        program = os.path.join(BUILD, "examples", "embedded")
        hasp = os.path.join(BUILD, "hasp")
    else:
        root = request.getfixturevalue("installed")
        program = compile_c(
            str(tmp_path / "embedded"),
            os.path.join(ROOT, "examples", "embedded.c"),
            *flags(root, "--cflags", "--libs", "--static", "haspnode"),
        )
        hasp = root + "/opt/hasp/bin/hasp"
    ports = free_ports(6)
    addresses = ["127.0.0.1:%d" % port for port in ports]
    processes, logs = [], []
    try:
        for number in "123":
            logs.append(tmp_path / ("log" + number))
            with open(logs[-1], "w") as log:
                processes.append(subprocess.Popen(
                    [program, number, str(tmp_path / number), *addresses],
                    stdout=log, stderr=log,
                ))

        def serves(number):
            lines = logs[number].read_text().splitlines()
            return lines and re.fullmatch(
                re.escape(addresses[2 * number + 1])
                + r": (leader|follower of [123]), term \d+", lines[-1]
            )

        wait_until(lambda: all(map(serves, range(3))), START_S,
                   "three programs that serve")
        tokens = take_a_lock(hasp, ports[1::2])
        assert tokens == sorted(set(tokens)) and len(tokens) == 3
        processes[0].send_signal(signal.SIGINT)
        assert processes[0].wait(15) == 0, logs[0].read_text()
        assert take_a_lock(hasp, ports[3:4])[0] > tokens[-1]
        for number in (1, 2):
            processes[number].send_signal(signal.SIGTERM)
        for number in (1, 2):
            assert processes[number].wait(15) == 0, logs[number].read_text()
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait(10)


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze"
)
@pytest.mark.parametrize(
    "name",
    ("haspd.service", "haspd@x.service", "hasp-run@x.service",
     "hasp-once@x.service", "hasp-once@x.timer", "hasp-agent.service",
     "hasp-agent.socket"),
)
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path, installed, name):
    """As they are installed, each with an instance if it is a template."""
    folder = installed + "/opt/hasp/lib/systemd/system/"
    for template in os.listdir(folder):
        with open(folder + template) as file:
            text = file.read()
        assert "/usr/local" not in text
        path = tmp_path / template.replace("@.", "@x.")
        path.write_text(
            text.replace("=/opt/hasp", "=%s/opt/hasp" % installed)
        )
    # Its manual pages are not installed here.
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        encoding="utf-8",
    )
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze"
)
@pytest.mark.parametrize("name", ("haspd-backup.service",
                                  "haspd-backup.timer",
                                  "haspd-drill.service",
                                  "haspd-drill.timer"))
def test_systemd_finds_nothing_wrong_with_the_backup(tmp_path, installed, name):
    test_systemd_finds_nothing_wrong_with_the_units(tmp_path, installed, name)


def test_several_nodes_of_a_machine_share_nothing(installed):
    """haspd@.service is haspd.service but for what belongs to one node."""
    folder = installed + "/opt/hasp/lib/systemd/system/"
    lines = []
    for name in ("haspd.service", "haspd@.service"):
        with open(folder + name) as file:
            lines.append(
                [line for line in file.read().splitlines()
                 if line and not line.startswith("#")]
            )
    one, several = lines
    assert len(one) == len(several)
    changed = [b for a, b in zip(one, several) if a != b]
    assert changed == [
        "Description=hasp lock service, node %i",
        "ConditionPathExists=/etc/hasp/%i.conf",
        "EnvironmentFile=-/etc/default/haspd-%i",
        "ExecStart=/opt/hasp/sbin/haspd --config /etc/hasp/%i.conf",
        "StateDirectory=hasp-%i",
        "RuntimeDirectory=hasp-%i",
        "LogsDirectory=hasp-%i",
    ]
