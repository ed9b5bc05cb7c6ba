# SPDX-License-Identifier: Apache-2.0
"""Block identities against an independent implementation of the header's definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from xpuprof._bridge import lib

M = (1 << 64) - 1
U64 = st.integers(0, M)


def word(h: int, w: int) -> int:
    x = ((h ^ w) + 0x9E3779B97F4A7C15) & M
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & M
    x = (x ^ x >> 27) * 0x94D049BB133111EB & M
    return x ^ x >> 31


def bytes_(h: int, s: bytes) -> int:
    for at in range(0, len(s), 8):
        h = word(h, int.from_bytes(s[at : at + 8], "little"))
    return word(h, len(s))


@given(st.binary(max_size=70), U64, st.integers(0, 1 << 32))
def test_cpu_identity(build_id: bytes, offset: int, instructions: int) -> None:
    expected = word(word(bytes_(0x5850435055424C4B, build_id), offset), instructions)
    assert lib.xp_identity_cpu(build_id, len(build_id), offset, instructions) == expected


@given(st.binary(min_size=16, max_size=16), st.binary(max_size=70), st.integers(0, 1 << 32))
def test_gpu_identity(program: bytes, name: bytes, block: int) -> None:
    expected = word(bytes_(bytes_(0x5850475055424C4B, program), name), block)
    assert lib.xp_identity_gpu(program, name, len(name), block) == expected


def test_identities_never_change() -> None:
    """Selections are kept for years: these values are part of the format."""
    assert lib.xp_identity_cpu(b"00ff", 4, 16, 3) == 0x861E2F5BD2D740CB
    assert lib.xp_identity_gpu(bytes(range(16)), b"a", 1, 0) == 0x74FDFC98F7AF23F3


def test_parts_do_not_run_into_each_other() -> None:
    """A name that ends in zeros, or the same bytes split differently, gives another identity."""
    program = bytes(16)
    seen = {
        lib.xp_identity_gpu(program, name, len(name), block)
        for name in (b"", b"\0", b"\0\0", b"a", b"a\0", b"aaaaaaaa", b"aaaaaaaa\0")
        for block in range(3)
    }
    assert len(seen) == 21
