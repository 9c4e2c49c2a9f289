-- The tables of the provider, with the columns that the back office needs of them: made where there are none, for
-- trials. All money is in cents of USD, all times in UTC.
CREATE TABLE IF NOT EXISTS users (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  username VARCHAR(255) NOT NULL DEFAULT '',
  first_name VARCHAR(255) NOT NULL DEFAULT '',
  last_name VARCHAR(255) NOT NULL DEFAULT '',
  email VARCHAR(255) NOT NULL,
  stripe_id VARCHAR(255) NULL,
  last_login DATETIME(6) NULL,
  last_login_reminded DATETIME(6) NULL,
  needs_set_password_date DATETIME(6) NULL,
  needs_password_set TINYINT NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS service_plans (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  nice_name VARCHAR(255) NOT NULL DEFAULT '',
  key_name VARCHAR(255) NOT NULL,
  monthly_cost_cents BIGINT NOT NULL DEFAULT 0,
  annual_cost_cents BIGINT NOT NULL DEFAULT 0,
  minutes_per_month BIGINT NOT NULL DEFAULT 0,
  recording_space BIGINT NOT NULL DEFAULT 0,
  extensions BIGINT NOT NULL DEFAULT 0,
  pay_as_you_go TINYINT NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS workspaces (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  name VARCHAR(255) NOT NULL,
  creator_id BIGINT NOT NULL,
  plan VARCHAR(255) NOT NULL DEFAULT '',
  plan_term VARCHAR(32) NOT NULL DEFAULT 'monthly',
  created_at DATETIME(6) NOT NULL,
  free_trial_started DATETIME(6) NULL,
  free_trial_reminder_sent TINYINT NOT NULL DEFAULT 0,
  sent_satisfaction_survey TINYINT NOT NULL DEFAULT 0,
  outbound_macro_id BIGINT NULL,
  billing_country_id BIGINT NULL,
  billing_region_id BIGINT NULL
);
CREATE TABLE IF NOT EXISTS workspaces_users (
  workspace_id BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS subscriptions (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL,
  workspace_id BIGINT NOT NULL,
  current_plan_id BIGINT NOT NULL,
  billing_cycle VARCHAR(16) NOT NULL,
  status VARCHAR(16) NOT NULL,
  current_period_end DATETIME(6) NULL,
  scheduled_plan_id BIGINT NULL,
  scheduled_effective_date DATETIME(6) NULL,
  provider_subscription_id VARCHAR(255) NULL
);
CREATE TABLE IF NOT EXISTS users_debits (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  source VARCHAR(32) NOT NULL,
  status VARCHAR(16) NOT NULL,
  cents BIGINT NOT NULL,
  module_id BIGINT NOT NULL,
  user_id BIGINT NOT NULL,
  workspace_id BIGINT NOT NULL,
  created_at DATETIME(6) NOT NULL
);
CREATE TABLE IF NOT EXISTS users_credits (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  cents BIGINT NOT NULL,
  workspace_id BIGINT NOT NULL,
  created_at DATETIME(6) NOT NULL
);
CREATE TABLE IF NOT EXISTS users_invoices (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  cents BIGINT NOT NULL,
  cents_including_taxes BIGINT NOT NULL,
  call_costs BIGINT NOT NULL DEFAULT 0,
  recording_costs BIGINT NOT NULL DEFAULT 0,
  fax_costs BIGINT NOT NULL DEFAULT 0,
  membership_costs BIGINT NOT NULL DEFAULT 0,
  number_costs BIGINT NOT NULL DEFAULT 0,
  status VARCHAR(16) NOT NULL,
  source VARCHAR(16) NOT NULL,
  cents_collected BIGINT NOT NULL DEFAULT 0,
  confirmation_number VARCHAR(32) NULL,
  num_attempts INT NOT NULL DEFAULT 0,
  last_attempted DATETIME(6) NULL,
  user_id BIGINT NOT NULL,
  workspace_id BIGINT NOT NULL,
  tax_metadata TEXT NULL,
  created_at DATETIME(6) NOT NULL,
  updated_at DATETIME(6) NOT NULL
);
CREATE TABLE IF NOT EXISTS users_cards (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  workspace_id BIGINT NOT NULL,
  user_id BIGINT NOT NULL,
  `primary` TINYINT NOT NULL DEFAULT 0,
  stripe_payment_method_id VARCHAR(255) NULL,
  stripe_id VARCHAR(255) NULL,
  exp_month INT NOT NULL,
  exp_year INT NOT NULL,
  last_4 VARCHAR(4) NOT NULL
);
CREATE TABLE IF NOT EXISTS calls (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  started_at DATETIME(6) NULL,
  ended_at DATETIME(6) NULL,
  duration BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS did_numbers (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  number VARCHAR(64) NOT NULL,
  monthly_cost BIGINT NOT NULL,
  setup_cost BIGINT NOT NULL DEFAULT 0,
  workspace_id BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS recordings (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  user_id BIGINT NOT NULL,
  size BIGINT NOT NULL DEFAULT 0,
  status VARCHAR(16) NOT NULL,
  storage_id VARCHAR(255) NOT NULL,
  storage_server_ip VARCHAR(255) NOT NULL DEFAULT '',
  trim VARCHAR(8) NULL,
  relocation_attempts INT NOT NULL DEFAULT 0,
  s3_url VARCHAR(1024) NULL,
  created_at DATETIME(6) NOT NULL
);
CREATE TABLE IF NOT EXISTS faxes (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  workspace_id BIGINT NOT NULL,
  created_at DATETIME(6) NOT NULL
);
CREATE TABLE IF NOT EXISTS usage_triggers (
  id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  workspace_id BIGINT NOT NULL,
  percentage INT NOT NULL
);
CREATE TABLE IF NOT EXISTS usage_triggers_results (
  usage_trigger_id BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS debugger_logs (
  created_at DATETIME(6) NOT NULL
);
CREATE TABLE IF NOT EXISTS customizations (
  payment_gateway VARCHAR(32) NOT NULL
);
CREATE TABLE IF NOT EXISTS api_credentials (
  stripe_private_key VARCHAR(255) NULL
);
