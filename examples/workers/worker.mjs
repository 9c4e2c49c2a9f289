// A worker in JavaScript without a dependency: node worker.mjs [SERVICE_URL] [API_KEY]
//
// It claims jobs of the tasks below from a service, renews their leases while it works, and reports
// their outcomes. The return value of a function is the job's result; a throw fails the attempt.

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

// The result of a method of the service; throws the service's error.
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
  // The service accepts a report only with the job's current token, so repeating is harmless.
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
