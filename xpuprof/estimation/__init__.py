# SPDX-License-Identifier: Apache-2.0
"""All theory of uncertainty: projection, sample sizes, intervals, typical times."""
