# SPDX-License-Identifier: Apache-2.0
"""Profiles of other tools, one module per format."""
