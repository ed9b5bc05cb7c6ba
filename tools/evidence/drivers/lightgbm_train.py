# SPDX-License-Identifier: Apache-2.0
"""Gradient-boosted trees by LightGBM on OpenCL; they must learn a product and a sum. LightGBM's
wheel brings its own OpenCL loader."""

import lightgbm
import numpy as np

x = np.random.default_rng(1).standard_normal((20000, 20)).astype(np.float32)
y = (x[:, 0] * x[:, 1] + x[:, 2] > 0).astype(int)
options = {
    "objective": "binary",
    "device": "gpu",
    "verbose": -1,
    "num_threads": 1,
    "deterministic": True,
    "gpu_use_dp": True,
}
model = lightgbm.train(options, lightgbm.Dataset(x, y), num_boost_round=40)
share = ((model.predict(x) > 0.5) == y).mean()
assert share > 0.9, share
print("right")
