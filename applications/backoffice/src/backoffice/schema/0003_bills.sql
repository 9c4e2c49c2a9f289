-- The invoice that bills a row of use: none bills it twice.
ALTER TABLE users_debits ADD COLUMN invoice_id BIGINT NULL;
ALTER TABLE recordings ADD COLUMN invoice_id BIGINT NULL;
ALTER TABLE faxes ADD COLUMN invoice_id BIGINT NULL;
CREATE INDEX users_debits_open ON users_debits (workspace_id, status, invoice_id);
CREATE INDEX recordings_of_invoice ON recordings (workspace_id, invoice_id, created_at);
CREATE INDEX faxes_of_invoice ON faxes (workspace_id, invoice_id, created_at);
CREATE INDEX subscriptions_of_workspace ON subscriptions (workspace_id, status, id);
-- What credits have paid of an invoice. Rows of the old system have none: their source decides.
ALTER TABLE users_invoices ADD COLUMN credit_cents BIGINT NULL;
-- Numbers of the old system may be double: only those given here are held to be unique.
CREATE INDEX users_invoices_by_confirmation ON users_invoices (confirmation_number);
ALTER TABLE users_invoices ADD COLUMN own_confirmation VARCHAR(32)
  AS (IF(subscription_id IS NULL, NULL, confirmation_number)) VIRTUAL;
CREATE UNIQUE INDEX users_invoices_confirmed_once ON users_invoices (own_confirmation);
