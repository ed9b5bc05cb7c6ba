# SPDX-License-Identifier: Apache-2.0
"""The theory of uncertainty, all of it: projection, sample sizes, intervals, typical times."""
