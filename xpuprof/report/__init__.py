# SPDX-License-Identifier: Apache-2.0
"""What commands print: JSON, tables, pictures and pages."""
