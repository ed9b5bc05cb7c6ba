# SPDX-License-Identifier: Apache-2.0
"""From vectors to clusters and representatives, for one run or many."""
