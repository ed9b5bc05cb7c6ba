# SPDX-License-Identifier: Apache-2.0
"""The sampling methods, one file per method."""
