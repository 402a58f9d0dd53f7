# SPDX-License-Identifier: MIT
"""Replaces the part of opentelemetry-sdk that examples/otel/otel.py uses,
if the package cannot be installed."""
