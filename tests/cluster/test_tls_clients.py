# SPDX-License-Identifier: MIT
"""The clients in other languages speak TLS: by a folder, by HASP_TLS, to nodes
of the cluster alone, and say in a sentence what is wrong."""

import os
import shutil
import subprocess
import sys

import pytest

from cluster import ROOT
from tls_cluster import TlsCluster, tool

PYTHON = """
import hasp, sys
with hasp.Session(timeout=2%s) as session:
    with session.lock('job') as lock:
        print('locked', lock.token > 0)
"""

NODE = """
const { Session } = require(%r);
(async () => {
  const session = await Session.open({ timeout: 2000%s });
  await session.lock('job').run(async (lock) => {
    console.log('locked', lock.token > 0);
  });
  await session.close();
})().catch((error) => { console.error(String(error)); process.exit(1); });
"""

GO = """package main

import (
    "context"
    "fmt"
    "os"
    "time"

    "hasp"
)

func main() {
    ctx := context.Background()
    session, err := hasp.Open(ctx, hasp.Options{Timeout: 2 * time.Second%s})
    if err == nil {
        lock := session.NewLock("job", hasp.LockOptions{})
        if err = lock.Lock(ctx); err == nil {
            fmt.Println("locked", lock.Token() > 0)
            err = lock.Unlock(ctx)
        }
        session.Close(ctx)
    }
    if err != nil {
        fmt.Fprintln(os.Stderr, err)
        os.Exit(1)
    }
}
"""


@pytest.fixture(scope="module")
def cluster():
    with TlsCluster() as cluster:
        cluster.leader()
        yield cluster


def python(folder, option):
    text = PYTHON % (", tls=%r" % option if option else "")
    return [sys.executable, "-c", text], {
        "PYTHONPATH": os.path.join(ROOT, "clients", "python")}


def node(folder, option):
    library = os.path.join(ROOT, "clients", "node")
    text = NODE % (library, ", tls: %r" % option if option else "")
    return ["node", "-e", text], {}


def go(folder, option):
    source = folder / "main.go"
    source.write_text(GO % (', TLS: "%s"' % option if option else ""))
    (folder / "go.mod").write_text(
        "module example\ngo 1.19\nrequire hasp v0.0.0\nreplace hasp => %s\n"
        % os.path.join(ROOT, "clients", "go"))
    program = str(folder / "main")
    subprocess.run(["go", "build", "-o", program, "."], cwd=folder, check=True,
                   env=dict(os.environ, GOFLAGS="-mod=mod", GOPROXY="off"),
                   capture_output=True, timeout=300)
    return [program], {}


LANGUAGES = [python, node, go]


def run(cluster, tmp_path, language, option=None, variable=None):
    words, extra = language(tmp_path, option and str(option))
    env = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
    env.update(extra, HASP_ENDPOINTS=cluster.endpoints)
    if variable:
        env["HASP_TLS"] = str(variable)
    return subprocess.run(words, env=env, capture_output=True, text=True,
                          timeout=60)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_folder_is_all_it_needs(cluster, tmp_path, language):
    done = run(cluster, tmp_path, language, option=cluster.app)
    assert done.stdout.split()[0] == "locked", done.stderr
    assert done.stdout.split()[1].lower() == "true"
    done = run(cluster, tmp_path, language, variable=cluster.app)
    assert done.stdout.split()[0] == "locked", done.stderr


@pytest.mark.parametrize("language", LANGUAGES)
def test_without_it_the_node_says_what_is_wanted(cluster, tmp_path, language):
    done = run(cluster, tmp_path, language)
    assert done.returncode == 1
    assert "this port requires TLS" in done.stderr


@pytest.mark.parametrize("language", LANGUAGES)
def test_who_is_no_node_of_the_cluster_is_not_believed(cluster, tmp_path,
                                                       language):
    """A foreign CA; a user's certificate that serves; the CA of another
    cluster; a key that all may read."""
    tool("cert", "ca", "--cluster", "test", folder=tmp_path)
    tool("cert", "user", "eve", folder=tmp_path)
    eve = tmp_path / "certs" / "user-eve"
    done = run(cluster, tmp_path, language, option=eve)
    assert done.returncode == 1 and "locked" not in done.stdout
    assert "certificate" in done.stderr.lower(), done.stderr
    os.chmod(eve / "client.key", 0o644)
    done = run(cluster, tmp_path, language, option=eve)
    assert done.returncode == 1
    assert "is mode 0644: chmod 0600" in done.stderr


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_right_ca_and_the_wrong_name_is_not_believed(cluster, tmp_path,
                                                         language):
    """Another server that the same CA has signed, for a web site, say."""
    folder = tmp_path / "false"
    folder.mkdir()
    run_ssl = lambda *words: subprocess.run(
        ["openssl", *words], check=True, capture_output=True, cwd=folder,
        timeout=20)
    run_ssl("req", "-new", "-newkey", "ec", "-pkeyopt",
            "ec_paramgen_curve:P-256", "-nodes", "-keyout", "site.key",
            "-subj", "/CN=node 1 of test", "-out", "site.csr")
    (folder / "ext").write_text(
        "subjectAltName=IP:127.0.0.1,URI:https://test/node/1\n"
        "extendedKeyUsage=serverAuth,clientAuth\n")
    run_ssl("x509", "-req", "-in", "site.csr", "-CA",
            cluster.certs + "/ca.crt", "-CAkey", cluster.certs + "/ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out",
            "site.crt")
    from cluster import free_ports
    port = free_ports(1)[0]
    server = subprocess.Popen(
        ["openssl", "s_server", "-accept", str(port), "-cert", "site.crt",
         "-key", "site.key", "-quiet"], cwd=folder, stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        words, extra = language(tmp_path, cluster.app)
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("HASP_")}
        env.update(extra, HASP_ENDPOINTS="127.0.0.1:%d" % port)
        done = subprocess.run(words, env=env, capture_output=True, text=True,
                              timeout=60)
    finally:
        server.kill()
        server.wait(10)
    assert done.returncode == 1
    assert "certificate" in done.stderr, done.stderr


def test_libhasp_does_not_believe_it_either(cluster, tmp_path):
    tool("cert", "ca", "--cluster", "other", folder=tmp_path)
    tool("cert", "user", "app", folder=tmp_path)
    folder = tmp_path / "certs" / "user-app"
    shutil.copy(cluster.certs + "/ca.crt", folder / "ca.crt")
    done = tool("-e", cluster.endpoints, "-t", "1s", "run", "x", "--", "true",
                tls=folder, check=False)
    assert done.returncode == 78
    assert "was made by another CA" in done.stderr
