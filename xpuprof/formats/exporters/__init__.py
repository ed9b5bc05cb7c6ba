# SPDX-License-Identifier: Apache-2.0
"""Selections and runs as files for other tools, one module per format."""
