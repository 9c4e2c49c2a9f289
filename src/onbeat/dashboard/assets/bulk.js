// Acts on all jobs that match, or on the selected ones: counted first, then shown while it goes on.
import { callApi, say, sayAfterwards } from "./main.js";

const TYPED_OVER = 10000;
const dialog = document.getElementById("bulk");
const when = dialog.querySelector("[data-when] input");
const boxes = () => [...document.querySelectorAll("input[data-job]")];
const selected = () => boxes().filter((box) => box.checked).map((box) => box.value);
const thin = new Intl.NumberFormat("en-US");

// Buttons say what they act on.
function name() {
  const ids = selected();
  for (const button of document.querySelectorAll("[data-bulk]")) {
    const { all, some } = button.dataset;
    button.textContent = ids.length === 0 ? all : some.replace("{}", thin.format(ids.length));
  }
  const all = document.querySelector("[data-select-all]");
  if (all !== null) all.checked = ids.length > 0 && ids.length === boxes().length;
}

document.addEventListener("change", (event) => {
  if (event.target.dataset.selectAll !== undefined) {
    for (const box of boxes()) box.checked = event.target.checked;
  }
  name();
});

// Where the rows are not all of one state, the action is for the state that the count names.
function filterOf(button) {
  const where = JSON.parse(button.dataset.where);
  const ids = selected();
  return ids.length === 0 ? where : { ...where, ids };
}

async function begin(button) {
  const wanted = { do: button.dataset.bulk, where: filterOf(button) };
  button.disabled = true;
  try {
    const any = isPutOff(wanted.do) ? { delay: 0 } : {};
    const counted = await callApi("POST", "/api/jobs/bulk", JSON.stringify({ ...wanted, ...any, dry_run: true }));
    if (await agreed(wanted.do, counted)) {
      const body = { ...wanted, ...due(wanted.do), ...(counted.upto === null ? {} : { upto: counted.upto }) };
      await callApi("POST", "/api/jobs/bulk", JSON.stringify(body));
      sayAfterwards(dialog.dataset.begun);
      location.reload();
    }
  } catch (error) {
    say(error.message, "fail");
  } finally {
    button.disabled = false;
  }
}

const isPutOff = (action) => action === "reschedule";

// An instant, or how long from now.
function due(action) {
  const text = when.value.trim();
  if (!isPutOff(action)) return {};
  return /^\d.*T/i.test(text) ? { run_at: text } : { delay: text };
}

function agreed(action, counted) {
  const [[state, count]] = Object.entries(counted.states);
  const first = dialog.querySelector("button.first");
  const typed = dialog.querySelector("[data-typed]");
  const number = `${counted.more ? "more than " : ""}${thin.format(count)} ${state} job${count === 1 ? "" : "s"}`;
  dialog.querySelector("h2").textContent = count === 0 ? dialog.dataset.none.replace("{}", state) : `${number}.`;
  dialog.querySelector("ul").replaceChildren(...counted.sample.map(line));
  first.textContent = `${dialog.dataset[action]} ${number}`;
  first.hidden = count === 0;
  typed.hidden = count <= TYPED_OVER;
  typed.querySelector("input").value = "";
  when.value = "";
  when.parentElement.hidden = !isPutOff(action) || count === 0;
  const check = () => {
    const isTyped = count <= TYPED_OVER || typed.querySelector("input").value.replace(/\D/g, "") === String(count);
    first.disabled = !isTyped || (isPutOff(action) && when.value.trim() === "");
  };
  dialog.oninput = check;
  check();
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

function line(job) {
  const item = document.createElement("li");
  item.textContent = `${job.target.task ?? job.id} ${(job.error ?? "").trim().split("\n").pop()}`.slice(0, 120);
  return item;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-bulk]");
  if (button !== null) begin(button);
});

// The panel of each bulk that goes on, until it has ended.
async function follow(panel) {
  const bulk = await callApi("GET", `/api/bulks/${encodeURIComponent(panel.dataset.follows)}`).catch(() => null);
  if (bulk !== null) {
    const met = bulk.done + bulk.skipped + bulk.failed;
    const bar = panel.querySelector("progress");
    bar.max = Math.max(1, bulk.counted, met);
    bar.value = met;
    for (const part of ["done", "skipped", "failed"]) {
      panel.querySelector(`[data-count=${part}]`).textContent = thin.format(bulk[part]);
    }
    if (bulk.state !== "waiting") {
      panel.querySelector("[data-state]").textContent = bulk.state;
      for (const button of panel.querySelectorAll("button[data-call]")) button.textContent = panel.dataset.stop;
    }
    if (bulk.finished_at !== null) {
      for (const button of panel.querySelectorAll("button[data-call]")) button.remove();
      panel.querySelector("[data-again]").hidden = false;
      return;
    }
  }
  setTimeout(() => follow(panel), 1000);
}

for (const panel of document.querySelectorAll("[data-follows]")) follow(panel);
name();
