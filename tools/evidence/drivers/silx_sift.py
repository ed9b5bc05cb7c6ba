# SPDX-License-Identifier: Apache-2.0
"""Key points of a picture by silx; the same picture has the same ones each time."""

import numpy as np
from scipy.ndimage import gaussian_filter
from silx.image import sift

picture = gaussian_filter(np.random.default_rng(1).random((1000, 1000)), 3).astype(np.float32)
plan = sift.SiftPlan(template=picture, devicetype="CPU")
numbers = {len(plan.keypoints(picture)) for _ in range(4)}
assert len(numbers) == 1 and min(numbers) > 0, numbers
print("right")
