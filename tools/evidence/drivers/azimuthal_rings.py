# SPDX-License-Identifier: Apache-2.0
"""Azimuthal integration of detector pictures by pyFAI; its compiled host code is the reference."""

import numpy as np
from pyFAI.integrator.azimuthal import AzimuthalIntegrator

detector = AzimuthalIntegrator(
    dist=0.1, poni1=0.05, poni2=0.05, pixel1=1e-4, pixel2=1e-4, wavelength=1e-10
)
random = np.random.default_rng(1)
for _ in range(20):
    picture = random.poisson(100, (1000, 1000)).astype(np.float32)
    rings = [
        detector.integrate1d(picture, 500, unit="2th_deg", method=("bbox", "csr", where)).intensity
        for where in ("opencl", "cython")
    ]
    assert np.allclose(*rings, rtol=1e-4)
print("right")
