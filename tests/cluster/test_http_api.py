# SPDX-License-Identifier: MIT
"""The gateway: what docs/http.md promises. Its examples are run by
tools/readme.py."""

import base64
import concurrent.futures
import contextlib
import hashlib
import http.client
import json
import os
import re
import socket
import struct
import threading
import time
import urllib.parse

import jsonschema
import pytest

from cluster import DISK_IS_SLOW, ROOT, STALL_S, Cluster, wait_until

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as one:
        one.leader()
        one.document = json.loads(raw(one.nodes[0], "GET", "/v1/openapi.json")[2])
        yield one


@pytest.fixture(params=["leader", "follower"])
def node(request, cluster):
    leader = cluster.leader()
    if request.param == "leader":
        return leader
    return cluster.followers(leader)[0]


@pytest.fixture
def name(request):
    return "%s/%d" % (request.node.name, time.monotonic_ns())


def raw(node, method, target, body=None, headers=(), timeout=70):
    """Status, headers, body. A leader whose disk stalls is asked again."""
    by = time.monotonic() + STALL_S
    while True:
        answer = raw_once(node, method, target, body, headers, timeout)
        if DISK_IS_SLOW.encode() not in answer[2] or time.monotonic() > by:
            return answer
        time.sleep(0.05)


def raw_once(node, method, target, body, headers, timeout):
    connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout)
    with contextlib.closing(connection):
        connection.request(method, target, body, dict(headers))
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read()


class Asker:
    """Asks one node, in the name of one session; every answer is held against
    the node's own document."""

    def __init__(self, node, document):
        self.node = node
        self.document = document
        self.headers = dict(JSON)

    def open(self, **members):
        status, opened = self.post("/v1/session/open", **members)
        assert status == 200, opened
        self.headers["Hasp-Session"] = "%d:%s" % (opened["id"], opened["secret"])
        self.id = opened["id"]
        return self

    def at(self, node):
        other = Asker(node, self.document)
        other.headers = self.headers
        return other

    def ask(self, method, target, body=None):
        status, headers, text = raw(self.node, method, target, body, self.headers)
        answer = json.loads(text)
        check(self.document, method, target.split("?")[0], status, answer)
        kind = "application/%s" % ("json" if status < 300 else "problem+json")
        assert headers["Content-Type"] == kind
        assert headers["Cache-Control"] == "no-store"
        return status, answer

    def post(self, path, **members):
        return self.ask("POST", path, json.dumps(members))

    def put(self, path, **members):
        return self.ask("PUT", path, json.dumps(members))

    def get(self, path, **query):
        asked = "?" + urllib.parse.urlencode(query) if query else ""
        return self.ask("GET", path + asked)


def strict(schema):
    """As the schema, but nothing that it does not name."""
    if isinstance(schema, dict):
        schema = {key: strict(value) for key, value in schema.items()}
        if "properties" in schema:
            schema.setdefault("additionalProperties", False)
        return schema
    return [strict(one) for one in schema] if isinstance(schema, list) else schema


def check(document, method, path, status, answer):
    """The answer is what the document says of this path."""
    for template, methods in document["paths"].items():
        pattern = re.escape(template.split("{")[0])
        pattern += ".+" if "{" in template else ""
        if re.fullmatch(pattern, path, re.S) and method.lower() in methods:
            responses = methods[method.lower()]["responses"]
            break
    else:
        responses = {"default": {"$ref": "#/components/responses/Problem"}}
    answers = responses.get(str(status), responses["default"])
    if "$ref" in answers:
        answers = document["components"]["responses"]["Problem"]
    (media,) = answers["content"].values()
    whole = strict(dict(media["schema"], components=document["components"]))
    jsonschema.Draft202012Validator(whole).validate(answer)


@pytest.fixture
def asker(node, cluster):
    return Asker(node, cluster.document)


def doc():
    with open(os.path.join(ROOT, "docs", "http.md"), encoding="utf-8") as file:
        return file.read()


# The table, the document, docs/http.md.


def routes(cluster):
    return {
        (method.upper(), path)
        for path, methods in cluster.document["paths"].items()
        for method in methods
    }


def test_the_page_names_every_route_and_no_other(cluster):
    named = set(re.findall(r"`(GET|PUT|POST|DELETE) (/[^`?]*)[^`]*`", doc()))
    named.discard(("PUT", "/v1/lease/NAME"))
    assert named == routes(cluster)


def test_every_route_has_an_example_that_is_run(cluster):
    blocks = re.findall(r"^```console\n(.*?)^```", doc(), re.M | re.S)
    asked = "\n".join(blocks)
    for _, path in routes(cluster) - {("GET", "/metrics")}:
        found = re.escape(path.split("{")[0])
        found += r"[\w%$(]" if "{" in path else r"[?\s\"]"
        assert re.search(found, asked), path


def test_the_document_is_openapi(cluster):
    document = cluster.document
    assert document["openapi"].startswith("3.1.")
    ids = [
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    ]
    assert len(set(ids)) == len(ids) > 40
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert operation["summary"].endswith(".")
            names = {
                one["name"]
                for one in operation["parameters"]
                if one["in"] == "path"
            }
            assert names == set(re.findall(r"{(\w+)}", path))


def test_the_document_suffices_for_a_generated_client(cluster):
    document = cluster.document
    scheme = document["components"]["securitySchemes"]["secret"]
    assert scheme == {"type": "http", "scheme": "bearer"}
    assert document["security"] == [{}, {"secret": []}]
    for method, path in (("put", "/v1/lease/{name}"), ("post", "/v1/lock/acquire")):
        assert "423" in document["paths"][path][method]["responses"]
    operation = document["paths"]["/v1/lease/{name}"]["put"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"holder": "a", "ttl_ms": 5})
    assert validator.is_valid({"holder_b64": "YQ==", "ttl_ms": 5})
    assert not validator.is_valid({"ttl_ms": 5})
    assert not validator.is_valid({"holder": "a"})


def test_answers_are_held_against_the_document(cluster):
    """The check itself: what the document does not say is found."""
    good = {"token": 1, "trust_ms": 2}
    check(cluster.document, "PUT", "/v1/lease/x", 200, good)
    for bad in ({"token": 1}, dict(good, more=1), dict(good, token="1")):
        with pytest.raises(jsonschema.ValidationError):
            check(cluster.document, "PUT", "/v1/lease/x", 200, bad)


def test_other_methods_and_paths_are_told_what_there_is(node, asker):
    status, headers, text = raw(node, "DELETE", "/v1/locks")
    assert status == 405 and headers["Allow"] == "GET, HEAD"
    assert "GET, HEAD" in json.loads(text)["detail"]
    assert raw(node, "PATCH", "/v1/lease/x")[1]["Allow"] == "PUT, DELETE"
    assert raw(node, "OPTIONS", "/healthz")[1]["Allow"] == "GET, HEAD"
    assert asker.ask("GET", "/v1/lockss")[0] == 404
    assert asker.ask("GET", "/v1/locks/")[0] == 404
    assert raw(node, "HEAD", "/v1/locks")[0] == 200


# Requests.


@pytest.mark.parametrize(
    "body, field, why",
    [
        ('{"name":"a","name":"b"}', None, "duplicate"),
        ('{"name":"a","colour":1}', None, "unknown field 'colour'; allowed: name, "),
        ('{"name":"a"', None, "JSON object"),
        ('{"name":"a"} x', None, "JSON object"),
        ("[1]", None, "JSON object"),
        ("[" * 5000, None, "JSON object"),
        ('{"name":"\xff"}', None, "JSON object"),
        ("{}", "name", "missing"),
        ('{"name":7}', "name", "must be a text"),
        ('{"name":""}', "name", "1 to 511 bytes"),
        ('{"name":"%s"}' % ("a" * 512), "name", "1 to 511 bytes"),
        ('{"name":"a","slots":1.5}', "slots", "whole number"),
        ('{"name":"a","slots":"1"}', "slots", "whole number"),
        ('{"name":"a","slots":0}', "slots", "from 1 to 2147483647"),
        ('{"name":"a","slots":-1}', "slots", "from 1 to 2147483647"),
        ('{"name":"a","slots":99999999999999999999}', None, "JSON object"),
        ('{"name":"a","shared":1}', "shared", "true or false"),
        ('{"name":"a","wait_ms":5}', "req", "needs req"),
        ('{"name":"a","name_b64":"YQ=="}', "name", "duplicate"),
        ('{"name_b64":"6"}', "name", "base64"),
        ('{"name_b64":"zz"}', "name", "base64"),
        ('{"name":"a","acked":"1 REQ 5"}', "acked", "4,6-9"),
        ('{"name":"a","poll_ms":50001}', "poll_ms", "to 50000"),
    ],
)
def test_a_bad_body_is_told_what_is_wrong(asker, body, field, why):
    asker.headers["Hasp-Session"] = "1:00"
    data = body.encode("latin-1")
    status, problem = asker.ask("POST", "/v1/lock/acquire", data)
    assert (status, problem["code"]) == (400, "BADARG")
    assert problem.get("field") == field and why in problem["detail"]


@pytest.mark.parametrize(
    "target, field, why",
    [
        ("/v1/locks?prefix=%4", "prefix", "hex digits"),
        ("/v1/locks?count=x", "count", "whole number"),
        ("/v1/locks?count=1&count=2", "count", "duplicate"),
        ("/v1/locks?size=1", None, "unknown field 'size'; allowed: prefix, count"),
        ("/v1/fences/a?name=b", None, "unknown field 'name'; allowed: nothing"),
        ("/v1/sessions/x", "id", "whole number"),
        ("/v1/sessions/0", "id", "from 1 to"),
        ("/v1/locks/%zz", "name", "hex digits"),
    ],
)
def test_a_bad_query_is_told_what_is_wrong(asker, target, field, why):
    status, problem = asker.ask("GET", target)
    assert (status, problem["code"]) == (400, "BADARG")
    assert problem.get("field") == field and why in problem["detail"]


def test_a_name_is_decoded_once(asker, name):
    asker.open()
    for text in ("a/b", "a%2Fb", "a+b c", "ü%", "a?b#c", "..", "nul\0nul"):
        text = name + text
        token = asker.post("/v1/lock/acquire", name=text)[1]["token"]
        path = urllib.parse.quote(text, safe="")
        shown = asker.get("/v1/locks/" + path)[1]
        assert shown["name"] == text
        assert shown["holders"][0]["token"] == token
        assert asker.get("/v1/lock/check", name=text, token=token)[1] == {"holds": 1}
    # A slash may be plain; encoded twice it is another name.
    assert asker.get("/v1/locks/%s" % name)[1]["mode"] == "free"
    asker.post("/v1/lock/acquire", name=name)
    assert asker.get("/v1/locks/%s" % name)[1]["mode"] == "exclusive"
    twice = urllib.parse.quote(urllib.parse.quote(name, safe=""), safe="")
    assert asker.get("/v1/locks/" + twice)[1]["mode"] == "free"


def test_what_has_no_room_in_an_answer_is_counted_and_comes_next(asker, node, name):
    with node.connect() as client:
        client.do("SESSION.OPEN")
        for number in range(2003):
            client.send("LOCK.ACQUIRE", name, "SHARED", "OWNER", "o%d" % number)
            if number % 100 == 99 or number == 2002:
                for _ in range(number % 100 + 1):
                    assert client.receive() > 0
        status, shown = asker.get("/v1/locks/" + name)
        tokens = [one["token"] for one in shown["holders"]]
        assert status == 200 and len(tokens) > 100
        assert shown["more_waiters"] == 0
        while "cursor" in shown:
            assert shown["more_holders"] == 2003 - len(tokens)
            shown = asker.get("/v1/locks/%s?cursor=%s" % (
                name, urllib.parse.quote(shown["cursor"], safe="")))[1]
            tokens += [one["token"] for one in shown["holders"]]
        assert len(tokens) == 2003 and tokens == sorted(set(tokens))
        assert asker.get("/v1/locks/%s?cursor=7" % name)[0] == 400
        client.do("SESSION.CLOSE")


def test_what_is_no_utf8_comes_in_b64(asker, name):
    asker.open(name_b64="/w==", labels={"k": "v"})
    text = name.encode() + b"\xff"
    encoded = base64.b64encode(text).decode()
    asker.post(
        "/v1/lock/acquire", name_b64=encoded, value_b64="/g==", owner="o"
    )
    shown = asker.get("/v1/locks/" + urllib.parse.quote(text, safe=""))[1]
    assert shown["name_b64"] == encoded and "name" not in shown
    holder = shown["holders"][0]
    assert (holder["value_b64"], holder["client_b64"]) == ("/g==", "/w==")
    assert holder["owner"] == "o"
    page = asker.get("/v1/locks", prefix_b64=encoded)[1]
    assert len(page["locks"]) == 1
    shown = asker.get("/v1/sessions/%d" % asker.id)[1]
    assert shown["name_b64"] == "/w==" and shown["labels"] == {"k": "v"}


def test_pages_follow_each_other(asker, name):
    asker.open()
    names = ["%s/%d" % (name, i) for i in range(5)]
    assert asker.post("/v1/lock/acquire-many", names=names)[0] == 200
    seen, cursor = [], {}
    while cursor.get("cursor") != "0":
        page = asker.get("/v1/locks", prefix=name, count=2, **cursor)[1]
        seen += [lock["name"] for lock in page.pop("locks")]
        cursor = page
    assert seen == names


def test_a_large_body_is_refused(node):
    big = b'{"name":"%s"}' % (b"a" * (1 << 20))
    connection = socket.create_connection(("127.0.0.1", node.http_port), 10)
    with connection:
        connection.sendall(
            b"POST /v1/lock/acquire HTTP/1.1\r\nHost: localhost\r\n"
            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(big)
        )
        reply = connection.makefile("rb").read()
    assert reply.startswith(b"HTTP/1.1 413 ") and b'"code":"BADARG"' in reply


# The requests that are allowed.


def test_pages_of_elsewhere_are_refused(node):
    def ask(method, target, **headers):
        headers = {key.replace("_", "-"): value for key, value in headers.items()}
        body = "{}" if method == "POST" else None
        return raw(node, method, target, body, headers)[0]

    port = node.http_port
    kind = {"Content_Type": "application/json; charset=utf-8"}
    opened = "/v1/session/open"
    for host in ("127.0.0.1:%d" % port, "localhost", "[::1]:80", "10.1.2.3"):
        assert ask("POST", opened, Host=host, **kind) == 200
    for host in ("evil.example", "localhost.evil.example", "", "127.0.0.1.evil",
                 "[::1]evil.example", "[::1", "127.0.0.1:evil", "localhost:80@evil"):
        assert ask("POST", opened, Host=host, **kind) == 421
        assert ask("GET", "/v1/locks", Host=host) == 421
        assert ask("GET", "/healthz", Host=host) == 200
    ours = "http://localhost:%d" % port
    host = {"Host": "localhost:%d" % port}
    assert ask("POST", opened, Origin=ours, **host, **kind) == 200
    for origin in ("http://evil.example", "null", "http://localhost", ours + "0"):
        assert ask("POST", opened, Origin=origin, **host, **kind) == 403
    for site, status in (
        ("cross-site", 403),
        ("same-site", 403),
        ("same-origin", 200),
        ("none", 200),
    ):
        assert ask("POST", opened, Sec_Fetch_Site=site, **kind) == status
    for one in ("text/plain", "application/jsonp", "application/x-www-form-urlencoded"):
        assert ask("POST", opened, Content_Type=one) == 415
    assert ask("POST", opened) == 415


def test_names_and_the_api_are_configured():
    extra = "[http]\nnames = locks.example other.example\napi = yes\n"
    with Cluster(1, extra=extra) as cluster:
        node = cluster.leader()
        for host, status in (
            ("locks.example", 200),
            ("OTHER.example:80", 200),
            ("example", 421),
            ("locks.example.evil", 421),
        ):
            assert raw(node, "GET", "/v1/locks", None, {"Host": host})[0] == status
    with Cluster(1, extra="[http]\napi = no\n") as cluster:
        node = cluster.leader()
        assert raw(node, "GET", "/readyz")[0] == 200
        status, _, text = raw(node, "POST", "/v1/session/open", "{}", JSON)
        assert status == 404 and b"http.api" in text
        assert raw(node, "GET", "/v1/openapi.json")[0] == 404


# Sessions and locks.


def test_a_lock_goes_from_one_to_the_next(asker, name):
    one, two = asker.open(), Asker(asker.node, asker.document).open()
    status, granted = one.post("/v1/lock/acquire", name=name)
    assert status == 200
    assert two.post("/v1/lock/acquire", name=name)[0] == 423
    assert two.post("/v1/lock/release", name=name)[1]["code"] == "NOTHELD"
    assert one.post("/v1/lock/release", name=name, token=granted["token"]) == (
        200,
        {"left": 0},
    )
    assert two.post("/v1/lock/acquire", name=name)[1]["token"] > granted["token"]
    assert two.post("/v1/session/close") == (200, {"released": 1})
    status, problem = two.post("/v1/lock/acquire", name=name)
    assert (status, problem["code"]) == (404, "NOSESSION")


def test_a_trace_goes_with_the_hold(asker, name):
    good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    one = asker.open()
    for given, shown in ((good, good), (good.upper(), None),
                         (good[:-1], None), ("x" * 4000, None),
                         ("00-%032d-00f067aa0ba902b7-01" % 0, None)):
        one.headers["traceparent"] = given
        assert one.post("/v1/lock/acquire", name=name)[0] == 200
        lock = one.get("/v1/locks/" + name)[1]
        assert lock["holders"][0].get("trace") == shown
        token = lock["holders"][0]["token"]

        def granted():
            """Each node answers its own history, which can be late."""
            return [event for event in one.get("/v1/history/" + name)[1]["events"]
                    if event["kind"] == "granted" and event["token"] == token]

        assert wait_until(granted, 30, "the grant")[0].get("trace") == shown
        # Other commands do not have it.
        assert one.post("/v1/lock/release", name=name)[0] == 200
    assert one.post("/v1/session/close")[0] == 200


def test_a_session_needs_its_header(asker):
    status, problem = asker.post("/v1/lock/acquire", name="a")
    assert status == 400 and "Hasp-Session" in problem["detail"]
    asker.headers["Hasp-Session"] = "7:00"
    assert asker.post("/v1/session/keep")[1]["code"] == "NOSESSION"
    for odd in ("", ":", "x:y", "7", "7:a b", ":::"):
        asker.headers["Hasp-Session"] = odd
        assert asker.post("/v1/session/keep")[0] in (400, 404)
        assert asker.post("/v1/lock/acquire", name="a")[0] in (400, 404)


def test_a_witness_ends_sessions_by_their_words(asker, cluster, name):
    words = ["%032x" % (time.monotonic_ns() + i) for i in range(3)]
    dead = [Asker(asker.node, cluster.document).open(
        ttl_ms=60000, will=hashlib.sha256(word.encode()).hexdigest())
        for word in words[:2]]
    living = asker.open(ttl_ms=60000)
    for one, has in ((dead[0], True), (living, False)):
        assert one.get("/v1/sessions/%d" % one.id)[1]["will"] is has
    assert dead[0].post("/v1/lock/acquire", name=name, req=1)[0] == 200
    batch = {str(one.id): word for one, word in zip(dead, words)}
    wrong = {str(dead[0].id): words[1], str(living.id): words[2], "7": words[2]}
    witness = Asker(asker.node, cluster.document)
    assert witness.post("/v1/session/died", words=wrong) == (200, {"ended": 0})
    assert witness.post("/v1/session/died", words=batch) == (200, {"ended": 2})
    assert witness.post("/v1/session/died", words=batch) == (200, {"ended": 0})
    events = witness.get("/v1/history/" + urllib.parse.quote(name, ""))[1]["events"]
    assert [e["message"] for e in events if e["kind"] == "expired"] == ["died"]
    assert dead[0].get("/v1/sessions/%d" % dead[0].id)[0] == 404
    for body in ({"words": ["x"]}, {"words": {"7": 7}}, {"words": {"7": "x"}},
                 {"words": {"x": words[0]}}, {"words": {}}, {},
                 {"words": {str(i): words[0] for i in range(1, 102)}}):
        assert witness.post("/v1/session/died", **body)[0] == 400, body
    assert living.post("/v1/session/close")[0] == 200


def test_a_number_counts_once(asker, cluster, name):
    asker.open()
    answers = [
        asker.at(node).post("/v1/lock/acquire", name=name, req=1)
        for node in cluster.nodes + [asker.node]
    ]
    for _, answer in answers:
        del answer["as_of"]  # The state that the answer is of.
    assert answers == [answers[0]] * 4 and answers[0][0] == 200
    assert asker.get("/v1/locks/" + name)[1]["holders"][0]["count"] == 1
    assert asker.post("/v1/lock/acquire", name=name + "x", req=1)[0] == 400
    asker.post("/v1/lock/release", name=name, req=2, acked=1)
    status, problem = asker.post("/v1/lock/acquire", name=name, req=1)
    assert (status, problem["code"]) == (409, "FORGOTTEN")


def test_a_number_counts_once_though_the_leader_dies():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        others = cluster.followers(leader)
        document = json.loads(raw(leader, "GET", "/v1/openapi.json")[2])
        asker = Asker(others[0], document).open(ttl_ms=60000)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            asked = []
            for i in range(1, 65):
                at = asker.at(others[i % 2])
                asked.append(
                    pool.submit(at.post, "/v1/lock/acquire", name="once", req=i)
                )
                if i == 32:
                    leader.kill()
            answers = [one.result()[0] for one in asked]
        assert 200 in answers and set(answers) <= {200, 503, 504}
        # Whatever the answer was, a request sent again under its number counts
        # once.
        for i in range(1, 65):
            wait_until(
                lambda i=i: asker.post("/v1/lock/acquire", name="once", req=i)[0]
                == 200,
                20,
                "it is acquired",
            )
        (holder,) = asker.get("/v1/locks/once")[1]["holders"]
        assert holder["count"] == 64


def test_a_redirecting_node_forwards_for_http():
    with Cluster(3, extra="[client]\nredirect = moved\n") as cluster:
        leader = cluster.leader()
        node = cluster.followers(leader)[0]
        document = json.loads(raw(node, "GET", "/v1/openapi.json")[2])
        assert Asker(node, document).open().post("/v1/lock/acquire", name="a")[0] == 200


# Waiting.


def queue(asker, name):
    return asker.get("/v1/locks/" + name)[1]["queue"]


def test_a_poll_is_answered_when_the_lock_comes(asker, name):
    one, two = asker.open(), Asker(asker.node, asker.document).open()
    one.post("/v1/lock/acquire", name=name)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(
            two.post, "/v1/lock/acquire", name=name, wait_ms=30000, req=1
        )
        wait_until(lambda: queue(asker, name), 10, "it waits")
        one.post("/v1/lock/release", name=name)
        status, granted = waiting.result()
    assert status == 200 and granted["token"] > 0


def test_a_poll_may_be_taken_up_again(asker, cluster, name):
    one, two = asker.open(), Asker(asker.node, asker.document).open()
    one.post("/v1/lock/acquire", name=name)
    wait = {"name": name, "wait_ms": 30000, "req": 1}
    place = None
    for node in cluster.nodes:
        answer = two.at(node).post("/v1/lock/acquire", poll_ms=0, **wait)
        assert answer == (202, {"waiting": True})
        (waiter,) = queue(asker, name)
        assert place in (None, waiter["index"])
        place = waiter["index"]
    one.post("/v1/lock/release", name=name)
    status, granted = two.post("/v1/lock/acquire", **wait)
    assert status == 200
    shown = asker.get("/v1/locks/" + name)[1]
    assert shown["holders"][0]["token"] == granted["token"]
    assert two.post("/v1/lock/acquire", name=name + "x", wait_ms=5, req=2)[0] == 200
    assert (
        one.post("/v1/lock/acquire", name=name + "x", wait_ms=5, req=1)[0] == 423
    )


def connections(node):
    with node.connect() as client:
        return client.do("CLIENT", "LIST").count(b"\n")


def descriptors(node):
    return len(os.listdir("/proc/%d/fd" % node.process.pid))


def test_who_goes_away_leaves_nothing_behind(asker, name):
    node = asker.node
    one, two = asker.open(), Asker(node, asker.document).open(ttl_ms=60000)
    one.post("/v1/lock/acquire", name=name)
    before = connections(node), descriptors(node)
    body = json.dumps({"name": name, "wait_ms": 60000, "req": 1}).encode()
    head = (
        "POST /v1/lock/acquire HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nHasp-Session: %s\r\n"
        "Content-Length: %d\r\n\r\n" % (two.headers["Hasp-Session"], len(body))
    ).encode()
    events = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    abrupt = struct.pack("ii", 1, 0)
    gone = []
    for i in range(20):
        client = socket.create_connection(("127.0.0.1", node.http_port), 10)
        client.sendall(events if i % 2 else head + body)
        if i % 4 < 2:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, abrupt)
        gone.append(client)
    wait_until(lambda: connections(node) == before[0] + 20, 10, "all are there")
    for client in gone:
        client.close()
    wait_until(lambda: connections(node) == before[0], 10, "all have gone")
    wait_until(lambda: descriptors(node) <= before[1], 10, "and their files")
    # But the place in the queue, which is the session's.
    assert len(queue(asker, name)) == 1
    assert two.post("/v1/lock/cancel", name=name) == (200, {"cancelled": 1})
    assert two.post("/v1/lock/acquire", name=name, wait_ms=60000, req=1)[0] == 423


def test_no_wait_is_lost_though_the_leader_dies():
    """Polls at all nodes for one lock: each gets it, one after the other."""
    count = 30
    with Cluster(3) as cluster:
        leader = cluster.leader()
        document = json.loads(raw(leader, "GET", "/v1/openapi.json")[2])
        holder = Asker(leader, document).open(ttl_ms=60000)
        holder.post("/v1/lock/acquire", name="one")
        inside, most = [], []
        lock = threading.Lock()
        others = cluster.followers(leader)

        def work(i):
            asker = Asker(others[i % 2], document).open(ttl_ms=60000)
            by = time.monotonic() + 60
            while time.monotonic() < by:
                answer = asker.post(
                    "/v1/lock/acquire", name="one", wait_ms=60000, req=1
                )
                if answer[0] == 200:
                    break
                assert answer[0] in (202, 503, 504), answer
                time.sleep(0.1)
            with lock:
                inside.append(answer[1]["token"])
                most.append(len(inside))
            with lock:
                inside.pop()
            while asker.post("/v1/lock/release", name="one", req=2)[0] != 200:
                time.sleep(0.1)
            return answer[1]["token"]

        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            asked = [pool.submit(work, i) for i in range(count)]
            wait_until(lambda: len(queue(holder, "one")) == count, 30, "all wait")
            leader.kill()
            freeing = holder.at(others[0])
            wait_until(
                lambda: freeing.post("/v1/lock/release", name="one", req=1)[0]
                == 200,
                30,
                "it is released",
            )
            tokens = [one.result() for one in asked]
        assert len(set(tokens)) == count and max(most) == 1


# Presence.


def test_requests_are_no_presence(asker, name):
    """With linger, neither the end of a request nor that of its connection
    brings the end of the session nearer; that of its stream does."""
    asker.open(ttl_ms=20000, linger_ms=50)
    asker.post("/v1/lock/acquire", name=name)
    for _ in range(3):
        asker.post("/v1/lock/acquire", name=name + "x")
    time.sleep(1.5)
    assert asker.get("/v1/sessions/%d" % asker.id)[1]["left_ms"] > 10000
    stream = http.client.HTTPConnection("127.0.0.1", asker.node.http_port, timeout=10)
    stream.request("GET", "/v1/session/stream", headers=asker.headers)
    reply = stream.getresponse()
    assert reply.status == 200 and reply.readline() == b": hasp\n"
    asker.post("/v1/session/keep")
    # A request beside it does not count as a second connection.
    asker.post("/v1/lock/acquire", name=name + "y")
    reply.close()
    stream.close()
    wait_until(
        lambda: asker.get("/v1/sessions/%d" % asker.id)[0] == 404, 5, "it has ended"
    )


# Events.


def events(reply, count):
    """The next events of a stream, as (kind, data)."""
    found, kind, known = [], None, None
    while len(found) < count:
        line = reply.readline().decode().rstrip("\n")
        if line.startswith("event: "):
            kind = line[7:]
        elif line.startswith("data: "):
            found.append((kind, json.loads(line[6:])))
            assert found[-1][1]["id"] == known
        elif line.startswith("id: "):
            known = line[4:]
        else:
            assert line in ("", ": hasp"), line
    return found


def test_events_are_told_in_order(asker, name, cluster):
    asker.open()
    stream = http.client.HTTPConnection("127.0.0.1", asker.node.http_port, timeout=10)
    with contextlib.closing(stream):
        stream.request("GET", "/v1/events?prefix=" + urllib.parse.quote(name))
        reply = stream.getresponse()
        assert reply.headers["Content-Type"] == "text/event-stream"
        assert reply.readline() == b": hasp\n"
        for i in range(3):
            asker.post("/v1/lock/acquire", name="other")
            token = asker.post("/v1/lock/acquire", name=name)[1]["token"]
            asker.post("/v1/lock/please", name=name, message="<img onerror>\n")
            asker.post("/v1/lock/release", name=name)
            seen = events(reply, 3)
            assert [kind for kind, _ in seen] == ["granted", "please", "released"]
            schema = dict(
                cluster.document["components"]["schemas"]["Event"],
                components=cluster.document["components"],
            )
            for kind, event in seen:
                jsonschema.Draft202012Validator(strict(schema)).validate(event)
                assert event["kind"] == kind and event["lock"] == name
            assert seen[0][1]["token"] == token
            assert seen[1][1]["message"] == "<img onerror>\n"


def test_who_comes_back_is_told_what_he_has_missed(asker, name, cluster):
    def follow(node, count, headers=(), **query):
        target = "/v1/events?" + urllib.parse.urlencode(dict(query, prefix=name))
        stream = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
        with contextlib.closing(stream):
            stream.request("GET", target, headers=dict(headers))
            return events(stream.getresponse(), count)

    asker.open()
    asker.post("/v1/lock/acquire", name=name)
    asker.post("/v1/lock/release", name=name)
    cluster.converged()
    told = asker.get("/v1/history/" + name)[1]["events"]
    assert [one["kind"] for one in told] == ["granted", "released"]
    first, last = told[0]["id"], told[1]["id"]
    for node in cluster.nodes:
        assert asker.at(node).get("/v1/history/" + name, count=1)[1]["events"][0][
            "id"
        ] == last
        for missed in (
            follow(node, 1, {"Last-Event-ID": first}),
            follow(node, 1, **{"from": first}),
        ):
            assert [(kind, one["id"]) for kind, one in missed] == [("released", last)]
        assert follow(node, 1, {"Last-Event-ID": "1-1-1"})[0][0] == "gap"
    status, problem = asker.get("/v1/events", **{"from": "x"})
    assert status == 400 and "life-index" in problem["detail"]


def test_what_is_told_again_is_told_whole(cluster, name):
    """However much it is as JSON: else who comes back would be cut off for ever."""
    node = cluster.leader()
    asker = Asker(node, cluster.document).open(ttl_ms=60000)
    asker.post("/v1/lock/acquire", name=name)
    first = asker.get("/v1/history/" + name)[1]["events"][0]["id"]
    with node.connect() as client:
        for _ in range(200):
            client.do("LOCK.PLEASE", name, "MESSAGE", b"\x01" * 1200)
    stream = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=10)
    with contextlib.closing(stream):
        query = urllib.parse.urlencode({"prefix": name, "from": first})
        stream.request("GET", "/v1/events?" + query)
        told = events(stream.getresponse(), 200)
    assert {kind for kind, _ in told} == {"please"}
    assert all(len(one["message"]) == 1200 for _, one in told)


def ended_of(sockets):
    """How many of these streams have ended, once one has."""

    def count():
        ended = 0
        for one in sockets:
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while one.recv(4096) != b"":
                    pass
                ended += 1
        return ended

    return wait_until(count, 10, "a stream ends")


def test_streams_are_bounded():
    limit = 256
    with Cluster(1) as cluster, contextlib.ExitStack() as stack:
        node = cluster.leader()
        request = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        answers, sockets = [], []
        for i in range(limit + 4):
            # One address has a quarter of the connections.
            one = stack.enter_context(socket.socket())
            one.bind(("127.0.%d.1" % (i % 8), 0))
            one.connect(("127.0.0.1", node.http_port))
            one.settimeout(10)
            one.sendall(request)
            answers.append(one.recv(12))
            sockets.append(one)
        assert answers == [b"HTTP/1.1 200"] * limit + [b"HTTP/1.1 503"] * 4
        # Another address gets one, and one of those with the most ends.
        one = stack.enter_context(socket.socket())
        one.bind(("127.0.9.1", 0))
        one.connect(("127.0.0.1", node.http_port))
        one.settimeout(10)
        one.sendall(request)
        assert one.recv(12) == b"HTTP/1.1 200"
        assert ended_of(sockets[:limit]) == 1
        assert raw(node, "GET", "/v1/status")[0] == 200
        stack.close()
        wait_until(
            lambda: raw(node, "GET", "/v1/events?from=x")[0] == 400, 10, "there is room"
        )


def test_one_address_has_a_quarter_of_the_streams():
    share = 64
    with Cluster(1) as cluster, contextlib.ExitStack() as stack:
        node = cluster.leader()

        def stream(address):
            one = stack.enter_context(socket.socket())
            one.bind((address, 0))
            one.connect(("127.0.0.1", node.http_port))
            one.settimeout(10)
            one.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            return one.recv(4096)

        for _ in range(share):
            assert stream("127.0.0.1").startswith(b"HTTP/1.1 200")
        refused = stream("127.0.0.1")
        assert refused.startswith(b"HTTP/1.1 503")
        assert b"64 of 64 streams from one address" in refused
        assert stream("127.0.1.1").startswith(b"HTTP/1.1 200")


def test_a_stream_that_nobody_reads_is_closed(cluster, name):
    node = cluster.leader()
    stuck = socket.socket()
    stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with contextlib.closing(stuck), node.connect() as client:
        stuck.connect(("127.0.0.1", node.http_port))
        stuck.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        address = b"addr=127.0.0.1:%d " % stuck.getsockname()[1]

        def is_open():
            return address in client.do("CLIENT", "LIST")

        wait_until(is_open, STALL_S, "the stream is open")
        asker = Asker(node, cluster.document).open(ttl_ms=60000)
        assert asker.post("/v1/lock/acquire", name=name)[0] == 200
        message = "m" * 4000

        # The kernel's buffers take some megabytes first; how many differs.
        def is_closed():
            for _ in range(100):
                client.send("LOCK.PLEASE", name, "MESSAGE", message)
                assert client.receive() == 1
            return not is_open()

        wait_until(is_closed, STALL_S, "it is closed")


# Leases.


def test_a_lease_is_of_one_holder(asker, cluster, name):
    path = "/v1/lease/" + name
    status, taken = asker.put(path, holder="backup", ttl_ms=20000)
    assert status == 200 and taken["trust_ms"] == 20000
    # The same name from another host: the owner of the lease cannot be known.
    for node in cluster.nodes:
        status, problem = asker.at(node).put(path, holder="backup", ttl_ms=20000)
        assert (status, problem["code"]) == (423, "HELD")
        assert problem["yours"] is True and problem["token"] == taken["token"]
    status, problem = asker.put(path, holder="b", ttl_ms=20000)
    assert status == 423 and problem["yours"] is False
    assert problem["holder"] == "backup" and problem["earliest_ms"] > 15000
    # A refusal moves nothing.
    before = asker.get("/v1/locks/" + name)[1]["holders"][0]["lease_left_ms"]
    assert asker.put(path, holder="backup", ttl_ms=40000)[0] == 423
    assert asker.put(path, holder="b", ttl_ms=40000, renew=True)[0] == 423
    after = asker.get("/v1/locks/" + name)[1]["holders"][0]["lease_left_ms"]
    assert after <= before
    assert asker.put(path, holder="backup", ttl_ms=40000, renew=True) == (
        200,
        {"token": taken["token"], "trust_ms": 40000},
    )
    assert asker.get("/v1/locks/" + name)[1]["holders"][0]["lease_left_ms"] > 40000
    assert asker.ask("DELETE", path + "?holder=b")[1]["code"] == "NOTHELD"
    assert asker.ask("DELETE", path + "?holder=backup") == (200, {"released": 1})
    assert asker.ask("DELETE", path + "?holder=backup")[0] == 409
    status, problem = asker.put(path, holder="backup", ttl_ms=20000, renew=True)
    assert status == 423 and "yours" not in problem


def test_two_that_take_a_lease_at_once(cluster, name):
    path = "/v1/lease/" + name
    for i in range(10):
        askers = [Asker(node, cluster.document) for node in cluster.nodes * 3]
        with concurrent.futures.ThreadPoolExecutor(9) as pool:
            answers = list(
                pool.map(
                    lambda one: one.put("%s%d" % (path, i), holder="same", ttl_ms=9000),
                    askers,
                )
            )
        assert sorted(status for status, _ in answers) == [200] + 8 * [423]


def test_a_lease_excludes_what_has_no_end(asker, name):
    asker.open(durable=True, labels={"reason": "incident 12"})
    asker.post("/v1/lock/acquire", name=name)
    status, problem = asker.put("/v1/lease/" + name, holder="a", ttl_ms=5000)
    assert status == 423 and "earliest_ms" not in problem
    holder = asker.get("/v1/locks/" + name)[1]["holders"][0]
    assert holder["reason"] == "incident 12" and holder["lease_left_ms"] is None
    assert asker.post("/v1/lock/break", name=name, after_ms=0)[0] == 400
    assert asker.post("/v1/lock/break", name=name, after_ms=1) == (
        200,
        {"announced": 1},
    )
    wait_until(
        lambda: asker.put("/v1/lease/" + name, holder="a", ttl_ms=5000)[0] == 200,
        10,
        "the lease is taken",
    )
    ended = asker.post("/v1/session/keep")[1]["ended"]
    assert [one["reason"] for one in ended] == ["broken"]
    assert asker.post("/v1/session/close") == (200, {"released": 0})
    status, problem = asker.post("/v1/session/open", durable=True, ttl_ms=1000)
    assert (status, problem["code"]) == (400, "BADARG")


def test_a_lease_excludes_a_session(asker, name):
    asker.open()
    asker.post("/v1/lock/acquire", name=name)
    status, problem = asker.put("/v1/lease/" + name, holder="a", ttl_ms=5000)
    assert status == 423 and problem["yours"] is False
    asker.post("/v1/lock/release", name=name)
    assert asker.put("/v1/lease/" + name, holder="a", ttl_ms=5000)[0] == 200
    assert asker.post("/v1/lock/acquire", name=name)[0] == 423
