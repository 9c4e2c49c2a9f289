// A worker in JavaScript without a dependency: node worker.mjs [SERVICE_URL] [API_KEY]
//
// It asks a service for jobs of the tasks below, keeps their leases while it works, and says what
// came of each. What a function returns is the job's result; what it throws is a failed attempt.

import { hostname } from "node:os";

const [url = "http://127.0.0.1:8080", key] = process.argv.slice(2);
const LEASE = 30; // seconds that the service waits for a word of ours

const tasks = {
  async export({ objectID, format = "csv" }) {
    return { file: `${objectID}.${format}` };
  },
};

let stopping = false;
for (const name of ["SIGTERM", "SIGINT"]) process.on(name, () => (stopping = true));

// The result of a method of the service; throws what the service says.
async function call(method, params) {
  const response = await fetch(`${url}/rpc`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(key && { Authorization: `Bearer ${key}` }) },
    body: JSON.stringify({ jsonrpc: "2.0", method, params, id: 1 }),
  });
  const answer = await response.json();
  if (answer.error) throw new Error(answer.error.message ?? answer.error.code);
  return answer.result;
}

async function run({ id, method, token, params: { attempt, args, ...named } }) {
  const renew = () => call("job.renew", { id, token, lease: LEASE }).catch(console.error);
  const renewals = setInterval(renew, LEASE * 333);
  let outcome;
  try {
    outcome = { result: (await tasks[method](named, ...(args ?? []))) ?? null };
  } catch (error) {
    outcome = { error: { code: 1, message: String(error) } };
  }
  clearInterval(renewals);
  // The service takes a word of ours only while the token is the job's; so repeating is harmless.
  await call("job.settle", { id, token, attempt, ...outcome });
}

const claim = { worker: hostname(), tasks: Object.keys(tasks), limit: 10, lease: LEASE, wait: 2 };
while (!stopping) {
  try {
    const { jobs } = await call("job.claim", claim);
    await Promise.all(jobs.map(run));
  } catch (error) {
    console.error(error.message);
    await new Promise((later) => setTimeout(later, 1000));
  }
}
