// Graphile Worker for peer_graphile.py, with the settings that its guide on performance names.
// Its first argument is the folder in which npm has installed it, the second the database's URL.
// It says "ready" once the schema is there, and "ran" once as many jobs have run as a line asks for.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, connectionString] = process.argv.slice(2);
const { Logger, run, runMigrations } = createRequire(`${folder}/`)("graphile-worker");
const logger = new Logger(() => () => {});

await runMigrations({ connectionString, logger });
console.log("ready");

for await (const line of createInterface({ input: process.stdin })) {
  let left = Number(line);
  const preset = {
    worker: {
      connectionString,
      concurrentJobs: 24,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
      maxPoolSize: 10,
    },
  };
  const work = async () => {
    left -= 1;
    if (left === 0) console.log("ran");
  };
  await run({ preset, logger, taskList: { work } });
}
