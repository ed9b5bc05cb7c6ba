# SPDX-License-Identifier: Apache-2.0
"""GPU engines, one per file; each file ends with its declaration `ENGINE`."""
