-- What the back office adds to the tables of the provider: columns, keys, and the table of charges. One column or index
-- in a statement, in words that MariaDB and MySQL both know; `migrate` leaves out what is there.
-- Rows of the old system have no workspace; nobody is charged for these.
ALTER TABLE recordings ADD COLUMN workspace_id BIGINT NULL;
ALTER TABLE service_plans ADD COLUMN fax BIGINT NOT NULL DEFAULT 0;
ALTER TABLE workspaces_users ADD COLUMN user_id BIGINT NULL;
ALTER TABLE users_invoices ADD COLUMN subscription_id BIGINT NULL;
ALTER TABLE users_invoices ADD COLUMN cycle VARCHAR(16) NULL;
ALTER TABLE users_invoices ADD COLUMN period DATE NULL;
ALTER TABLE users_invoices ADD COLUMN plan_id BIGINT NULL;
ALTER TABLE users_invoices ADD COLUMN run_id VARCHAR(64) NULL;
-- One invoice for a subscription, a cycle and a period; rows of the old system have none of them.
CREATE UNIQUE INDEX users_invoices_once ON users_invoices (subscription_id, cycle, period);
CREATE INDEX users_invoices_open ON users_invoices (status, id);
CREATE INDEX users_invoices_of_workspace ON users_invoices (workspace_id, source);
ALTER TABLE users_debits ADD COLUMN period DATE NULL;
-- One rental of a number in a period; calls have no period.
CREATE UNIQUE INDEX users_debits_once ON users_debits (source, module_id, period);
CREATE INDEX users_debits_of_workspace ON users_debits (workspace_id, created_at);
CREATE INDEX users_credits_of_workspace ON users_credits (workspace_id);
CREATE INDEX workspaces_users_of_workspace ON workspaces_users (workspace_id);
CREATE INDEX subscriptions_by_cycle ON subscriptions (status, billing_cycle, id);
CREATE INDEX did_numbers_of_workspace ON did_numbers (workspace_id);
CREATE INDEX recordings_by_status ON recordings (status, id);
CREATE INDEX recordings_of_workspace ON recordings (workspace_id, created_at);
CREATE INDEX faxes_of_workspace ON faxes (workspace_id, created_at);
CREATE INDEX users_cards_of_workspace ON users_cards (workspace_id, `primary`);
CREATE INDEX users_cards_by_expiry ON users_cards (exp_year, exp_month, id);
CREATE INDEX users_without_password ON users (needs_password_set, needs_set_password_date);
CREATE INDEX users_by_login ON users (last_login_reminded, last_login);
CREATE INDEX workspaces_of_creator ON workspaces (creator_id);
CREATE INDEX workspaces_by_trial
  ON workspaces (free_trial_reminder_sent, free_trial_started);
CREATE INDEX workspaces_by_survey ON workspaces (sent_satisfaction_survey, created_at);
CREATE INDEX workspaces_users_of_user ON workspaces_users (user_id);
CREATE INDEX debugger_logs_by_age ON debugger_logs (created_at);
-- The month for which the owner of a card was told that it expires, such as 2027-01.
ALTER TABLE users_cards ADD COLUMN expiry_reminded CHAR(7) NULL;
ALTER TABLE usage_triggers_results ADD COLUMN created_at DATETIME(6) NULL;
CREATE UNIQUE INDEX usage_triggers_results_once ON usage_triggers_results (usage_trigger_id);
ALTER TABLE api_credentials ADD COLUMN braintree_merchant_id VARCHAR(255) NULL;
ALTER TABLE api_credentials ADD COLUMN braintree_public_key VARCHAR(255) NULL;
ALTER TABLE api_credentials ADD COLUMN braintree_private_key VARCHAR(255) NULL;
ALTER TABLE users_cards ADD COLUMN braintree_token VARCHAR(255) NULL;
-- What was or will be demanded of a gateway: written before it is asked, answered after.
-- `state` is DEMANDED, PAID, DECLINED, PENDING, REFUSED: declined for as long as card and amount are the same, or
-- UNKNOWN: demanded, and given up without an answer.
-- `customer` and `token` are the card: a gateway refuses a key that is repeated with another one.
CREATE TABLE IF NOT EXISTS charges (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  invoice_id BIGINT NOT NULL,
  attempt INT NOT NULL,
  idempotency_key VARCHAR(255) NOT NULL,
  provider VARCHAR(32) NOT NULL,
  cents BIGINT NOT NULL CHECK (cents > 0),
  customer VARCHAR(255) NOT NULL DEFAULT '',
  token VARCHAR(255) NOT NULL DEFAULT '',
  state VARCHAR(16) NOT NULL,
  reference VARCHAR(255) NULL,
  reason VARCHAR(1024) NULL,
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  UNIQUE KEY charges_once (invoice_id, attempt),
  UNIQUE KEY charges_by_key (idempotency_key)
);
