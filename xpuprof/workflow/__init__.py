# SPDX-License-Identifier: Apache-2.0
"""What a user does, one function each; the API and the command line call the same."""
