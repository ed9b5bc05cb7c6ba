# SPDX-License-Identifier: Apache-2.0
"""A stack of pictures, blurred and labelled by pyclesperanto; SciPy counts the same objects."""

import numpy as np
import pyclesperanto as cle
from scipy import ndimage

ROUNDS = 20

cle.select_device()
stack = np.random.default_rng(1).random((64, 128, 128), dtype=np.float32)
for _ in range(ROUNDS):
    blurred = cle.gaussian_blur(stack, sigma_x=2, sigma_y=2, sigma_z=2)
    binary = cle.threshold_otsu(blurred)
    labels = cle.connected_components_labeling(binary)
found = int(cle.pull(labels).max())
expected = ndimage.label(cle.pull(binary) > 0, structure=np.ones((3, 3, 3)))[1]
assert found == expected, (found, expected)
print("right")
