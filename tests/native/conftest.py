# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the native tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A folder that other users can reach, unlike pytest's own."""
    with TemporaryDirectory(prefix="xpuprof-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
