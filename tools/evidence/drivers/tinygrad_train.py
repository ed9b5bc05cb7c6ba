# SPDX-License-Identifier: Apache-2.0
"""A small network trained by tinygrad on OpenCL; it must learn a sum's sign."""

import numpy as np
from tinygrad import Device, Tensor, nn
from tinygrad.helpers import Context
from tinygrad.nn.optim import SGD

STEPS, BATCH = 60, 64


class Network:
    def __init__(self) -> None:
        self.first, self.second = nn.Linear(64, 64), nn.Linear(64, 2)

    def __call__(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


assert Device.DEFAULT == "CL", "set DEV=CL"
Tensor.manual_seed(1)
x = np.random.default_rng(1).standard_normal((512, 64), dtype=np.float32)
y = (x[:, :8].sum(axis=1) > 0).astype(np.int32)
network = Network()
optimiser = SGD(nn.state.get_parameters(network), lr=0.1)
inputs, labels = Tensor(x), Tensor(y)
with Context(TRAINING=1):
    for step in range(STEPS):
        i = step * BATCH % len(x)
        logits = network(inputs[i : i + BATCH])
        loss = logits.sparse_categorical_crossentropy(labels[i : i + BATCH])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        loss.item()
share = (network(inputs).argmax(axis=1) == labels).mean().item()
assert share > 0.85, share
print("right")
