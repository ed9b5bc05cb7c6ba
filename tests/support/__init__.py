# SPDX-License-Identifier: Apache-2.0
"""What tests and tools share: run commands, compile programs, probe the machine, make traces."""
