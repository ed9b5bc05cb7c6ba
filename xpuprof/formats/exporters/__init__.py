# SPDX-License-Identifier: Apache-2.0
"""Selections and runs in the form that other tools read, one file a format."""
