# SPDX-License-Identifier: MIT
"""The clients in other languages come as a user by the secret in a file: named
by an option or by HASP_SECRET_FILE, and refused if others can read it."""

import glob
import os
import shutil
import subprocess
import sys

import pytest

from cluster import ROOT, Cluster
from test_tls_clients import GO, NODE, PYTHON
from test_users import HASP, Tool

JAVA = """
import hasp.Session;
public class Main {
    public static void main(String[] args) throws Exception {
        try (var session = Session.open(new Session.Options()%s)) {
            var lock = session.lock("job");
            lock.lock();
            System.out.println("locked " + (lock.token() > 0));
            lock.unlock();
        }
    }
}
"""


@pytest.fixture(name="cluster", scope="module")
def cluster_(tmp_path_factory):
    """Access is required; 'app' may lock 'job'."""
    folder = tmp_path_factory.mktemp("secrets")
    with Cluster(3, "[security]\ninsecure = yes\n") as nodes:
        nodes.leader()
        tool = Tool(nodes)
        tool.admin("role", "set", "app", "lock:job")
        tool.admin("user", "add", "app", "--role", "app")
        tool.admin("secret", "add", "app", "--file", str(folder / "app.secret"))
        tool.admin("access", "required")
        nodes.secret = folder / "app.secret"
        nodes.endpoints = tool.ports
        yield nodes


def python(_, option):
    text = PYTHON % (", secret_file=%r" % option if option else "")
    return [sys.executable, "-c", text], {
        "PYTHONPATH": os.path.join(ROOT, "clients", "python")}


def node(_, option):
    library = os.path.join(ROOT, "clients", "node")
    text = NODE % (library, ", secretFile: %r" % option if option else "")
    return ["node", "-e", text], {}


def go(folder, option):
    (folder / "main.go").write_text(
        GO % (', SecretFile: "%s"' % option if option else ""))
    (folder / "go.mod").write_text(
        "module example\ngo 1.19\nrequire hasp v0.0.0\nreplace hasp => %s\n"
        % os.path.join(ROOT, "clients", "go"))
    program = str(folder / "main")
    subprocess.run(["go", "build", "-o", program, "."], cwd=folder, check=True,
                   env=dict(os.environ, GOFLAGS="-mod=mod", GOPROXY="off"),
                   capture_output=True, timeout=300)
    return [program], {}


def java(folder, option):
    (folder / "Main.java").write_text(
        JAVA % ('.secretFile("%s")' % option if option else ""))
    sources = glob.glob(os.path.join(ROOT, "clients/java/src/main/java/hasp/*.java"))
    subprocess.run(["javac", "-d", str(folder), str(folder / "Main.java"), *sources],
                   check=True, capture_output=True, timeout=300)
    return ["java", "-XX:TieredStopAtLevel=1", "-cp", str(folder), "Main"], {}


NEEDED = {python: sys.executable, node: "node", go: "go", java: "javac"}
LANGUAGES = [
    pytest.param(language, marks=pytest.mark.skipif(
        shutil.which(program) is None, reason="needs " + program))
    for language, program in NEEDED.items()
]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_secret_in_a_file_says_who_it_is(cluster, tmp_path, language):
    secret = tmp_path / "app.secret"
    shutil.copy(cluster.secret, secret)
    os.chmod(secret, 0o600)
    words, extra = language(tmp_path, str(secret))
    env = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
    env.update(extra, HASP_ENDPOINTS=cluster.endpoints)

    def run(**more):
        return subprocess.run(words, env=dict(env, **more), capture_output=True,
                              text=True, timeout=60)

    done = run()
    assert done.stdout.lower() == "locked true\n", done.stderr
    os.chmod(secret, 0o640)
    done = run()
    assert done.returncode != 0 and done.stdout == ""
    assert "has a secret that others can read" in done.stderr
    assert "chmod 0600" in done.stderr
    os.chmod(secret, 0o600)
    secret.write_text("hasp1.app.short\n")
    done = run()
    assert done.returncode != 0 and "no secret in" in done.stderr
    # Without the option the environment says it; without that it is nobody.
    words, _ = language(tmp_path, None)
    done = run(HASP_SECRET_FILE=str(cluster.secret))
    assert done.stdout.lower() == "locked true\n", done.stderr
    done = run()
    assert done.returncode != 0 and "not authenticated" in done.stderr
    whoami = subprocess.run(
        [HASP, "-e", cluster.endpoints, "--secret-file", str(cluster.secret), "whoami"],
        capture_output=True, text=True, timeout=60, check=True)
    assert "app" in whoami.stdout
