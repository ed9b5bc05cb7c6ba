# SPDX-License-Identifier: Apache-2.0
"""What several suites need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.run import run


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder]).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield folder
    run(["umount", "-l", folder])
