# SPDX-License-Identifier: Apache-2.0
"""Atoms in a periodic box, by OpenMM on OpenCL; the energy must be conserved."""

import numpy as np
import openmm
from openmm import unit

SIDE, STEPS, SPACING = 12, 2000, 0.4

system = openmm.System()
force = openmm.NonbondedForce()
force.setNonbondedMethod(openmm.NonbondedForce.CutoffPeriodic)
force.setCutoffDistance(1.0)
for _ in range(SIDE**3):
    system.addParticle(40.0)
    force.addParticle(0.0, 0.34, 0.99)
edge = SIDE * SPACING
system.setDefaultPeriodicBoxVectors((edge, 0, 0), (0, edge, 0), (0, 0, edge))
system.addForce(force)
context = openmm.Context(
    system,
    openmm.VerletIntegrator(0.002),
    openmm.Platform.getPlatformByName("OpenCL"),
    {"Precision": "single"},
)
grid = np.stack(np.meshgrid(*[np.arange(SIDE)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
context.setPositions(grid * SPACING)
context.setVelocitiesToTemperature(90.0, 1)


def energy() -> float:
    state = context.getState(getEnergy=True)
    total = state.getPotentialEnergy() + state.getKineticEnergy()
    return float(total.value_in_unit(unit.kilojoule_per_mole))


before = energy()
context.getIntegrator().step(STEPS)
assert abs(energy() - before) < 0.02 * abs(before), (before, energy())
print("right")
