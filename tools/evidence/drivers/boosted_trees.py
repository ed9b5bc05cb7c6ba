# SPDX-License-Identifier: Apache-2.0
"""Boosted trees by LightGBM, whose histograms are made on the device. Its kernels add up in no
fixed order, so two models agree in what they predict and not in their last digits."""

import lightgbm
import numpy as np

draw = np.random.default_rng(1)
rows = draw.random((20_000, 28), dtype=np.float32)
labels = (rows[:, 0] + rows[:, 1] * rows[:, 2] > 0.8).astype(np.float32)
settings = {
    "device": "gpu",
    "objective": "binary",
    "max_bin": 15,
    "num_threads": 1,
    "verbosity": -1,
}
model = lightgbm.train(settings, lightgbm.Dataset(rows, labels), num_boost_round=40)
accuracy = np.mean((model.predict(rows) > 0.5) == labels)
assert accuracy > 0.95, accuracy
print("right")
