// Compiled only: the generated types must say what the API takes and gives.
import type { components, paths } from "./types";

type Job = components["schemas"]["EnqueueBody"];
type Query = paths["/api/jobs"]["get"]["parameters"]["query"];

export const job: Job = {
  task: "mail.welcome",
  args: [7, { deep: [null] }],
  kwargs: { language: "de", n: 1 },
};
export const query: Query = { state: "failed", limit: 10 };

export function pathOf(answer: components["schemas"]["JobInfo"]): string {
  const first: unknown = answer.target.args?.[0];
  return `${answer.id} ${String(first)}`;
}

// @ts-expect-error a state that does not exist
export const wrong: Query = { state: "faild" };
