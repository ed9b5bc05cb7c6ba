# SPDX-License-Identifier: Apache-2.0
"""Photons in a scattering cube, by pmcxcl: finite light everywhere."""

import numpy as np
import pmcxcl

settings = {
    "nphoton": 20000,
    "vol": np.ones([40, 40, 40], dtype="uint8"),
    "tstart": 0,
    "tend": 5e-9,
    "tstep": 5e-10,
    "srcpos": [20, 20, 0],
    "srcdir": [0, 0, 1],
    "prop": np.array([[0, 0, 1, 1], [0.005, 1, 0.01, 1.37]]),
    "seed": 7,
}
light = pmcxcl.run(settings)["flux"]
assert np.isfinite(light).all() and light.sum() > 0
print("right")
