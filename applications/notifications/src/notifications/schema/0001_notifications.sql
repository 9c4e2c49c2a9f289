-- `hours` are the windows in which a recipient wants notices, one in each line; none is any time.
CREATE TABLE IF NOT EXISTS recipients (
  id VARCHAR(64) PRIMARY KEY NOT NULL,
  name VARCHAR(200) NOT NULL,
  language VARCHAR(35) NOT NULL,
  zone VARCHAR(64) NOT NULL,
  hours VARCHAR(1000) NOT NULL
);
-- An empty address is for channels that lead to one place, such as a room of a chat.
CREATE TABLE IF NOT EXISTS addresses (
  recipient VARCHAR(64) NOT NULL,
  channel VARCHAR(64) NOT NULL,
  address VARCHAR(320) NOT NULL,
  verified INTEGER NOT NULL,
  PRIMARY KEY (recipient, channel)
);
-- The name of a topic is the type of its events. `good_for` is in seconds; 0 is for ever.
CREATE TABLE IF NOT EXISTS topics (
  name VARCHAR(100) PRIMARY KEY NOT NULL,
  critical INTEGER NOT NULL,
  sensitive INTEGER NOT NULL,
  good_for INTEGER NOT NULL,
  language VARCHAR(35) NOT NULL
);
CREATE TABLE IF NOT EXISTS texts (
  topic VARCHAR(100) NOT NULL,
  language VARCHAR(35) NOT NULL,
  title TEXT NOT NULL,
  body TEXT NOT NULL,
  html TEXT NOT NULL,
  PRIMARY KEY (topic, language)
);
-- What has no row is allowed.
CREATE TABLE IF NOT EXISTS preferences (
  recipient VARCHAR(64) NOT NULL,
  topic VARCHAR(100) NOT NULL,
  channel VARCHAR(64) NOT NULL,
  allowed INTEGER NOT NULL,
  PRIMARY KEY (recipient, topic, channel)
);
-- What became of each event for each recipient; `name` is the unique key of the notice's job.
-- Without a channel: why the recipient gets nothing. `job` is known from the first attempt on,
-- `planned_at` is in seconds since 1970.
CREATE TABLE IF NOT EXISTS notices (
  name VARCHAR(200) PRIMARY KEY NOT NULL,
  source VARCHAR(255) NOT NULL,
  event VARCHAR(255) NOT NULL,
  topic VARCHAR(100) NOT NULL,
  recipient VARCHAR(64) NOT NULL,
  channel VARCHAR(64) NOT NULL,
  outcome VARCHAR(20) NOT NULL,
  why VARCHAR(1200) NOT NULL,
  job VARCHAR(64) NOT NULL,
  planned_at BIGINT NOT NULL
);
CREATE INDEX IF NOT EXISTS notices_of_recipient ON notices (recipient, topic, channel, outcome);
CREATE INDEX IF NOT EXISTS notices_of_event ON notices (event, name);
CREATE INDEX IF NOT EXISTS notices_by_age ON notices (planned_at);
