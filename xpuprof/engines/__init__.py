# SPDX-License-Identifier: Apache-2.0
"""The engines that record a program: what each needs, and how a program is launched under it."""
