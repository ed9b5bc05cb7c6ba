# SPDX-License-Identifier: Apache-2.0
"""The only place that states the version; the build reads it here."""

__version__ = "0.1.0"
