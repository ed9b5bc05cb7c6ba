# SPDX-License-Identifier: Apache-2.0
"""OpenCV's filters on OpenCL (UMat), compared with the same ones on the CPU."""

import cv2
import numpy as np

ROUNDS = 30


def work(image: cv2.UMat | np.ndarray) -> cv2.UMat | np.ndarray:
    for _ in range(ROUNDS):
        image = cv2.GaussianBlur(image, (7, 7), 1.5)
        edges = cv2.Sobel(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), cv2.CV_32F, 1, 0)
        shown = cv2.cvtColor(edges, cv2.COLOR_GRAY2BGR)
        image = cv2.addWeighted(image, 0.9, cv2.convertScaleAbs(shown), 0.1, 0)
    return image


assert cv2.ocl.useOpenCL(), "set OPENCV_OPENCL_DEVICE=:CPU:"
cv2.setNumThreads(1)
picture = np.random.default_rng(1).integers(0, 256, (1440, 2560, 3), dtype=np.uint8)
on_device = work(cv2.UMat(picture)).get()
cv2.ocl.setUseOpenCL(False)
difference = np.abs(on_device.astype(int) - work(picture)).max()
assert difference <= 8, difference
print("right")
