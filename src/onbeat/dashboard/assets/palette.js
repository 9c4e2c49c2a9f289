// Ctrl K or : opens a list of what there is to go to: pages, schedules, queues, tasks, a job by its id.
import { callApi } from "./main.js";

const MOST = 12;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|^[0-9a-f]{32}$/i;
const dialog = document.getElementById("palette");
const input = dialog.querySelector("input");
const list = dialog.querySelector("[role=listbox]");
const jobs = dialog.dataset.search;
let known = [];
let shown = [];
let chosen = 0;
let asked = 0;

function pages() {
  return [...document.querySelectorAll(".nav a")].map((one) => ({
    kind: "page",
    word: one.textContent,
    path: one.getAttribute("href"),
  }));
}

// What the key may not read is left out.
async function names() {
  const [queues, workers] = await Promise.all(
    ["/api/queues?limit=1000", "/api/workers?jobs=0"].map((path) => callApi("GET", path).catch(() => null)),
  );
  const tasks = new Set((workers?.workers ?? []).flatMap((one) => one.tasks ?? []));
  return [
    ...(queues?.queues ?? []).map((one) => entry("queue", one.name, { queue: one.name })),
    ...[...tasks].sort().map((name) => entry("task", name, { task: name })),
  ];
}

function entry(kind, word, query) {
  return { kind, word, path: `${jobs}?${new URLSearchParams(query)}` };
}

async function schedules(text) {
  const answer = await callApi("GET", `/api/schedules?${new URLSearchParams({ q: text, limit: MOST })}`).catch(() => null);
  return (answer?.schedules ?? []).map((one) => ({
    kind: "schedule",
    word: one.name,
    path: `/schedules/${encodeURIComponent(one.id)}`,
  }));
}

function show(found) {
  shown = found.slice(0, MOST);
  chosen = 0;
  list.replaceChildren(
    ...shown.map((one, place) => {
      const item = document.createElement("li");
      item.id = `palette-${place}`;
      item.setAttribute("role", "option");
      const kind = document.createElement("span");
      kind.className = "small";
      kind.textContent = one.kind;
      item.append(one.word, kind);
      item.addEventListener("click", () => location.assign(one.path));
      return item;
    }),
  );
  mark();
}

function mark() {
  [...list.children].forEach((item, place) => item.setAttribute("aria-selected", String(place === chosen)));
  if (shown.length > 0) input.setAttribute("aria-activedescendant", `palette-${chosen}`);
  else input.removeAttribute("aria-activedescendant");
}

async function look() {
  const text = input.value.trim();
  const small = text.toLowerCase();
  const mine = (asked += 1);
  const fits = (one) => one.word.toLowerCase().includes(small);
  const job = ID.test(text) ? [{ kind: "job", word: text, path: `${jobs}/${encodeURIComponent(text)}` }] : [];
  const search = text === "" ? [] : [{ kind: "search of jobs", word: text, path: `${jobs}?${new URLSearchParams({ q: text })}` }];
  show([...job, ...pages().filter(fits), ...known.filter(fits).slice(0, MOST - 2), ...search]);
  if (text === "" || job.length > 0) return;
  const found = await schedules(text);
  if (mine === asked) show([...pages().filter(fits), ...found, ...known.filter(fits), ...search]);
}

async function open() {
  if (document.querySelector("dialog[open]") !== null) return;
  input.value = "";
  dialog.showModal();
  look();
  if (known.length === 0) {
    known = await names();
    if (dialog.open) look();
  }
}

input.addEventListener("input", look);
input.addEventListener("keydown", (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step !== undefined && shown.length > 0) {
    event.preventDefault();
    chosen = (chosen + step + shown.length) % shown.length;
    mark();
  }
  if (event.key === "Enter" && shown[chosen] !== undefined) {
    event.preventDefault();
    location.assign(shown[chosen].path);
  }
});

document.addEventListener("keydown", (event) => {
  // A dialog that has just closed keeps the focus until the page is drawn again.
  const isOver = event.target.closest("dialog:not([open])") !== null;
  const inside = isOver ? null : event.target.closest("input:not([type=checkbox]),select,textarea,dialog");
  const isSingle = event.key === ":" && inside === null && localStorage.getItem("onbeat-keys-off") === null;
  const isChord = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey;
  if (!isSingle && !isChord) return;
  event.preventDefault();
  open();
});
