# SPDX-License-Identifier: MIT
"""A disk whose calls are slow or hang: see slow_disk.c, which is preloaded."""

import os

from cluster import HASPD

LIBRARY = os.path.join(os.path.dirname(HASPD), "slow_disk.so")


class SlowDisk:
    """Nodes that are started with 'environment' obey the last setting."""

    def __init__(self, folder, name="slow_disk"):
        self.path = os.path.join(folder, name)
        self.environment = {
            "LD_PRELOAD": os.path.abspath(LIBRARY),
            "SLOW_DISK": self.path,
        }
        self.tell()

    def tell(self, *lines):
        """Each: CALL MILLISECONDS [PART-OF-A-PATH]"""
        with open(self.path + ".new", "w") as out:
            out.write("".join(line + "\n" for line in lines))
        os.rename(self.path + ".new", self.path)

    def obeyed(self):
        """How many calls have waited or failed as set."""
        try:
            with open(self.path + ".obeyed", "rb") as file:
                return file.read().count(b"\n")
        except FileNotFoundError:
            return 0
