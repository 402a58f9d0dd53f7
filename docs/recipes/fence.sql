-- SPDX-License-Identifier: MIT
-- One row for each thing that a lock protects: the highest token it has seen.
CREATE TABLE IF NOT EXISTS fence (
    resource TEXT PRIMARY KEY,
    token BIGINT NOT NULL
);

-- In the transaction of the write, before it. If no row comes back, the token
-- is an old one: ROLLBACK. The row stays locked until COMMIT, so two writers
-- cannot pass at once. :resource and :token are the parameters.
INSERT INTO fence (resource, token) VALUES (:resource, :token)
    ON CONFLICT (resource) DO UPDATE SET token = excluded.token
    WHERE fence.token <= excluded.token
    RETURNING token;
