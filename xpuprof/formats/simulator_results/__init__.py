# SPDX-License-Identifier: Apache-2.0
"""Results of simulators, one module per simulator."""
