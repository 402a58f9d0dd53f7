# SPDX-License-Identifier: MIT
"""Locks for frameworks: hasp.contrib.celery, hasp.contrib.apscheduler and
hasp.contrib.django. Each needs its framework; docs/frameworks.md describes
them."""
