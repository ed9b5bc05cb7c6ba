# SPDX-License-Identifier: Apache-2.0
"""A selection held against measured times, on this machine or another."""
