# SPDX-License-Identifier: Apache-2.0
"""Scattering curves of three particle shapes over size distributions, by sasmodels; the reference
is the C code that it compiles for the host."""

import numpy as np
from sasmodels.core import build_model, load_model_info
from sasmodels.direct_model import call_kernel

Q = np.logspace(-3, -0.5, 400)
SHAPES = {
    "cylinder": {"radius_pd": 0.1, "radius_pd_n": 20, "length_pd": 0.1, "length_pd_n": 10},
    "ellipsoid": {"radius_polar_pd": 0.1, "radius_polar_pd_n": 40},
    "core_shell_sphere": {"radius_pd": 0.2, "radius_pd_n": 80, "thickness_pd_n": 0},
}
for name, sizes in SHAPES.items():
    info = load_model_info(name)
    kernels = [
        build_model(info, platform=platform, dtype="double").make_kernel([Q])
        for platform in ("ocl", "dll")
    ]
    for solvent in np.linspace(6.5, 9.0, 15):
        curves = [call_kernel(kernel, {**sizes, "sld_solvent": solvent}) for kernel in kernels]
        assert np.allclose(*curves, rtol=1e-6), name
print("right")
