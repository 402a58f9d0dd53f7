# SPDX-License-Identifier: MIT
"""The page at "/", in a headless Chromium: what docs/page.md promises.

Pictures of it go to build/screenshots. axe-core is fetched where npm has a
registry; without it the checks of names, heads and contrast here are all."""

import base64
import contextlib
import hashlib
import http.client
import os
import re
import subprocess
import tempfile
import threading
import warnings
from urllib.parse import unquote_to_bytes

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from bounded import bounded_to
from cluster import ROOT, Cluster, ReplyError, Session, wait_until

HASP = os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))
SOURCE = os.path.join(ROOT, "http", "index.html")
PICTURES = os.path.join(ROOT, "build", "screenshots")
PATIENCE = 40
bounded = bounded_to(300)  # A browser takes its time.
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync
--hide-scrollbars --disable-dev-shm-usage --disable-extensions""".split()
HOSTILE = {
    "markup": b"<img src=x onerror=document.title='broken'>",
    "bidi": "evil\u202egnp.exe".encode(),
    "bytes": b"caf\xe9/\xff\x00/%41",
    "long": b"x" * 511,
    "quotes": b"'\";$(id)`\\",
}
AXE = "axe-core@4.10.2"


def source():
    with open(SOURCE, encoding="utf-8") as file:
        return file.read()


# --- The browser ------------------------------------------------------------


class Page:
    def __init__(self, folder):
        options = webdriver.ChromeOptions()
        for flag in FLAGS + ["--user-data-dir=" + folder]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(
            service=Service("/usr/bin/chromedriver"), options=options
        )
        self.run = self.driver.execute_script

    def look(self, width=1360, scheme="light"):
        """How wide the window is, and what the reader prefers."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
        )
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        self.driver.execute_cdp_cmd(
            "Emulation.setEmulatedMedia", {"features": wanted}
        )

    def open(self, node, fragment=""):
        self.driver.get("about:blank")
        self.driver.get("http://127.0.0.1:%d/%s" % (node.http_port, fragment))
        self.look()

    def text(self, selector):
        return self.run(
            "const e = document.querySelector(arguments[0]);"
            "return e && e.offsetParent ? e.textContent : ''",
            selector,
        )

    def wait(self, condition, what):
        def holds():
            with contextlib.suppress(StaleElementReferenceException):
                return condition()

        return wait_until(holds, PATIENCE, what)

    def wait_text(self, selector, pattern):
        try:
            self.wait(lambda: re.search(pattern, self.text(selector), re.S), pattern)
        except AssertionError:
            raise AssertionError("%r: %r" % (pattern, self.text(selector))) from None

    def focused(self):
        return self.run(
            "const e = document.activeElement;"
            "return e.getAttribute('aria-label') || e.textContent || e.id"
        )

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def tab_to(self, pattern, presses=120):
        for _ in range(presses):
            self.press(Keys.TAB)
            if re.search(pattern, self.focused()):
                return
        raise AssertionError("no key leads to %r" % pattern)

    def picture(self, name):
        os.makedirs(PICTURES, exist_ok=True)
        size = self.run(
            "return [innerWidth, document.documentElement.scrollHeight,"
            " document.documentElement.scrollWidth]"
        )
        assert size[2] <= size[0], "the page is wider than its window"
        clip = {"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1}
        shot = self.driver.execute_cdp_cmd(
            "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
        )
        with open(os.path.join(PICTURES, name + ".png"), "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def errors(self, besides="$^"):
        """The console's complaints since the last call."""
        return [
            line["message"]
            for line in self.driver.get_log("browser")
            if line["level"] == "SEVERE" and not re.search(besides, line["message"])
        ]


@pytest.fixture(scope="module")
def browser():
    with tempfile.TemporaryDirectory(prefix="hasp-page-") as folder:
        one = Page(folder)
        yield one
        one.driver.quit()


@pytest.fixture(name="page")
def page_(browser):
    browser.errors()
    yield browser
    browser.driver.get("about:blank")


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as nodes:
        nodes.leader()
        yield nodes


class Locker:
    """A session at one node, with a lease that outlives the test."""

    def __init__(self, node, name, ttl=600000):
        self.client = node.connect()
        self.session = Session(self.client, ttl=ttl, name=name)
        self.do = self.client.do
        self.send = self.client.send


@contextlib.contextmanager
def kept(node, session):
    """Its lease does not end until it is refused, however slow the browser."""
    over = threading.Event()

    def keep():
        with node.connect() as client, contextlib.suppress(ReplyError):
            client.do("SESSION.ATTACH", session.id, session.secret)
            while not over.wait(1):
                client.do("SESSION.KEEP")

    thread = threading.Thread(target=keep)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)


@contextlib.contextmanager
def lockers(node, *names, **options):
    found = [Locker(node, name, **options) for name in names]
    try:
        yield found
    finally:
        for one in found:
            one.client.close()
        with node.connect() as client:
            for one in found:
                with contextlib.suppress(ReplyError):
                    one.session.attach(client)
                    client.do("SESSION.CLOSE")


# --- Without a browser ------------------------------------------------------


def test_it_is_served_whole_small_and_with_a_strict_policy(cluster):
    node = cluster.nodes[0]
    with contextlib.closing(
        http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=20)
    ) as one:
        one.request("GET", "/")
        reply = one.getresponse()
        body = reply.read()
    assert (reply.status, body.decode()) == (200, source())
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert len(body) <= 60 * 1024
    policy = reply.headers["Content-Security-Policy"].split("; ")
    for tag in ("script", "style"):
        (inside,) = re.findall(rf"<{tag}>(.*?)</{tag}>".encode(), body, re.S)
        digest = base64.b64encode(hashlib.sha256(inside).digest()).decode()
        assert "%s-src 'sha256-%s'" % (tag, digest) in policy
    for rule in (
        "default-src 'none'",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    ):
        assert rule in policy


def test_its_script_makes_no_markup_and_fetches_nothing_from_elsewhere():
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval\(",
                         source())
    assert not re.search(r"(src|href)=\"https?:", source())


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = [
        c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts
    ]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_all_text_has_the_contrast_that_people_need():
    """WCAG 2.2, 1.4.3: 4.5 to 1."""
    light, dark = [
        dict(re.findall(r"--([\w-]+): (#\w{6})", block))
        for block in re.findall(r":root \{(.*?)\}", source(), re.S)
    ]
    assert len(light) >= 13 and light.keys() == dark.keys()
    pairs = [(ink, on) for ink in ("ink", "soft", "accent") for on in
             ("paper", "card", "wash")]
    pairs += [(word, on) for word in ("good", "warn", "bad") for on in
              ("paper", "card", word + "-wash")]
    for scheme in (light, dark):
        for ink, on in pairs + [("card", "bad")]:
            high, low = sorted(
                (luminance(scheme[ink]), luminance(scheme[on])), reverse=True
            )
            assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, on, scheme[ink])


# --- What is shown ----------------------------------------------------------


@pytest.fixture(scope="module")
def axe():
    """The text of axe-core, or None."""
    with tempfile.TemporaryDirectory(prefix="hasp-axe-") as folder:
        try:
            done = subprocess.run(
                ["npm", "pack", "--silent", "--fetch-retries=0", AXE],
                cwd=folder, capture_output=True, text=True, timeout=60,
            )
            subprocess.run(
                ["tar", "xzf", done.stdout.strip(), "package/axe.min.js"],
                cwd=folder, check=True, capture_output=True,
            )
            with open(os.path.join(folder, "package", "axe.min.js")) as file:
                return file.read()
        except (OSError, subprocess.SubprocessError):
            warnings.warn("npm has no registry to fetch axe-core from")
            return None


def check_access(page, axe):
    """Names, heads, one main part; and all that axe knows."""
    assert page.run(
        """const nameless = [...document.querySelectorAll('button, input, a, section')]
             .filter(e => e.offsetParent && !(e.getAttribute('aria-label') ||
               e.textContent.trim() || e.labels && e.labels.length ||
               document.getElementById(e.getAttribute('aria-labelledby'))));
           const heads = [...document.querySelectorAll('thead th')]
             .filter(e => e.scope !== 'col' || !e.textContent);
           return [nameless.map(e => e.outerHTML), heads.length,
             document.querySelectorAll('main').length,
             document.querySelectorAll('h1').length,
             document.documentElement.lang]"""
    ) == [[], 0, 1, 1, "en"]
    if axe is not None:
        # The page's own policy would refuse the script; a debugger may run it.
        page.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
        found = page.driver.execute_async_script(
            "const done = arguments[0]; axe.run().then(r => done(r.violations.map("
            "v => v.id + ': ' + v.nodes.map(n => n.html.slice(0, 200)).join(' ')"
            ")), e => done(['' + e]))"
        )
        assert found == []


def test_it_shows_a_busy_cluster_in_both_schemes_and_on_a_small_screen(
    cluster, page, axe
):
    leader = cluster.leader()
    names = ["migrate@db-1", "api-1", "api-2", "billing-1", "billing-2", "train-1"]
    with lockers(leader, *names) as (db, api, api2, billing, billing2, train):
        db.do("LOCK.ACQUIRE", "schema/orders", "DELAY", 5000, "VALUE", "release 42")
        api.do("LOCK.ACQUIRE", "orders/eu")
        train.do("LOCK.ACQUIRE", "gpu", "SLOTS", 2)
        for waiter, lock in ((api, "schema/orders"), (api2, "schema/orders"),
                             (billing, "orders/eu"), (billing2, "orders/eu")):
            waiter.send("LOCK.ACQUIRE", lock, "WAIT", "FOREVER")
        page.open(cluster.followers(leader)[0])
        page.wait_text("#sentence", r"Serving\. Node %d leads" % leader.id)
        page.wait_text("#hot", "schema/orders.*gpu|gpu.*schema/orders")
        page.wait_text("#waits", "orders/eu")
        page.wait_text("#hot", "Held by.*User.*anyone")
        page.wait_text("#waits", "Who.*User.*anyone")
        page.wait_text("#graph-note", "1 root blocker · no circle · 4 waits")
        page.wait_text("#picture", "root, blocks 4")
        page.wait_text("#edges", r"billing-1orders/eu")
        page.wait_text("#session-table", "migrate@db-1")
        page.wait_text("#nodes", "leader.*up")
        page.wait_text("#f-waits", "^4$")
        api2.client.close()  # An event, while somebody looks.
        train.do("LOCK.RELEASE", "gpu")
        page.wait_text("#event-table", "released.*gpu")
        for scheme in ("light", "dark"):
            page.look(scheme=scheme)
            check_access(page, axe)
            page.picture("cluster-" + scheme)
        page.open(leader, "#lock=schema/orders")
        page.wait_text("#why", r"is held, exclusive, by migrate@db-1.*: release 42")
        page.wait_text("#why", r"5\.0s of lock delay")
        page.wait_text("#holders", r"of 10m00s.*lease 10m00s, delay 5\.0s")
        page.wait_text("#queue", "1.*api-1.*anyone.*2.*api-2.*anyone")
        page.wait_text("#holders", "migrate@db-1.*anyone")
        page.wait_text("#history", "queued.*granted")
        page.wait_text("#commands", "hasp why schema/orders")
        page.wait_text("#session-table", "api-1")
        for scheme in ("light", "dark"):
            page.look(scheme=scheme)
            check_access(page, axe)
            page.picture("lock-" + scheme)
        page.look(width=360)
        page.picture("small")
    assert page.errors() == []


def test_a_session_that_ends_with_its_process_is_marked(cluster, page):
    leader = cluster.leader()
    with leader.connect() as client, lockers(leader, "plain") as _:
        client.do("SESSION.OPEN", "TTL", 60000, "NAME", "watched",
                  "WILL", "ab" * 32)
        page.open(leader)
        page.wait_text("#session-table", "If it dies")
        page.wait_text("#session-table", "watched.*ends at once")
        table = page.text("#session-table")
        assert table.count("ends at once") == 1
        client.do("SESSION.CLOSE")
    assert page.errors() == []


def test_a_hold_without_end_is_shown_as_one(cluster, page):
    leader = cluster.leader()
    with lockers(leader, "ann", ttl="NONE") as (ann,):
        ann.do("LOCK.ACQUIRE", "freeze")
        page.open(leader, "#lock=freeze")
        page.wait_text("#why", "it has no lease.*does not end by itself")
        page.wait_text("#holders", "no lease, no end.*until it is given back or broken")
        page.wait_text("#session-table", "no lease, no end")
        page.wait_text("#commands", "hasp break --after 60s --reason 'stuck' freeze")
        page.run("document.querySelector('#holders button').click()")
        page.wait_text("#r-will", "It has no lease: it ends at once")
        page.wait_text("#r-when", "‘freeze’ can pass on at once")
        page.press("ann", Keys.ENTER)
        page.wait_text("#note", "is blacklisted")
        page.wait_text("#why", "'freeze' is not held")
    assert page.errors() == []


def test_a_holder_is_asked_and_a_hold_without_end_is_broken_by_keyboard(cluster, page):
    leader = cluster.leader()
    with lockers(leader, "bea", ttl="NONE") as (bea,), lockers(leader, "dan") as (dan,):
        bea.do("LOCK.ACQUIRE", "deploys")
        dan.send("LOCK.ACQUIRE", "deploys", "WAIT", "FOREVER")
        page.open(cluster.followers(leader)[0], "#lock=deploys")
        page.wait_text("#acts", "Ask to release it…")
        page.tab_to("^Ask to release it…")
        page.press(Keys.ENTER)
        page.wait_text("#a-what", "nothing is taken from them")
        assert page.focused() == "a-text" and not page.text("#a-break")
        page.press("still needed?", Keys.ENTER)
        page.wait_text("#note", "1 holder was notified")
        assert page.run("return document.getElementById('note').className") == "done"
        page.wait_text("#history", "still needed?")

        page.tab_to("^Break…")
        page.press(Keys.ENTER)
        page.wait_text("#a-label", "Type deploys, its name, to confirm")
        page.picture("break")
        page.press("gone for the day", Keys.TAB, "1")
        page.press(Keys.TAB, "deploy", Keys.ENTER)
        assert page.run("return document.getElementById('a-do').disabled")
        page.press("s", Keys.ENTER)
        page.wait_text("#note", "It will be broken in 1")
        assert dan.client.receive() > 0
        page.wait_text("#why", "is held, exclusive, by dan")
        page.wait_text("#history", "gone for the day")
        # A hold with a lease is not broken.
        page.wait(lambda: "Break…" not in page.text("#acts"), "no button")
        assert "Ask to release it…" in page.text("#acts")
    assert page.errors() == []


def test_hostile_names_are_names(cluster, page):
    leader = cluster.leader()
    with lockers(leader, HOSTILE["markup"]) as (one,):
        for name in HOSTILE.values():
            one.do("LOCK.ACQUIRE", name)
        page.open(leader)
        page.wait_text("#hot", "<img src=x.*")
        for shown in ("evil\\\\u202egnp", r"caf\\xe9/\\xff\\x00/%41", "x{511}"):
            page.wait_text("#hot", shown)
        links = page.run(
            "return [...document.querySelectorAll('#hot td:first-child a')]"
            ".map(a => a.hash)"
        )
        names = {unquote_to_bytes(link.removeprefix("#lock=")): link for link in links}
        assert names.keys() >= set(HOSTILE.values())
        for link in [names[name] for name in HOSTILE.values()]:
            page.run("location.hash = arguments[0]", link)
            shown = page.run("return document.querySelector('#lock-name').textContent")
            page.wait_text("#why", "is held, exclusive, by <img")
            page.wait_text("#commands", "hasp why ")
            assert shown in page.text("#hot")
            page.wait_text("#history", "granted")
        copied = page.text("#commands code")  # The last one's.
        assert copied == r"""hasp why ''\''";$(id)`\'"""
        assert page.run("return document.querySelectorAll('img').length") == 0
        assert page.run("return document.title") == "hasp"
        # For a name that cannot be typed, the number is requested.
        page.wait_text("#holders", "Blacklist")
        page.run("document.querySelector('#holders button').click()")
        page.wait_text("#r-label", r"Type %d, its number" % one.session.id)
        page.picture("hostile")
        page.press(Keys.ESCAPE)
    assert page.errors() == []


def test_ten_thousand_locks_are_no_burden(cluster, page):
    leader = cluster.leader()
    with lockers(leader, "bulk") as (bulk,):
        for i in range(0, 10000, 50):
            names = ["bulk/%05d" % (i + k) for k in range(50)]
            assert len(bulk.do("LOCK.MACQUIRE", 50, *names)) == 50
        page.open(leader)
        page.wait_text("#f-locks", "^10,00")
        page.wait_text("#hot", "bulk/0")
        rows = "return document.querySelectorAll('#hot tbody tr').length"
        assert page.run(rows) == 50
        assert page.run("return document.querySelectorAll('*').length") < 4000
        page.driver.find_element(By.ID, "prefix").send_keys("bulk/09999")
        page.wait(
            lambda: page.run(rows) <= 1,
            "the prefix narrows it",
        )
        page.driver.find_element(By.ID, "prefix").send_keys(Keys.ENTER)
        page.wait_text("#why", "'bulk/09999' is held, exclusive, by bulk")
    assert page.errors() == []


def test_a_stuck_lock_is_found_and_its_session_blacklisted_by_keyboard(cluster, page):
    leader = cluster.leader()
    with lockers(leader, "stuck-job", ttl=6000) as (holder,), lockers(
        leader, "next-job"
    ) as (waiter,), kept(leader, holder.session):
        holder.do("LOCK.ACQUIRE", "nightly")
        waiter.send("LOCK.ACQUIRE", "nightly", "WAIT", "FOREVER")
        page.open(cluster.followers(leader)[0])
        page.wait_text("#waits", "nightly")
        page.tab_to("^nightly$")
        page.press(Keys.ENTER)
        page.wait(
            lambda: "by stuck-job" in page.text("#why")
            and page.text("#holders button"),
            "why it is stuck",
        )
        page.tab_to("^Blacklist session %d, stuck-job" % holder.session.id)
        page.press(Keys.ENTER)
        page.wait_text("#r-will", "holds 1 lock and waits for 0")
        assert "can pass on in" in page.text("#r-when")
        assert page.focused() == "r-name"
        page.picture("blacklist")
        page.press("stuck-jo", Keys.ENTER)
        assert page.run("return document.getElementById('r-do').disabled")
        page.press("b", Keys.TAB, "stuck since noon", Keys.ENTER)
        page.wait_text("#note", "is blacklisted")
        assert waiter.client.receive() > 0
        page.wait_text("#why", "is held, exclusive, by next-job")
        page.wait_text("#history", "granted.*expired.*blacklisted.*stuck since noon")
    assert page.errors() == []


def test_without_the_right_it_is_read_only_and_says_so(cluster, page, tmp_path):
    leader = cluster.leader()
    secret = str(tmp_path / "secret")

    def admin(*words):
        done = subprocess.run(
            [HASP, "--socket", leader.dir] + list(words),
            capture_output=True, text=True, timeout=30,
        )
        assert done.returncode == 0, done.stderr

    admin("user", "add", "eye", "--role", "observer")
    admin("secret", "add", "eye", "--file", secret)
    with open(secret) as file:
        word = file.read().strip()
    with lockers(leader, "somebody") as (one,):
        one.do("LOCK.ACQUIRE", "held")
        page.open(leader)
        page.wait_text("#session-table", "Blacklist")
        admin("access", "required", "--force")
        try:
            page.wait_text("#sentence", "Sign in:")
            assert not page.text("#hot") and not page.text("#session-table")
            page.driver.find_element(By.ID, "sign").click()
            page.press("hasp1.eye." + "a" * 43, Keys.ENTER)
            page.wait_text("#e-wrong", "Not signed in: ")
            page.picture("sign-in")
            page.press(word, Keys.ENTER)
            page.wait_text("#who", "User eye.*read-only: no right ‘blacklist’")
            page.wait_text("#hot", "held")
            page.wait_text("#session-table", "somebody")
            assert not page.text("#session-table button")
            page.run("location.hash = 'lock=held'")
            page.wait_text("#holders", "somebody")
            assert not page.text("#acts")
            page.driver.refresh()  # It stays signed in ...
            page.wait_text("#hot", "held")
            page.run("document.getElementById('sign').click()")
            page.wait_text("#sentence", "Sign in:")  # ... until a sign-in.
            assert page.run("return sessionStorage.length") == 0
        finally:
            admin("access", "open")
    # The browser itself logs the 401.
    assert page.errors("401") == []


# --- A node falls -----------------------------------------------------------


def test_it_tells_that_the_leader_is_gone_and_then_the_majority(page):
    with Cluster(3) as nodes:
        leader = nodes.leader()
        watched, other = nodes.followers(leader)
        with lockers(watched, "holder") as (one,):
            one.do("LOCK.ACQUIRE", "kept")
            page.open(watched)
            page.wait_text("#sentence", "Serving. Node %d leads" % leader.id)
            leader.kill()
            page.wait_text(
                "#sentence",
                "Serving, but node %d is not heard.*no further one" % leader.id,
            )
            page.wait_text("#nodes", "not heard")
            other.kill()
            page.wait_text("#sentence", "No majority: 1 of 3 answers.*start node")
            page.wait_text("#locks .head", r"as of \d\d:")
            page.picture("no-majority")
            leader.start()
            page.wait_text("#sentence", "Serving, but")
            page.wait_text("#hot", "kept")
            other.start()
            page.wait_text("#sentence", r"Serving\. Node")
            assert page.run("return !document.querySelector('.stale')")
    # The browser itself notes each 503.
    assert page.errors("503|ERR_") == []
