# SPDX-License-Identifier: Apache-2.0
"""One function per user task; the API and the command line call the same functions."""
