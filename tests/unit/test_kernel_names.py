# SPDX-License-Identifier: Apache-2.0
"""C++ kernel names, shortened."""

from __future__ import annotations

import pytest

from xpuprof.trace.kernel_names import brief


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("forces", "forces"),
        ("void scale<float>(float*, float)", "scale"),
        (
            "void at::native::reduce_kernel<512, 1, at::ReduceOp<float>>(at::ReduceOp<float>)",
            "reduce_kernel",
        ),
        (
            "void cub::DeviceReduceKernel<cub::Policy<int>::P600, int*>(int*, T3)",
            "DeviceReduceKernel",
        ),
        ("(anonymous namespace)::elementwise(int)", "elementwise"),
        ("typeinfo name for k<(int)3>", "k"),
        ("void ns::operator()<int>(int) const", "operator"),
        (
            "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64",
            "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x64",
        ),
        ("broken<int", "broken<int"),
        ("", ""),
        ("<unknown>", "<unknown>"),
        ("Memcpy HtoD (Pageable -> Device)", "HtoD"),
        ("void ns::f<a::b<int>, 2>(float*, int)", "f"),
    ],
)
def test_what_tells_a_kernel_apart_is_kept(name: str, expected: str) -> None:
    """GIVEN a name WHEN shortened THEN return type, namespaces, template arguments and parameters
    are gone; other names stay."""
    assert brief(name) == expected
