# SPDX-License-Identifier: Apache-2.0
"""CPU engines. Every file here is one, and ends in its declaration `ENGINE`."""
