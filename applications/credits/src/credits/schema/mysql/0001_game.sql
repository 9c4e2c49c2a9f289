-- The tables of the game as they are there already; a new installation gets them here.
CREATE TABLE IF NOT EXISTS users (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  email VARCHAR(255) NOT NULL UNIQUE,
  free_credits INT NOT NULL DEFAULT 10,
  paid_credits INT NOT NULL DEFAULT 0,
  monthly_credit_limit INT NOT NULL DEFAULT 10,
  stripe_customer_id VARCHAR(255)
);
CREATE TABLE IF NOT EXISTS credit_purchases (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  user_id VARCHAR(36) NOT NULL,
  credits INT NOT NULL CHECK (credits > 0),
  amount_paid INT NOT NULL CHECK (amount_paid >= 0),
  stripe_payment_id VARCHAR(255),
  stripe_session_id VARCHAR(255) NOT NULL UNIQUE,
  stripe_customer_id VARCHAR(255),
  receipt_url TEXT,
  status VARCHAR(20) NOT NULL DEFAULT 'pending',
  created_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  updated_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)
);
CREATE TABLE IF NOT EXISTS credit_adjustments (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  created_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  user_id VARCHAR(36) NOT NULL,
  credits INT NOT NULL,
  reason VARCHAR(255) NOT NULL,
  credit_purchase_id VARCHAR(36)
);
CREATE TABLE IF NOT EXISTS blocks (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  owner_id VARCHAR(36),
  type VARCHAR(64),
  context VARCHAR(64),
  data LONGTEXT,
  ordering INT,
  points INT
);
CREATE TABLE IF NOT EXISTS uploads (
  id VARCHAR(36) PRIMARY KEY NOT NULL,
  original_url TEXT NOT NULL,
  `timestamp` DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  location_id VARCHAR(36),
  instance_id VARCHAR(36),
  team_code VARCHAR(36),
  block_id VARCHAR(36),
  storage VARCHAR(64),
  delete_data TEXT,
  type VARCHAR(16)
);
