-- SPDX-License-Identifier: MIT
-- A gate for SQLite: an update of a row with an old token is an error, whatever
-- program sends it. "orders" stands for a table that has a column "token".
CREATE TRIGGER IF NOT EXISTS hasp_gate BEFORE UPDATE ON orders
WHEN NEW.token IS NULL OR NEW.token < OLD.token
BEGIN
    SELECT RAISE(ABORT, 'stale token');
END;
