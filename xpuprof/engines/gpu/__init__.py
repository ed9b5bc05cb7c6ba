# SPDX-License-Identifier: Apache-2.0
"""GPU engines. Every file here is one, and ends in its declaration `ENGINE`."""
