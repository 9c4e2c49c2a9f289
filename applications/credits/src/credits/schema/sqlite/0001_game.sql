-- The tables of the game as they are there already; a new installation gets them here.
CREATE TABLE IF NOT EXISTS users (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  email VARCHAR(255) NOT NULL UNIQUE,
  free_credits INTEGER NOT NULL DEFAULT 10,
  paid_credits INTEGER NOT NULL DEFAULT 0,
  monthly_credit_limit INTEGER NOT NULL DEFAULT 10,
  stripe_customer_id VARCHAR(255)
);
CREATE TABLE IF NOT EXISTS credit_purchases (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  user_id VARCHAR(36) NOT NULL,
  credits INTEGER NOT NULL CHECK (credits > 0),
  amount_paid INTEGER NOT NULL CHECK (amount_paid >= 0),
  stripe_payment_id VARCHAR(255),
  stripe_session_id VARCHAR(255) NOT NULL UNIQUE,
  stripe_customer_id VARCHAR(255),
  receipt_url TEXT,
  status VARCHAR(20) NOT NULL DEFAULT 'pending',
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  updated_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
);
CREATE TABLE IF NOT EXISTS credit_adjustments (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  created_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  user_id VARCHAR(36) NOT NULL,
  credits INTEGER NOT NULL,
  reason VARCHAR(255) NOT NULL,
  credit_purchase_id VARCHAR(36)
);
CREATE TABLE IF NOT EXISTS blocks (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  owner_id VARCHAR(36),
  type VARCHAR(64),
  context VARCHAR(64),
  data TEXT,
  ordering INTEGER,
  points INTEGER
);
CREATE TABLE IF NOT EXISTS uploads (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  original_url TEXT NOT NULL,
  timestamp TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
  location_id VARCHAR(36),
  instance_id VARCHAR(36),
  team_code VARCHAR(36),
  block_id VARCHAR(36),
  storage VARCHAR(64),
  delete_data TEXT,
  type VARCHAR(16)
);
