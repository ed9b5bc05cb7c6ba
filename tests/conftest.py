# SPDX-License-Identifier: Apache-2.0
"""Interrupts reach the programs under test even where a shell without job control started pytest in
the background: it has such jobs ignore SIGINT, and programs inherit that."""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.default_int_handler)
