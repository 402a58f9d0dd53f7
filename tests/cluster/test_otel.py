# SPDX-License-Identifier: MIT
"""The examples that make spans of OpenTelemetry from hooks: the spans of the wait
and of the hold have the trace that the cluster shows."""

import json
import os
import re
import shutil
import subprocess

import pytest

from cluster import Cluster, wait_until

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("HASP_BUILD", os.path.join(ROOT, "build", "release"))
HASP = os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))
OTEL = os.path.join(ROOT, "examples", "otel")
GOCODE = "/usr/share/gocode"  # Debian's golang-opentelemetry-otel-dev.
PACKAGES = ["@opentelemetry/api@1.9.0", "@opentelemetry/sdk-trace-base@1.30.1"]


@pytest.fixture(scope="module")
def cluster():
    with Cluster(1) as nodes:
        nodes.leader()
        yield nodes


def run(*words, **more):
    done = subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        **more,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def in_c(_):
    return [os.path.join(ROOT, BUILD, "examples", "otel")], {}


def in_go(folder):
    """With Debian's packages, which are not modules."""
    if not os.path.isdir(os.path.join(GOCODE, "src", "go.opentelemetry.io")):
        pytest.skip("needs golang-opentelemetry-otel-dev")
    home = folder / "src" / "hasp"
    home.mkdir(parents=True)
    client = os.path.join(ROOT, "clients", "go")
    for name in os.listdir(client):
        if name.endswith(".go") and not name.endswith("_test.go"):
            shutil.copy(os.path.join(client, name), home)
    program = folder / "otel"
    shutil.copy(os.path.join(OTEL, "otel.go"), folder)
    run(
        "go",
        "build",
        "-o",
        str(program),
        str(folder / "otel.go"),
        env=dict(os.environ, GO111MODULE="off", GOPATH=f"{folder}:{GOCODE}"),
    )
    return [str(program)], {}


def in_node(folder):
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    shutil.copy(os.path.join(OTEL, "otel.js"), folder)
    (folder / "package.json").write_text('{"private": true}')
    words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        done = subprocess.run(
            [*words, "--fetch-retries=0", *PACKAGES],
            cwd=folder,
            capture_output=True,
            timeout=90,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("npm install took too long")
    if done.returncode != 0:
        pytest.skip("npm has no registry")
    os.symlink(os.path.join(ROOT, "clients", "node"), folder / "node_modules" / "hasp")
    return ["node", str(folder / "otel.js")], {}


def in_python(_):
    """With the library, or with a replica of the used part."""
    paths = [os.path.join(ROOT, "clients", "python")]
    python = "/usr/bin/python3"
    probe = [python, "-c", "import opentelemetry.sdk.trace"]
    if subprocess.run(probe, capture_output=True).returncode != 0:
        paths.append(os.path.join(os.path.dirname(__file__), "otel_replica"))
    return [python, os.path.join(OTEL, "otel.py")], {"PYTHONPATH": ":".join(paths)}


LANGUAGES = {"c": in_c, "go": in_go, "node": in_node, "python": in_python}


@pytest.mark.parametrize("language", LANGUAGES)
def test_its_spans_have_the_trace_that_the_cluster_shows(
    cluster, tmp_path, language
):
    port = cluster.nodes[0].client_port
    command, environment = LANGUAGES[language](tmp_path)
    environment = {
        **os.environ,
        **environment,
        "HASP_ENDPOINTS": f"127.0.0.1:{port}",
    }
    lock = "otel/" + language

    def why():
        return run(HASP, "why", lock, env=environment)

    with cluster.nodes[0].connect(5.0) as other:
        other.do("SESSION.OPEN", "TTL", "60000")
        other.do("LOCK.ACQUIRE", lock)
        program = subprocess.Popen(
            [*command, lock, "1"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            shown = wait_until(
                lambda: re.search("00-([0-9a-f]{32})-[0-9a-f]{16}-01", why()),
                30,
                "a wait with a trace",
            )[1]
            other.do("LOCK.RELEASE", lock)
            wait_until(lambda: f"00-{shown}" in why(), 30, "a hold with it")
            told, _ = program.communicate(timeout=60)
        finally:
            program.kill()
    assert program.returncode == 0, told
    assert "lock wait" in told and "lock hold" in told, told
    # A span without a parent has zeros there.
    traces = set(re.findall(r"\b(?:0x)?([0-9a-f]{32})\b", told)) - {32 * "0"}
    assert traces == {shown}, told
    assert lock in told and "queued" in told or language == "c", told


def test_the_spans_in_c_are_lines_of_otlp(cluster):
    port = cluster.nodes[0].client_port
    told = run(
        in_c(None)[0][0],
        'a "lock"',
        "0.2",
        env=dict(os.environ, HASP_ENDPOINTS=f"127.0.0.1:{port}"),
    )
    spans = [
        json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
        for line in told.splitlines()
    ]
    assert [one["name"] for one in spans] == ["lock wait", "lock hold"]
    wait, hold = spans
    assert wait["parentSpanId"] == hold["parentSpanId"] != ""
    between = int(hold["startTimeUnixNano"]) - int(wait["endTimeUnixNano"])
    assert abs(between) < 10**7  # The same event, by two readings of the clock.
    length = int(hold["endTimeUnixNano"]) - int(hold["startTimeUnixNano"])
    assert length >= 200 * 10**6
    assert hold["attributes"][0]["value"] == {"stringValue": 'a "lock"'}
