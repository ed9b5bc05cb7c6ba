# SPDX-License-Identifier: Apache-2.0
"""Validate a selection against measured times, on this machine or another."""
