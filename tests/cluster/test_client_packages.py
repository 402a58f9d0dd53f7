# SPDX-License-Identifier: MIT
"""The packages of `make clients` can be published, and be installed offline as
each language does it."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import xml.etree.ElementTree as ElementTree
import zipfile

import pytest

from cluster import ROOT

SITE = "locks.test.example"
GROUP = "example.test.locks"
with open(os.path.join(ROOT, "Makefile")) as makefile:
    VERSION = re.search(r"^VERSION := (\S+)", makefile.read(), re.M).group(1)


def run(*words, folder=None, **env):
    done = subprocess.run(
        words, cwd=folder, env=dict(os.environ, **env), timeout=300,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def packed(language, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp(language))
    run("make", "-s", "client-" + language, "CLIENTS_TO=" + folder,
        "SITE=" + SITE, folder=ROOT)
    return folder


def licence():
    with open(os.path.join(ROOT, "LICENSE")) as file:
        return file.read()


def test_all_have_the_version_of_the_makefile():
    for path, pattern in (
        ("clients/python/pyproject.toml", r'^version = "(.*)"'),
        ("clients/node/package.json", r'"version": "(.*)"'),
        ("clients/java/pom.xml", r"<version>(.*)</version>"),
        ("debian/changelog", r"^hasp \((.*)\)"),
    ):
        with open(os.path.join(ROOT, path)) as file:
            found = re.search(pattern, file.read(), re.M)
        assert found and found.group(1) == VERSION, path


def test_python(tmp_path_factory, tmp_path):
    folder = packed("python", tmp_path_factory)
    wheel = os.path.join(folder, "hasp-%s-py3-none-any.whl" % VERSION)
    with zipfile.ZipFile(wheel) as file:
        info = "hasp-%s.dist-info/" % VERSION
        told = file.read(info + "METADATA").decode()
        assert file.read(info + "LICENSE").decode() == licence()
        assert "hasp/py.typed" in file.namelist()
    for part in (r"^Author: The hasp authors$",
                 r"^License: MIT$",
                 r"^Project-URL: Homepage, https://%s/" % re.escape(SITE),
                 r"^Classifier: Typing :: Typed$",
                 r"^Description-Content-Type: text/markdown$"):
        assert re.search(part, told, re.M), part
    source = os.path.join(folder, "hasp-%s.tar.gz" % VERSION)
    with tarfile.open(source) as file:
        names = file.getnames()
    for name in ("LICENSE", "README.md", "hasp/py.typed", "pyproject.toml"):
        assert "hasp-%s/%s" % (VERSION, name) in names
    for package in (wheel, source):
        target = str(tmp_path / os.path.basename(package))
        run("/usr/bin/python3", "-m", "pip", "-q", "install", "--no-index",
            "--no-build-isolation", "--no-deps", "--target", target, package)
        told = run("/usr/bin/python3", "-c",
                   "import hasp; print(hasp.__file__)", PYTHONPATH=target,
                   folder="/")
        assert told.startswith(target)


@pytest.mark.skipif(shutil.which("npm") is None, reason="no npm")
def test_node(tmp_path_factory, tmp_path):
    folder = packed("node", tmp_path_factory)
    archive = os.path.join(folder, "hasp-%s.tgz" % VERSION)
    with tarfile.open(archive) as file:
        assert file.extractfile("package/LICENSE").read().decode() == licence()
        told = json.load(file.extractfile("package/package.json"))
        names = file.getnames()
    assert SITE in told["homepage"] and SITE in told["repository"]["url"]
    assert told["author"] and told["publishConfig"]["provenance"] is True
    entry = told["exports"]["."]
    for path in (entry["types"], entry["default"]):
        assert os.path.normpath("package/" + path) in names
    (tmp_path / "package.json").write_text('{"private": true}')
    run("npm", "install", "--silent", "--offline", "--no-audit", archive,
        folder=str(tmp_path))
    for kind, program in (
        ("cjs", "const {Session} = require('hasp');"),
        ("mjs", "import {Session} from 'hasp'; import hasp from 'hasp';"
                "if (hasp.Session !== Session) throw new Error('two');"),
    ):
        path = tmp_path / ("program." + kind)
        path.write_text(program + "console.log(typeof Session);")
        assert run("node", str(path)) == "function\n"
    refused = subprocess.run(
        ["node", "-e", "require('hasp/lib/resp')"], cwd=str(tmp_path),
        capture_output=True, text=True, timeout=60)
    assert "ERR_PACKAGE_PATH_NOT_EXPORTED" in refused.stderr


@pytest.mark.skipif(shutil.which("go") is None, reason="no Go")
def test_go(tmp_path_factory, tmp_path):
    folder = packed("go", tmp_path_factory)
    module = SITE + "/hasp"
    env = {
        "GOPROXY": "file://%s/go-proxy" % folder, "GONOSUMDB": "*",
        "GOFLAGS": "-mod=mod -modcacherw", "GOTOOLCHAIN": "local",
        "GOMODCACHE": str(tmp_path / "cache"),
        "GOCACHE": str(tmp_path / "build"),
    }
    program = tmp_path / "program"
    program.mkdir()
    (program / "go.mod").write_text("module program\ngo 1.19\n")
    (program / "main.go").write_text(
        'package main\n\nimport (\n\t"fmt"\n\n\t"%s"\n\t"%s/concurrency"\n)\n\n'
        "func main() {\n\tvar options hasp.Options\n"
        "\tconcurrency.WithTTL(1)\n"
        "\tfmt.Println(options.Name == \"\")\n}\n" % (module, module))
    run("go", "get", "%s@v%s" % (module, VERSION), folder=str(program), **env)
    assert run("go", "run", ".", folder=str(program), **env) == "true\n"
    run("go", "vet", module + "/...", folder=str(program), **env)
    kept = tmp_path / "cache" / (module + "@v" + VERSION)
    assert (kept / "LICENSE").read_text() == licence()


@pytest.mark.skipif(shutil.which("javadoc") is None, reason="no JDK")
def test_java(tmp_path_factory):
    # javadoc without warnings is a matter of make client-java, which has it
    # end with an error.
    folder = packed("java", tmp_path_factory)
    for kind, name in (("", "hasp/Session.class"),
                       ("-sources", "hasp/Session.java"),
                       ("-javadoc", "hasp/Session.html")):
        path = os.path.join(folder, "hasp-%s%s.jar" % (VERSION, kind))
        with zipfile.ZipFile(path) as file:
            assert name in file.namelist()
            assert file.read("LICENSE").decode() == licence()
    path = os.path.join(folder, "hasp-%s.pom" % VERSION)
    space = "{http://maven.apache.org/POM/4.0.0}"
    project = ElementTree.parse(path).getroot()
    assert project.findtext(space + "groupId") == GROUP
    # The requirements of Maven Central for a pom.
    for part in ("name", "description", "url", "licenses/license/url",
                 "developers/developer/name", "scm/connection", "scm/url"):
        found = project.findtext("/".join(
            space + word for word in part.split("/")))
        assert found, part
        assert SITE in found or "url" not in part, part
    if shutil.which("mvn"):
        run("mvn", "-q", "-o", "-B", "-f", path, "validate")
