# SPDX-License-Identifier: Apache-2.0
"""Our environment without what Python changes in it for itself."""

from __future__ import annotations

import os
from pathlib import Path

_COERCED = "LC_CTYPE"
_TARGETS = ("C.UTF-8", "C.utf8", "UTF-8")


def given_environment() -> dict[str, str]:
    """The environment for a program. In the C locale Python gives itself, and so its children, a
    locale of UTF-8 (PEP 538), in which a program would treat text otherwise than alone."""
    environment = dict(os.environ)
    if environment.get(_COERCED) not in _TARGETS:
        return environment
    try:
        at_start = Path("/proc/self/environ").read_bytes()  # as we were executed
    except OSError:
        return environment
    name = f"{_COERCED}=".encode()
    values = [line[len(name) :] for line in at_start.split(b"\0") if line.startswith(name)]
    if values:
        environment[_COERCED] = os.fsdecode(values[0])
    else:
        del environment[_COERCED]
    return environment
