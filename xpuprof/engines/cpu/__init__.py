# SPDX-License-Identifier: Apache-2.0
"""CPU engines, one per file; each file ends with its declaration `ENGINE`."""
