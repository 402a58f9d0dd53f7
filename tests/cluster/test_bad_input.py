# SPDX-License-Identifier: MIT
"""A wrong input is reported with what, why and the remedy, on the side that
sees it: one table for the port of clients, asked by the tool and by every
language that is installed; one for the port between nodes; one for HTTP. No
answer shows what its reader may not read."""

import concurrent.futures
import glob
import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import time
from contextlib import closing

import pytest

from cluster import ROOT, Client, Cluster, ReplyError, wait_until
from fake_peer import identity
from test_tls import expire
from tls_cluster import HASP, SecurePeer, TlsCluster, as_user, tool

# A program is given three words for each row, endpoints, folder and file with
# the secret, asks for all rows at once, and prints the answer to each.
PYTHON = """
import hasp, sys, threading
def tell(row, what):  # In one piece: all may end at once.
    sys.stdout.write('%d %s\\n' % (row, what))
def ask(row, endpoints, tls, secret):
    try:
        with hasp.Session(endpoints, tls=tls, secret_file=secret or None,
                          timeout=40) as session:
            session.lock('orders').acquire()
            tell(row, 'locked')
    except Exception as error:
        tell(row, error)
for i in range(0, len(sys.argv) - 1, 3):
    threading.Thread(target=ask, args=(i // 3, *sys.argv[i + 1:i + 4])).start()
"""
NODE = """
const { Session } = require(%r);
async function ask(row, endpoints, tls, secretFile) {
  try {
    const session = await Session.open({ endpoints, tls, timeout: 40000,
      ...(secretFile ? { secretFile } : {}) });
    await session.lock('orders').acquire();
    console.log(row, 'locked');
  } catch (error) {
    console.log(row, error.message.replaceAll('\\n', ' '));
  }
}
const words = process.argv.slice(1);
const all = [];
for (let i = 0; i < words.length; i += 3) {
  all.push(ask(i / 3, ...words.slice(i, i + 3)));
}
Promise.all(all).then(() => process.exit());
"""
GO = """package main

import (
    "context"
    "fmt"
    "os"
    "strings"
    "sync"
    "time"

    "hasp"
)

func ask(endpoints, folder, secret string) error {
    ctx := context.Background()
    session, err := hasp.Open(ctx, hasp.Options{Timeout: 40 * time.Second,
        Endpoints: strings.Split(endpoints, ","), TLS: folder,
        SecretFile: secret})
    if err == nil {
        err = session.NewLock("orders", hasp.LockOptions{}).Lock(ctx)
    }
    return err
}

func main() {
    var all sync.WaitGroup
    for i := 1; i+2 < len(os.Args); i += 3 {
        all.Add(1)
        go func(i int) {
            defer all.Done()
            err := ask(os.Args[i], os.Args[i+1], os.Args[i+2])
            fmt.Println(i/3, err)
        }(i)
    }
    all.Wait()
}
"""
JAVA = """
import hasp.Session;
import java.time.Duration;
import java.util.ArrayList;

public class Main {
    static void ask(int row, String endpoints, String tls, String secret) {
        var options = new Session.Options().endpoints(endpoints).tls(tls)
            .timeout(Duration.ofSeconds(40));
        if (!secret.isEmpty()) {
            options.secretFile(secret);
        }
        try (var session = Session.open(options)) {
            session.lock("orders").lock();
            System.out.println(row + " locked");
        } catch (Exception e) {
            System.out.println(row + " " + e.getMessage());
        }
    }

    public static void main(String[] args) throws Exception {
        var threads = new ArrayList<Thread>();
        for (int i = 0; i < args.length; i += 3) {
            int at = i;
            threads.add(new Thread(
                () -> ask(at / 3, args[at], args[at + 1], args[at + 2])));
        }
        for (var thread : threads) {
            thread.start();
        }
        for (var thread : threads) {
            thread.join();
        }
    }
}
"""


def make_python(_):
    return [sys.executable, "-c", PYTHON]


def make_node(_):
    return ["node", "-e", NODE % os.path.join(ROOT, "clients", "node"), "--"]


def make_go(folder):
    (folder / "main.go").write_text(GO)
    (folder / "go.mod").write_text(
        "module example\ngo 1.19\nrequire hasp v0.0.0\nreplace hasp => %s\n"
        % os.path.join(ROOT, "clients", "go"))
    subprocess.run(["go", "build", "-o", "main", "."], cwd=folder, check=True,
                   env=dict(os.environ, GOFLAGS="-mod=mod", GOPROXY="off"),
                   capture_output=True, timeout=300)
    return [str(folder / "main")]


def make_java(folder):
    (folder / "Main.java").write_text(JAVA)
    sources = glob.glob(os.path.join(ROOT, "clients/java/src/main/java/hasp/*.java"))
    subprocess.run(["javac", "-d", str(folder), str(folder / "Main.java"), *sources],
                   check=True, capture_output=True, timeout=300)
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
            str(folder), "Main"]


LANGUAGES = [
    pytest.param(make, marks=pytest.mark.skipif(
        shutil.which(program) is None, reason="needs " + program))
    for make, program in ((make_python, sys.executable), (make_node, "node"),
                          (make_go, "go"), (make_java, "javac"))
]

# The input of a client: the text of the tool, the text of the languages if the
# node is the first to see it, and the line in that node's log. '{tls}' is the
# client's folder.
ANOTHER_CA = ("the node's certificate was made by another CA than "
              "{tls}/ca.crt")
REFUSED = "the node refuses this client's certificate; its log says why"
NOTLS = "this port requires TLS: use --tls or HASP_TLS"
UNKNOWN = "NOAUTH user 'gone' is unknown on this node, or disabled: hasp user add gone"
WRONGPASS = "invalid username-password pair or user is disabled"
NOPERM = "NOPERM user 'app' may not lock 'orders' (roles: app)"
NOT_READ = "user 'app' may not read 'orders' (roles: app)"
NOAUTH = "NOAUTH not authenticated: present a client certificate or use AUTH"
ROWS = {
    "expired": (
        "the certificate '{tls}/client.crt' expired on 2021-01-01 00:00 UTC: "
        "hasp cert renew",
        "the certificate '{tls}/client.crt'",
        "the client's certificate expired on 2021-01-01 00:00 UTC: hasp cert "
        "renew"),
    "trusts another": (
        ANOTHER_CA,
        "the node's certificate was made by another CA than that in ca.crt: "
        "take the cluster's", None),
    "foreign": (
        "the certificate '{tls}/client.crt' was made by another CA than "
        "{tls}/ca.crt",
        "the certificate '{tls}/client.crt'",
        "the client's certificate was made by another CA than "),
    "other cluster": (
        "the certificate '{tls}/client.crt' is for cluster 'other', not 'test'",
        REFUSED, "the client's certificate is for cluster 'other', not 'test'"),
    "swapped": (
        "the certificate '{tls}/client.crt' is a node's certificate, not a "
        "user's", REFUSED,
        "this is a node's certificate, not a user's"),
    "swapped key": (
        "the key '{tls}/client.key' does not match the certificate "
        "'{tls}/client.crt'",
        "the key '{tls}/client.key' does not match the certificate "
        "'{tls}/client.crt'", None),
    "revoked": ("NOAUTH certificate was revoked",) * 2 + (None,),
    "unknown": (UNKNOWN,) * 2 + (None,),
    "nobody": (NOAUTH,) * 2 + (None,),
    "plain to TLS": (NOTLS,) * 2 + (
        "plain connection; this port requires TLS",),
    "TLS to plain": (
        "the node does not use TLS: set tls.client there",
        "the node does not use TLS: set tls.client there, or give no certificates",
        None),
    "wrong secret": (WRONGPASS,) * 2 + (None,),
    "may not": (NOPERM,) * 2 + (None,),
}


class Bad:
    """A cluster whose access is required, a plain node, and a folder for each
    row: what a client comes with."""

    def __init__(self, cluster, plain, folder):
        self.cluster, self.plain, self.folder = cluster, plain, folder
        self.tls, self.secret = {}, {}
        cluster.hasp("role", "set", "app", "lock,read:app/*")
        for user in ("app", "revoked"):
            cluster.hasp("user", "add", user, "--role", "app")
        for row, user in (("may not", "app"), ("TLS to plain", "app"),
                          ("revoked", "revoked"), ("unknown", "gone")):
            self.tls[row] = self.own(user)
        cluster.hasp("cert", "revoke", self.tls["revoked"])
        self.tls["expired"] = self.own("old")
        expire(self.tls["expired"] + "/client", cluster.certs, "user/old")
        for row, user in (("swapped", "x"), ("swapped key", "y")):
            self.tls[row] = self.own(user)
        self.replace("swapped key", "client.key", self.own("app"))
        node = cluster.folder_of(cluster.nodes[1])
        for part in ("crt", "key"):
            shutil.copy("%s/node.%s" % (node, part),
                        "%s/client.%s" % (self.tls["swapped"], part))
        self.make_foreign()
        self.tls["nobody"] = str(folder / "nobody")
        os.mkdir(self.tls["nobody"])
        self.replace("nobody", "ca.crt", cluster.certs)
        self.make_secret()
        cluster.hasp("access", "required")
        cluster.converged()  # Followers know that, too.

    def own(self, user):
        folder = os.path.join(self.cluster.certs, "user-" + user)
        if not os.path.exists(folder):
            tool("cert", "user", user, folder=self.cluster.folder)
        return folder

    def replace(self, row, name, source):
        shutil.copy(os.path.join(source, name), os.path.join(self.tls[row], name))

    def make_foreign(self):
        """By a CA of the same name, and by this one for another cluster."""
        for name in ("trusts another", "foreign"):
            at = self.folder / name.replace(" ", "-")
            at.mkdir()
            tool("cert", "ca", "--cluster", "test", folder=at)
            tool("cert", "user", "app", folder=at)
            self.tls[name] = str(at / "certs" / "user-app")
        self.replace("foreign", "ca.crt", self.cluster.certs)
        self.tls["other cluster"] = self.own("z")
        sign(self.tls["other cluster"] + "/client", self.cluster.certs,
             "hasp://other/user/app")

    def make_secret(self):
        right = self.cluster.folder + "/app.secret"
        self.cluster.hasp("secret", "add", "app", "--file", right)
        with open(right) as file:
            self.bearer = file.read().strip()
        wrong = self.bearer[:-2] + ("aa" if self.bearer[-2:] != "aa" else "bb")
        self.wrong = wrong
        path = str(self.folder / "wrong.secret")
        with open(path, "w", opener=lambda name, flags: os.open(
                name, flags, 0o600)) as file:
            file.write(wrong + "\n")
        self.tls["wrong secret"] = self.tls["nobody"]
        self.secret["wrong secret"] = path

    def environment(self, row):
        nodes = self.plain if row == "TLS to plain" else self.cluster
        env = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
        env["HASP_ENDPOINTS"] = ",".join(
            "127.0.0.1:%d" % n.client_port for n in nodes.nodes)
        if row in self.tls:
            env["HASP_TLS"] = self.tls[row]
        if row in self.secret:
            env["HASP_SECRET_FILE"] = self.secret[row]
        return env


def sign(stem, certs, name):
    """A certificate by the CA in 'certs', with a name that hasp cert would not
    give."""
    run = lambda *words: subprocess.run(["openssl", *words], check=True,
                                        capture_output=True, timeout=20)
    run("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
        "-nodes", "-keyout", stem + ".key", "-subj", "/CN=x", "-out",
        stem + ".csr")
    with open(stem + ".ext", "w") as file:
        file.write("subjectAltName=URI:%s\n" % name)
    run("x509", "-req", "-in", stem + ".csr", "-CA", certs + "/ca.crt",
        "-CAkey", certs + "/ca.key", "-CAcreateserial", "-days", "2",
        "-extfile", stem + ".ext", "-out", stem + ".crt")
    os.chmod(stem + ".key", 0o600)


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    with TlsCluster(start=False) as cluster, Cluster(1) as plain:
        for node in cluster.nodes:
            cluster.configure(node, "require",
                              "http = require\nhttp_certificates = yes\n")
        cluster.start()
        cluster.leader()
        plain.leader()
        yield Bad(cluster, plain, tmp_path_factory.mktemp("bad"))


def shown(bad, row):
    """A context of Python's for what the tool would not even show."""
    context = as_user(bad.cluster.certs)
    folder = bad.tls[row]
    context.load_cert_chain(folder + "/client.crt", folder + "/client.key")
    return context


# --- The port of clients -------------------------------------------------------


LOGGED = {row: told[2] for row, told in ROWS.items() if told[2]}


def is_logged(node, reason, also=""):
    """In a line, within half a second."""
    for _ in range(25):
        if any(reason in line and also in line
               for line in node.log().splitlines()):
            return True
        time.sleep(0.02)
    return False


def is_told(node, port, context, reason):
    """The log has five lines in ten seconds, so until there is room for it."""
    def attempt():
        try:
            with Client(port, tls=context) as client:
                client.do("PING")
        except (ssl.SSLError, ConnectionError, ReplyError):
            pass
        return is_logged(node, reason)

    wait_until(attempt, 20, "in the log: " + reason)


def test_the_node_says_whom_it_has_refused_and_why(bad):
    for i, (row, reason) in enumerate(sorted(LOGGED.items())):
        node = bad.cluster.nodes[i % 3]
        context = shown(bad, row) if row in bad.tls else None
        is_told(node, node.client_port, context, reason)


def tool_run(bad, row):
    """The fault in the tool's text: it must be one sentence, and nothing
    else."""
    done = subprocess.run([HASP, "-t", "40s", "run", "orders", "--", "echo", "x"],
                          env=bad.environment(row), capture_output=True,
                          text=True, timeout=60)
    expected = ROWS[row][0].format(tls=bad.tls.get(row))
    is_good = expected in done.stderr and done.stderr.count("\n") == 1 \
        and done.returncode not in (0, 69) and done.stdout == ""
    return None if is_good else (row, done)


def test_the_tool_says_what_is_wrong(bad):
    with concurrent.futures.ThreadPoolExecutor(len(ROWS)) as pool:
        faults = [told for told in pool.map(lambda row: tool_run(bad, row), ROWS)
                  if told]
    assert not faults, "\n".join(map(str, faults))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_says_what_is_wrong(bad, tmp_path, language):
    words = language(tmp_path)
    for row in ROWS:
        env = bad.environment(row)
        words += [env["HASP_ENDPOINTS"], env.get("HASP_TLS", ""),
                  env.get("HASP_SECRET_FILE", "")]
    env = {k: v for k, v in os.environ.items() if not k.startswith("HASP_")}
    env["PYTHONPATH"] = os.path.join(ROOT, "clients", "python")
    done = subprocess.run(words, env=env, capture_output=True, text=True,
                          timeout=100)
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    faults = [(row, told.get(str(i))) for i, row in enumerate(ROWS)
              if ROWS[row][1].format(tls=bad.tls.get(row))
              not in told.get(str(i), "")]
    assert not faults, "\n".join(map(str, faults)) + done.stderr


# --- The port between nodes ----------------------------------------------------


PEER_ROWS = {
    "none": "it presented no certificate",
    "user's": "this is a user's certificate, not a node's",
    "expired": "the peer's certificate expired on 2021-01-01 00:00 UTC: hasp "
               "cert renew",
    "foreign": "the peer's certificate was made by another CA than ",
    "other cluster": "the peer's certificate is for cluster 'other', not 'test'",
    "node 2's for 3": "it claims to be node 3, but its certificate is of "
                      "node 2",
    "plain": "plain connection; this port requires TLS",
}


def make_peer(bad, row):
    """The folder of a node's certificate that is not right."""
    folder = bad.folder / ("peer-" + row.replace(" ", "-"))
    if not folder.exists():
        shutil.copytree(bad.cluster.folder_of(bad.cluster.nodes[1]), folder)
        if row == "expired":
            expire(str(folder / "node"), bad.cluster.certs, "node/2")
        elif row == "other cluster":
            sign(str(folder / "node"), bad.cluster.certs, "hasp://other/node/2")
        elif row == "foreign":
            tool("cert", "ca", "--cluster", "test", folder=folder)
            tool("cert", "node", "2=127.0.0.1", folder=folder)
            for name in ("node.crt", "node.key"):
                shutil.copy(folder / "certs" / "node-2" / name, folder / name)
        elif row == "user's":
            for part in ("crt", "key"):
                shutil.copy("%s/client.%s" % (bad.own("app"), part),
                            folder / ("node." + part))
    return str(folder)


def knock(bad, node, row):
    """True if whoever comes so got anywhere."""
    if row in ("none", "plain"):
        with socket.create_connection(("127.0.0.1", node.peer_port), 5) as raw:
            if row == "none":
                raw = as_user(bad.cluster.certs).wrap_socket(raw)
            raw.sendall(b"\0" * 16)
            return raw.recv(100) != b""
    cluster_id, incarnation = identity(bad.cluster.nodes[2])
    with SecurePeer(node, 3 if row == "node 2's for 3" else 2,
                    make_peer(bad, row), bad.cluster.certs, cluster=cluster_id,
                    incarnation=incarnation) as peer:
        return peer.is_welcome()


def test_the_port_between_nodes_says_whom_it_has_refused_and_why(bad):
    """In its log: the peer is not a node, and gets only the alert."""
    term = bad.cluster.leader().status()["term"]
    for i, (row, reason) in enumerate(PEER_ROWS.items()):
        node = bad.cluster.nodes[i % 2 * 2]  # Not node 2, the peer.

        def attempt():
            try:
                assert not knock(bad, node, row), row
            except (ssl.SSLError, ConnectionError):
                pass
            return is_logged(node, reason)

        wait_until(attempt, 30, "%s: %s" % (row, reason))
    assert bad.cluster.leader().status()["term"] == term


# --- HTTP ----------------------------------------------------------------------


def ask(bad, method, target, bearer=None, user=None, body=None):
    node = bad.cluster.nodes[0]
    connection = http.client.HTTPSConnection(
        "127.0.0.1", node.http_port, timeout=20,
        context=as_user(bad.cluster.certs, user))
    headers = {"Content-Type": "application/json"}
    if bearer:
        headers["Authorization"] = "Bearer " + bearer
    with closing(connection):
        connection.request(method, target, body, headers)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())


def test_http_says_what_is_wrong(bad):
    node = bad.cluster.nodes[0]
    take = json.dumps({"holder": "h", "ttl_ms": 1000})
    rows = (
        (dict(), 401, "NOAUTH", "not authenticated: the body was not read"),
        (dict(bearer=bad.wrong), 401, "WRONGPASS", WRONGPASS),
        (dict(bearer="x"), 401, "WRONGPASS", WRONGPASS),
        (dict(user="gone"), 401, "NOAUTH", UNKNOWN[7:]),
        (dict(user="revoked"), 401, "NOAUTH", "certificate was revoked"),
        (dict(user="app"), 403, "NOPERM", NOT_READ),
        (dict(bearer=bad.bearer), 403, "NOPERM", NOT_READ),
    )
    for who, status, code, detail in rows:
        told = ask(bad, "PUT", "/v1/lease/orders", body=take, **who)
        assert (told[0], told[1]["code"]) == (status, code), (who, told)
        assert detail in told[1]["detail"], (who, told)
    with socket.create_connection(("127.0.0.1", node.http_port), 10) as plain:
        plain.sendall(b"GET /v1/locks HTTP/1.1\r\nHost: localhost\r\n\r\n")
        text = plain.makefile("rb").read()
    assert text.startswith(b"HTTP/1.1 400 ")
    assert b"this port requires HTTPS: use https://" in text
    for row in ("expired", "foreign", "other cluster", "swapped"):
        reason = LOGGED[row]

        def attempt():
            try:
                with closing(http.client.HTTPSConnection(
                        "127.0.0.1", node.http_port, timeout=10,
                        context=shown(bad, row))) as connection:
                    connection.request("GET", "/healthz")
                    assert connection.getresponse().status == 0, row
            except (ssl.SSLError, ConnectionError):
                pass
            return is_logged(node, reason, "port=http")

        wait_until(attempt, 20, "in the log: " + reason)
    assert bad.wrong not in node.log() and bad.bearer not in node.log()


# --- Names that one may not read -----------------------------------------------


HIDDEN, FREE = "hidden/aaaa", "hidden/bbbb"
ASKED = """LOCK.SHOW %s
LOCK.CHECK %s 1
LOCK.WHY %s
LOCK.HISTORY %s
LOCK.LIST PREFIX %s
LOCK.TOP PREFIX %s
LOCK.GRAPH PREFIX %s
LOCK.WATCH %s
LOCK.ACQUIRE %s
LOCK.ACQUIRE %s SHARED
LOCK.ACQUIRE %s WAIT 50
LOCK.MACQUIRE 2 app/1 %s
LOCK.CONVERT %s SHARED
LOCK.RELEASE %s
LOCK.CANCEL %s
LOCK.NOTE %s 1 x
LOCK.PLEASE %s
LOCK.RELEASEIF %s OWNER x
LOCK.BREAK %s AFTER 1000
LOCK.OBJECT %s
FENCE.SHOW %s
FENCE.ADMIT %s 1
FENCE.LIST PREFIX %s
SET %s x NX PX 1000
GET %s
EXISTS %s
TTL %s
PTTL %s
DEL %s
PEXPIRE %s 1000
SUBSCRIBE lock:%s
PSUBSCRIBE lock:%s*
EVAL return(redis.call('get',KEYS[1])) 1 %s
EVAL return(redis.call('del',KEYS[1])) 1 %s
EVAL if(redis.call('get',KEYS[1]))then(redis.call('del',KEYS[1]))end 1 %s
EVAL if(redis.call('get',KEYS[2]))then(redis.call('del',KEYS[1]))end 2 app/x %s
""".splitlines()
PATHS = """/v1/locks/%s
/v1/lock/why?name=%s
/v1/lock/check?name=%s&token=1
/v1/history/%s
/v1/locks?prefix=%s
/v1/top?prefix=%s
/v1/graph?prefix=%s
/v1/fences/%s
/v1/events?prefix=%s""".splitlines()


def test_what_one_may_not_read_shows_nowhere(bad):
    """Whether a lock is held, by whom, since when: the answer is the same as
    for an unknown name, over RESP and HTTP, at each node."""
    cluster, leaks = bad.cluster, []
    with cluster.leader().connect() as admin:
        admin.do("SESSION.OPEN", "TTL", 60000, "NAME", "treasurer")
        token = admin.do("LOCK.ACQUIRE", HIDDEN, "VALUE", "treasure")
        admin.do("FENCE.ADMIT", HIDDEN, token)
        for node in cluster.nodes:
            with Client(node.client_port, tls=as_user(cluster.certs, "app")) as app:
                app.do("SESSION.OPEN", "TTL", 60000)
                for line in ASKED:
                    told = [answer(app, line % name) for name in (HIDDEN, FREE)]
                    if told[0].replace(HIDDEN, FREE) != told[1] or any(
                            word in told[0] for word in ("treasure", str(token))):
                        leaks.append((node.id, line, told))
        for path in PATHS:
            told = [ask(bad, "GET", path % name, user="app")
                    for name in (HIDDEN, FREE)]
            assert told[0][0] == told[1][0] == 403, (path, told)
            text = json.dumps(told[0][1])
            assert text.replace(HIDDEN, FREE) == json.dumps(told[1][1])
            assert "treasure" not in text and str(token) not in text
        assert admin.map("LOCK.SHOW", HIDDEN)["holders"]  # It was there.
    assert not leaks, "\n".join(map(str, leaks))


def answer(client, line):
    try:
        return repr(client.do(*line.split()))
    except ReplyError as error:
        return str(error)
