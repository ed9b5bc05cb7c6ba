# SPDX-License-Identifier: Apache-2.0
"""Starts the user's program under the chosen engines, and supervises it."""
