# SPDX-License-Identifier: MIT
"""The texts of packaging/image and packaging/kubernetes agree. `make
test-kubernetes` renders and validates, test_pods.py plays a StatefulSet."""

import os
import re
import subprocess
import sys

import pods
from cluster import HASPD, ROOT

FOLDER = os.path.join(ROOT, "packaging", "kubernetes")


def read(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


def version():
    return re.search(r"^VERSION := (\S+)", read("Makefile"), re.M).group(1)


def test_the_alerts_of_the_operator_are_those_of_prometheus():
    done = subprocess.run(
        [sys.executable, os.path.join(ROOT, "tools", "kubernetes.py"),
         "check"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr


def test_the_variables_of_the_config_map_are_a_configuration():
    env = {**pods.variables(), "HASP_NODE_ID": "2"}
    done = subprocess.run([HASPD, "--container", "--check-config"], env=env,
                          capture_output=True, text=True, timeout=30,
                          check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([HASPD, "--container", "--print-config"], env=env,
                          capture_output=True, text=True, timeout=30,
                          check=False)
    for number in (1, 2, 3):
        assert "member = %d hasp-%d.hasp:7421 hasp-%d.hasp:7420 " % (
            (number,) * 3) in done.stdout
    assert "http = *:7422" in done.stdout


def test_the_variables_of_tls_are_settings():
    """--print-config reports an unknown variable, whatever its value is."""
    env = pods.variables("tls-cert-manager")
    text = read("packaging", "kubernetes", "overlays", "tls-cert-manager",
                "statefulset.yaml")
    files = re.findall(r"\{name: (HASP_TLS_\w+), value: (\S+)\}", text)
    assert len(files) == 3
    env.update((name, value.replace("$(POD_NAME)", "hasp-2"))
               for name, value in files)
    env["HASP_NODE_ID"] = "2"
    done = subprocess.run([HASPD, "--container", "--print-config"], env=env,
                          capture_output=True, text=True, timeout=30,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert "key = /etc/hasp/tls/hasp-2/tls.key" in done.stdout
    assert "http = *:7422" in done.stdout
    assert "insecure = no" in done.stdout
    for number in range(1, 6):
        for name in ("ca.crt", "tls.crt", "tls.key"):
            assert "{key: %s, path: hasp-%d/%s}" % (name, number, name) in text


def test_a_cluster_has_one_name_in_config_map_and_certificates():
    name = pods.variables()["HASP_CLUSTER_NAME"]
    text = read("packaging", "kubernetes", "overlays", "tls-cert-manager",
                "certificates.yaml")
    uris = re.findall(r'uris: \["(.*)"\]', text)
    assert uris == ["hasp://%s/node/%d" % (name, n) for n in (1, 2, 3)] + [
        "hasp://%s/user/admin" % name]
    text = read("packaging", "kubernetes", "overlays", "tls-cert-manager",
                "issuer.yaml")
    assert re.findall(r'uris: \["(.*)"\]', text) == ["hasp://%s" % name]


def test_image_containerfile_and_pod_say_the_same():
    script = read("tools", "image.sh")
    container = read("packaging", "image", "Containerfile")
    pod = read("packaging", "kubernetes", "base", "statefulset.yaml")
    assert "image: hasp:%s\n" % version() in pod
    assert re.search(r"^user=(\d+)$", script, re.M).group(1) == "65532"
    assert "USER 65532:65532" in container
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        assert "%s: 65532" % key in pod
    for port in ("7420", "7421", "7422"):
        assert "%s/tcp" % port in container
        assert "containerPort: %s" % port in pod
        assert port in re.search(r"for port in ([\d ]+);", script).group(1)
    assert "VOLUME /var/lib/hasp\n" in container
    assert "--config.volume /var/lib/hasp" in script
    assert "mountPath: /var/lib/hasp}" in pod
    assert 'ENTRYPOINT ["/usr/sbin/haspd", "--container"]' in container
    assert ("--config.entrypoint /usr/sbin/haspd --config.entrypoint "
            "--container") in script
    assert "ordinals: {start: 1}" in pod
    assert "enableServiceLinks: false" in pod


def test_no_variable_of_a_service_is_taken_for_a_setting():
    """Kubernetes gives pods variables for each service that begin with its
    name; our own have it off, and pods of others may not."""
    env = {**pods.variables(), "HASP_NODE_ID": "1"}
    for name in ("HASP", "HASP_CLIENTS"):
        env["%s_SERVICE_HOST" % name] = "10.0.0.1"
        env["%s_PORT" % name] = "tcp://10.0.0.1:7420"
        env["%s_PORT_7420_TCP_ADDR" % name] = "10.0.0.1"
        env["%s_SERVICE_PORT_CLIENT" % name] = "7420"
    done = subprocess.run([HASPD, "--container", "--check-config"], env=env,
                          capture_output=True, text=True, timeout=30,
                          check=False)
    assert done.returncode == 0, done.stderr
