# SPDX-License-Identifier: MIT
"""Programs and modules of Debian packages that tests use without installing them,
since that would start services."""

import shutil
import subprocess

import pytest


def unpack(folder, *packages):
    """Downloads packages by apt and unpacks them, once for each folder."""
    if folder.exists():
        return folder
    folder.mkdir()
    try:
        subprocess.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download",
                        *packages], cwd=folder, check=True, capture_output=True,
                       timeout=120)
        for package in folder.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", package, folder], check=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(folder)
        pytest.skip("no Debian mirror to fetch %s from: %s" % (
            " ".join(packages), error))
    return folder
