# SPDX-License-Identifier: Apache-2.0
"""What every method returns: weighted representatives with their markers, and the selection
file."""
