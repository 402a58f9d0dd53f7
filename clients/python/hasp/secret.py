# SPDX-License-Identifier: MIT
"""A user's secret, from a file that nobody else may read."""

from __future__ import annotations

import os
import re
import stat
from typing import Tuple, Union

SecretFile = Union[None, str, 'os.PathLike[str]']


def path_of(secret_file: SecretFile) -> str:
    """None: the environment's HASP_SECRET_FILE, or ''; '': none."""
    return os.environ.get('HASP_SECRET_FILE', '') if secret_file is None \
        else str(os.fspath(secret_file))


def greeting_of(path: str) -> Tuple[str, ...]:
    """The AUTH words of HELLO for the secret in the file, a line hasp1.NAME....
    as written by 'hasp secret add'; '': none. Everyone who can read the file can
    act as the user, so only its owner may have access."""
    if not path:
        return ()
    with open(path, encoding='ascii', errors='replace') as file:
        mode = os.fstat(file.fileno()).st_mode
        if os.name == 'posix' and stat.S_ISREG(mode) and mode & 0o077:
            raise PermissionError(
                f"'{path}' has a secret that others can read (mode "
                f'{mode & 0o777:03o}): chmod 0600 it')
        line = file.readline(256).strip()
    found = re.fullmatch(r'hasp1\.([\w.-]{1,64})\.[\w-]{43}', line, re.ASCII)
    if not found:
        raise ValueError(f"no secret in '{path}': a line hasp1.NAME.... is "
                         "expected, as 'hasp secret add' writes it")
    return 'AUTH', found[1], line
