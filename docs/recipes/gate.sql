-- SPDX-License-Identifier: MIT
-- Gates for PostgreSQL: a write with an old token is an error, whatever program
-- sends it. hasp_admit() checks it once for each transaction; hasp_gate()
-- checks each row of a table that has a column "token".
CREATE TABLE IF NOT EXISTS fence (
    resource TEXT PRIMARY KEY,
    token BIGINT NOT NULL
);

-- SELECT hasp_admit('orders', 62379919409158), in the transaction of the write,
-- before it. The row stays locked until COMMIT.
CREATE OR REPLACE FUNCTION hasp_admit(the_resource TEXT, the_token BIGINT)
RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO fence (resource, token) VALUES (the_resource, the_token)
        ON CONFLICT (resource) DO UPDATE SET token = excluded.token
        WHERE fence.token <= excluded.token;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'stale token % of %', the_token, the_resource
            USING ERRCODE = 'HS001';
    END IF;
    RETURN the_token;
END $$;

-- CREATE TRIGGER hasp_gate BEFORE INSERT OR UPDATE ON orders
--     FOR EACH ROW EXECUTE FUNCTION hasp_gate();
CREATE OR REPLACE FUNCTION hasp_gate()
RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.token IS NULL THEN
        RAISE EXCEPTION 'no token for %', TG_TABLE_NAME USING ERRCODE = 'HS002';
    END IF;
    IF TG_OP = 'UPDATE' AND NEW.token < OLD.token THEN
        RAISE EXCEPTION 'stale token % of %', NEW.token, TG_TABLE_NAME
            USING ERRCODE = 'HS001';
    END IF;
    RETURN NEW;
END $$;
