# SPDX-License-Identifier: Apache-2.0
"""Principal Kernel Projection: stop simulating a kernel once its IPC is stable and project the
rest.

Avalos Baddouh et al.: "Principal Kernel Analysis", MICRO 2021, section 3.2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from xpuprof.errors import InputError

WINDOW = 3000
"""n: cycles of the rolling average and standard deviation."""
S = 0.25
"""s: standard deviation of IPC below which it is quasi-stable."""


@dataclass(frozen=True)
class Projection:
    """`cycle`: when simulation could stop. `cycles`, `instructions`: of the whole kernel."""

    cycle: int
    cycles: float
    instructions: float


class PrincipalKernelProjection:
    """The online form; a simulator calls it once per cycle.

    `blocks`: thread blocks of the launch; `wave`: thread blocks that fill the GPU at the kernel's
    highest occupancy; `total`: instructions of the whole kernel, if known from a profile. The
    kernel is stable at the first cycle at which the standard deviation of the last `n` IPC values
    is below `s` and the wave during which that happened has finished. A launch smaller than a wave
    ignores the wave condition.
    """

    def __init__(
        self, *, blocks: int, wave: int, total: float | None = None, n: int = WINDOW, s: float = S
    ) -> None:
        if blocks < 1 or wave < 1:
            raise InputError(f"blocks and wave are at least 1, not {blocks} and {wave}")
        if total is not None and not total > 0.0:
            raise InputError(f"the kernel's instructions must be more than 0, not {total:g}")
        if n < 2 or s <= 0.0:
            raise InputError(f"n must be at least 2 and s above 0, not {n} and {s:g}")
        self._blocks = blocks
        self._wave = wave
        self._total = total
        self._n = n
        self._s = s
        self._ring = np.zeros(n)
        self._sum = 0.0
        self._squares = 0.0
        self._goal: int | None = None
        self.cycle = 0
        self.instructions = 0.0
        self.finished = 0
        self.stable = False

    @property
    def mean(self) -> float:
        """Rolling average IPC."""
        return self._sum / max(min(self.cycle, self._n), 1)

    @property
    def deviation(self) -> float:
        """Rolling standard deviation of IPC."""
        count = max(min(self.cycle, self._n), 1)
        return float(np.sqrt(max(self._squares / count - (self._sum / count) ** 2, 0.0)))

    def step(self, ipc: float, finished: int) -> bool:
        """Advance one cycle: instructions retired in it, thread blocks finished so far. Returns
        True to stop."""
        if not np.isfinite(ipc) or ipc < 0.0:
            raise InputError(
                f"IPC of cycle {self.cycle} is {ipc}, not a finite non-negative number"
            )
        slot = self.cycle % self._n
        old = self._ring[slot]
        self._ring[slot] = ipc
        self._sum += ipc - old
        self._squares += ipc * ipc - old * old
        if slot == self._n - 1:
            # Recompute the running sums once per window to drop rounding errors.
            self._sum = float(self._ring.sum())
            self._squares = float(np.dot(self._ring, self._ring))
        self.cycle += 1
        self.instructions += ipc
        self.finished = finished
        if self._quasi_stable():
            self.stable = self.stable or self._wave_done()
        return self.stable

    def _quasi_stable(self) -> bool:
        return self.cycle >= self._n and self.deviation < self._s

    def _wave_done(self) -> bool:
        if self._blocks < self._wave:
            return True
        if self._goal is None:
            self._goal = min((self.finished // self._wave + 1) * self._wave, self._blocks)
        return self.finished >= self._goal

    def project(self) -> Projection:
        """Whole-kernel figures.

        From one wave up, as in the paper: cycles grow linearly with the unfinished thread blocks,
        at the rolling IPC. Below a wave all blocks run side by side, so the number of finished
        blocks says little about the others' progress; there the remaining instructions over the
        rolling IPC give the remaining cycles, if `total` is known. Raises InputError before the
        first cycle, and when neither a finished block nor `total` tells how much is left.
        """
        if not self.cycle:
            raise InputError("no cycle was simulated, so there is nothing to project")
        if self.finished >= self._blocks:
            rest = 0.0
        elif self._total is not None and (self._blocks < self._wave or not self.finished):
            rest = self._remaining(self._total)
        elif self.finished:
            rest = self.cycle * (self._blocks / self.finished - 1.0)
        else:
            raise InputError(
                f"none of the {self._blocks} thread blocks had finished by cycle {self.cycle}, so "
                "nothing says how much is left; give the kernel's instructions (total), or "
                "simulate until a block has finished"
            )
        return Projection(self.cycle, self.cycle + rest, self.instructions + rest * self.mean)

    def _remaining(self, total: float) -> float:
        """Cycles for the remaining instructions at the rolling IPC."""
        left = max(total - self.instructions, 0.0)
        if left and not self.mean:
            raise InputError(
                f"no instruction retired in the {self._n} cycles before cycle {self.cycle}, so the "
                "rolling IPC projects nothing; simulate on"
            )
        return left / self.mean if left else 0.0


def project_series(
    ipc: npt.NDArray[np.float64],
    finished: npt.NDArray[np.int64],
    *,
    blocks: int,
    wave: int,
    total: float | None = None,
    n: int = WINDOW,
    s: float = S,
) -> Projection:
    """The offline form: a kernel's IPC by cycle and its finished thread blocks by cycle.

    A series that never becomes stable is projected from its last cycle (a complete kernel then
    gives its own length).
    """
    if len(ipc) != len(finished) or not len(ipc):
        raise InputError(
            f"the series of IPC and of finished blocks have {len(ipc)} and {len(finished)} cycles; "
            "they must be equally long and not empty"
        )
    online = PrincipalKernelProjection(blocks=blocks, wave=wave, total=total, n=n, s=s)
    for value, done in zip(ipc.tolist(), finished.tolist(), strict=True):
        if online.step(value, done):
            break
    return online.project()
