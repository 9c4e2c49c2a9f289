-- What is new lies beside the tables of the game, which are not altered.
-- One row for each user and month that was topped up. `batch` is the transaction that wrote it.
CREATE TABLE IF NOT EXISTS credit_topups (
  user_id VARCHAR(36) NOT NULL,
  period CHAR(7) NOT NULL,
  credits INTEGER NOT NULL CHECK (credits > 0),
  topped_up_to INTEGER NOT NULL,
  batch CHAR(32) NOT NULL,
  PRIMARY KEY (user_id, period)
) WITHOUT ROWID;
-- The users that a month has been through: ids above `after_id`, up to `last_id`.
CREATE TABLE IF NOT EXISTS credit_topup_portions (
  period CHAR(7) NOT NULL,
  after_id VARCHAR(36) NOT NULL,
  last_id VARCHAR(36) NOT NULL,
  users INTEGER NOT NULL,
  credits INTEGER NOT NULL,
  final INTEGER NOT NULL,
  done_at TIMESTAMP NOT NULL,
  PRIMARY KEY (period, after_id)
) WITHOUT ROWID;
-- The sizes in which an upload is kept beside its original.
CREATE TABLE IF NOT EXISTS upload_variants (
  upload_id VARCHAR(36) NOT NULL,
  url VARCHAR(500) NOT NULL,
  PRIMARY KEY (upload_id, url)
) WITHOUT ROWID;
-- Files to be removed, noted in the transaction that took away their owner.
CREATE TABLE IF NOT EXISTS upload_removals (
  path TEXT PRIMARY KEY NOT NULL,
  noted_at TIMESTAMP NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS credit_adjustments_of_user ON credit_adjustments (user_id, created_at);
-- Not unique: the table is the game's, whose refund may be a second row for its purchase.
CREATE INDEX IF NOT EXISTS credit_adjustments_of_purchase ON credit_adjustments (credit_purchase_id);
CREATE INDEX IF NOT EXISTS credit_purchases_by_age ON credit_purchases (status, created_at);
CREATE INDEX IF NOT EXISTS uploads_of_block ON uploads (block_id);
