# SPDX-License-Identifier: Apache-2.0
"""Photons from a point in a scattering cube, by pytissueoptics: what the cube absorbs and
what leaves it add up to the light that came in."""

import numpy as np
from pytissueoptics import (
    Cuboid,
    EnergyLogger,
    IsotropicPointSource,
    ScatteringMaterial,
    ScatteringScene,
    Stats,
    Vector,
)
from pytissueoptics.rayscattering.opencl import CONFIG

CONFIG.AUTO_SAVE = False
CONFIG.DEVICE_INDEX, CONFIG.N_WORK_UNITS = 0, 256  # both are asked for otherwise
np.random.seed(1)
cube = Cuboid(
    a=2,
    b=2,
    c=2,
    position=Vector(0, 0, 0),
    material=ScatteringMaterial(mu_s=30.0, mu_a=0.5, g=0.8, n=1.4),
    label="cube",
)
scene = ScatteringScene([cube])
logger = EnergyLogger(scene)
source = IsotropicPointSource(
    position=Vector(0, 0, 0), N=20000, useHardwareAcceleration=True, seed=1
)
source.propagate(scene, logger=logger, showProgress=False)
stats = Stats(logger)
kept = stats.getAbsorbance("cube")
left = sum(stats.getTransmittance("cube", side) for side in cube.surfaceLabels)
assert 0 < kept < 100 and abs(kept + left - 100) < 0.5, (kept, left)
print("right")
