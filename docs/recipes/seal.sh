#!/bin/sh
# SPDX-License-Identifier: MIT
# For hasp run --seal: PostgreSQL refuses the tokens of earlier holders from now
# on (gate.sql). PGHOST and so on say where it is.
exec psql -qAtX -v ON_ERROR_STOP=1 \
    -c "SELECT hasp_admit('orders', $HASP_TOKEN)"
