// Uses the generated types with openapi-fetch against a running service: node use_typescript_client.js URL.
// Compiled too: the types must say what the API takes and gives.
import createClient from "openapi-fetch";
import type { components, paths } from "./types.js";

declare const process: { argv: string[] };

type Query = paths["/api/jobs"]["get"]["parameters"]["query"];
type Job = components["schemas"]["JobInfo"];

// @ts-expect-error a state that does not exist
export const wrong: Query = { state: "faild" };

// @ts-expect-error a field that does not exist
export const unknown: components["schemas"]["EnqueueBody"] = { tasc: "mail.welcome" };

const client = createClient<paths>({ baseUrl: process.argv[2] ?? "" });

function check(fact: boolean, what: string): void {
  if (!fact) throw new Error(what);
}

function given<Value>(answer: { data?: Value; error?: unknown }): Value {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

async function useJobs(): Promise<void> {
  const body = { task: "mail.hello", args: [7, { deep: [null] }], kwargs: { language: "de" }, delay: "1h" };
  const sent = given(await client.POST("/api/jobs", { body }));
  const path = { id: sent.id ?? "" };
  const job: Job = given(await client.GET("/api/jobs/{id}", { params: { path } }));
  check(job.state === "waiting", "it waits");
  check(JSON.stringify(job.target.args) === '[7,{"deep":[null]}]', "it has its arguments");
  const query: Query = { task: "mail.hello", limit: 5 };
  const listed = given(await client.GET("/api/jobs", { params: { query } }));
  check(listed.jobs.length === 1 && listed.jobs[0]?.id === sent.id, "it is listed");
  const dry = { do: "cancel", where: { task: "mail.hello" }, dry_run: true } as const;
  check(given(await client.POST("/api/jobs/bulk", { body: dry })).count === 1, "it is counted");
  const cancelled = await client.POST("/api/jobs/{id}/cancel", { params: { path }, body: { reason: "x" } });
  check(given(cancelled).state === "cancelled", "it is cancelled");
}

async function useSchedules(): Promise<void> {
  const body = { name: "digest", every: "1h", target: { task: "mail.digest" } };
  const path = { id: given(await client.POST("/api/schedules", { body })).id };
  const shown = given(await client.GET("/api/schedules/{id}", { params: { path } }));
  check(typeof shown.next_at === "string", "it fires");
  check(given(await client.DELETE("/api/schedules/{id}", { params: { path } })).message !== "", "it goes");
}

async function useErrors(): Promise<void> {
  const path = { id: "01900000-0000-7000-8000-00000000ffff" };
  const absent = await client.GET("/api/jobs/{id}", { params: { path } });
  check(absent.response.status === 404 && absent.error?.error.code === "not_found", "it is absent");
}

for (const use of [useJobs, useSchedules, useErrors]) {
  await use();
  console.log(`  ${use.name}: ok`);
}
