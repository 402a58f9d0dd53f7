# SPDX-License-Identifier: MIT
"""Requests drawn from the gateway's own document: what it allows is understood,
what it does not is refused with the field, and nothing else comes of either."""

import json
import os
import random

import pytest

from cluster import Cluster
from test_http_api import Asker, raw

ROUNDS = 600
SEED = int(os.environ.get("HTTP_SEED", "12"))
# The cluster of one node is to stay as it is.
# The doors have bodies of other protocols: test_doors.py.
LEFT_OUT = ("/v1/cluster/", "/v1/session/stream", "/v1/events",
            "/v1/terraform/", "/v1/pre-reboot", "/v1/steady-state",
            "/v1/node/drain")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(1) as one:
        one.leader()
        one.document = json.loads(raw(one.nodes[0], "GET", "/v1/openapi.json")[2])
        yield one


def operations(document):
    """[(method, path, properties of the body, those that must be there)]"""
    found = []
    for path, methods in sorted(document["paths"].items()):
        for method, operation in sorted(methods.items()):
            if "requestBody" in operation and not path.startswith(LEFT_OUT):
                media = operation["requestBody"]["content"]["application/json"]
                schema = media["schema"]
                assert schema["additionalProperties"] is False
                found.append((method.upper(), path, schema["properties"],
                              schema["required"]))
    return found


def good(rng, name, schema):
    """A value that the schema allows."""
    if "oneOf" in schema:
        schema = rng.choice(schema["oneOf"])
    if "enum" in schema:
        return rng.choice(schema["enum"])
    kind = schema["type"]
    if kind == "boolean":
        return rng.random() < 0.5
    if kind == "integer":
        low = schema.get("minimum", 0)
        high = schema.get("maximum", 100)
        # Nobody waits for long.
        return 0 if name == "poll_ms" else rng.choice([low, low + 1, high])
    if kind == "array":
        return [good(rng, "", schema["items"]) for _ in range(rng.randint(1, 3))]
    if kind == "object":
        return {"team": "payments"}
    if name.endswith("_b64"):
        return rng.choice(["YQ==", "/w=="])
    return rng.choice(["a", "b/\u00e9", "\U0001f512", "x" * 100])


def bad(rng, schema):
    """One that it does not."""
    kind = schema.get("type", "oneOf")
    wrong = [None, {"no": []}, 1.5]
    if kind == "object":
        return rng.choice([7, "a", [1]])
    if kind != "boolean":
        wrong.append(True)
    if kind in ("integer", "boolean"):
        wrong.append("1")
    if kind == "integer":
        wrong += [schema.get("minimum", 0) - 1]
        wrong += [schema["maximum"] + 1] if schema.get("maximum", 2**62) < 2**53 else []
    if kind == "array":
        wrong += ["a", [], [1]]
    return rng.choice(wrong)


def draw(rng, properties, required):
    names = [n for n in properties if n in required or rng.random() < 0.4]
    if "name" in properties:
        names.append("name")
    # A text is given once.
    names = [n for n in names if n[-4:] != "_b64" or n[:-4] not in names]
    return {n: good(rng, n, properties[n]) for n in names}


def test_what_is_drawn_is_understood_and_what_is_broken_is_told(cluster):
    rng = random.Random(SEED)
    node = cluster.nodes[0]
    asker = Asker(node, cluster.document).open(ttl_ms=60000)
    routes = operations(cluster.document)
    assert len(routes) > 20
    done, told = set(), set()
    for i in range(ROUNDS):
        method, path, properties, required = rng.choice(routes)
        target, body = path.replace("{name}", "a"), draw(rng, properties, required)
        if path == "/v1/session/close":
            continue  # It is needed.
        said = "HTTP_SEED=%d, request %d: %s %s " % (SEED, i, method, target)
        status, answer = asker.ask(method, target, json.dumps(body))
        assert status in (200, 202) or 400 <= status < 500, (said, body, answer)
        if status == 400:
            continue  # As: wait_ms needs req.
        done |= {path} if status < 300 else set()
        # The same, but for one member.
        broken = rng.choice([*properties, "colour"])
        body[broken] = bad(rng, properties.get(broken, {"type": "integer"}))
        status, answer = asker.ask(method, target, json.dumps(body))
        assert (status, answer["code"]) == (400, "BADARG"), (said, body, answer)
        field = broken.removesuffix("_b64")
        where = answer.get("field", "") + ": " + answer["detail"]
        assert field in where, (said, body, answer)
        told.add((path, field))
    assert len(done) > 12 and len(told) > 40, (done, len(told))
    assert raw(node, "GET", "/v1/status")[0] == 200
