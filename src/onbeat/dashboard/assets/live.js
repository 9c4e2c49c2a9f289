// Pages that move by themselves: one stream a browser tells its tabs which of their sections changed.
import { morph, parse } from "./morph.js";

const sections = [...document.querySelectorAll("section[data-part]")];
const state = document.getElementById("live");
const channel = "BroadcastChannel" in window ? new BroadcastChannel("onbeat-live") : null;
const hiddenFor = 30000;
const pollEvery = 5000;
const leaveAfter = 2000;
const waitMax = 30000;

let paused = sessionStorage.getItem("onbeat-paused") === "yes";
let stream = null; // only in the tab that reads for all
let release = null; // hands the reading on to another tab
let waiting = null; // for the lock
let lastId = "";
let again = 0;
let timer = 0;
let poll = 0;
let condition = "live";
let staleSince = null; // when a section was last read that cannot be read now

function show(word, seconds = 0) {
  condition = word;
  const said = paused ? "paused" : word;
  state.dataset.state = said;
  const isStale = staleSince !== null && said !== "paused";
  state.textContent = isStale ? state.dataset.asOf.replace("{}", staleSince.toLocaleTimeString("en-GB")) : state.dataset[said].replace("{}", seconds);
  state.setAttribute("aria-pressed", String(paused));
}

// Sections

class Section {
  constructor(element) {
    this.element = element;
    this.on = element.dataset.on.split(" ");
    this.etag = "";
    this.newer = null;
    this.waits = { fresh: 0, other: 0 };
    this.busy = this.dirty = false;
    this.pause = 1000;
    this.asOf = new Date();
    for (const left of ["pointerout", "focusout"]) element.addEventListener(left, () => this.catchUpSoon());
  }

  // Whether what changed concerns this section; ids that are not told may be its own.
  isTouchedBy({ jobs, schedules, queues, flows, logs, faults, workers, alerts, more }) {
    const told = {
      job: jobs,
      schedule: schedules,
      queue: queues,
      flow: flows,
      log: logs,
      fault: faults,
    };
    return this.on.some((word) => {
      const [kind, id] = word.split(":");
      if (kind === "workers") return workers;
      if (kind === "alerts") return alerts;
      const ids = told[id === undefined ? kind.slice(0, -1) : kind];
      return ids !== undefined && (more > 0 || (id === undefined ? ids.length > 0 : ids.includes(id)));
    });
  }

  async refresh() {
    this.dirty = true;
    if (this.busy || paused || document.hidden) return;
    this.busy = true;
    this.dirty = false;
    try {
      await this.fetchOnce();
      this.pause = 1000;
      this.asOf = new Date();
      if (staleSince !== null) {
        staleSince = null;
        show(condition);
      }
    } catch {
      staleSince ??= this.asOf;
      show(condition);
      this.pause = Math.min(waitMax, this.pause * 2);
      this.dirty = true;
    }
    setTimeout(() => {
      this.busy = false;
      if (this.dirty) this.refresh();
    }, this.pause);
  }

  async fetchOnce() {
    const url = new URL(location.href);
    url.searchParams.set("part", this.element.dataset.part);
    const answer = await fetch(url, { headers: this.etag === "" ? {} : { "If-None-Match": this.etag }, credentials: "same-origin" });
    if (answer.status === 304) return;
    if (!answer.ok) throw new Error(answer.statusText);
    const text = await answer.text();
    this.etag = answer.headers.get("ETag") ?? "";
    this.bring(parse(text));
  }

  get isHeld() {
    const { element } = this;
    return element.matches(":hover") || element.contains(document.activeElement) || [...element.querySelectorAll(".scroll")].some((one) => one.scrollTop > 0);
  }

  bring(fresh) {
    if (paused) return;
    document.title = `${fresh.dataset.title} · Onbeat`;
    this.waits = morph(this.element, fresh, this.isHeld);
    this.newer = this.waits.fresh + this.waits.other > 0 ? fresh : null;
    announce();
  }

  // Once the pointer and the focus have been elsewhere for a moment.
  catchUpSoon() {
    clearTimeout(this.leaving);
    if (this.newer !== null) this.leaving = setTimeout(() => this.isHeld || this.catchUp(), leaveAfter);
  }

  catchUp() {
    if (this.newer === null) return;
    const fresh = this.newer;
    this.newer = null;
    this.waits = morph(this.element, fresh, false);
    announce();
  }
}

const parts = sections.map((element) => new Section(element));

// One button for all that waits; it takes no room.
function announce() {
  const fresh = parts.reduce((sum, part) => sum + (part.newer === null ? 0 : part.waits.fresh), 0);
  let button = document.getElementById("news");
  if (!parts.some((part) => part.newer !== null)) return button?.remove();
  if (button === null) {
    button = document.createElement("button");
    button.id = "news";
    button.type = "button";
    button.className = "first";
    button.addEventListener("click", () => parts.forEach((part) => part.catchUp()));
    document.body.append(button);
  }
  button.textContent = fresh > 0 ? state.dataset.new.replace("{}", fresh) : state.dataset.other;
}

const refreshAll = () => parts.forEach((part) => part.refresh());

function handle({ kind, data, id }) {
  lastId = id ?? lastId;
  if (kind === "all") refreshAll();
  if (kind === "pulse") parts.filter((part) => part.on.includes("pulse")).forEach((part) => part.refresh());
  if (kind === "changed") parts.filter((part) => part.isTouchedBy(data)).forEach((part) => part.refresh());
  if (kind === "state") show(data.word, data.seconds);
  if (kind === "hello" && release !== null) say(condition);
}

function tell(message) {
  handle(message);
  channel?.postMessage(message);
}

const say = (word, seconds = 0) => tell({ kind: "state", data: { word, seconds } });

// The stream

function connect() {
  clearInterval(poll);
  let opened = false;
  const after = lastId === "" ? "" : `&after=${lastId}`;
  stream = new EventSource(`/api/stream?events=pulse,changed${after}`);
  stream.addEventListener("open", () => {
    opened = true;
    // Without an id there is nothing to resume from.
    if (again > 0 && lastId === "") tell({ kind: "all" });
    again = 0;
    say("live");
  });
  for (const kind of ["pulse", "changed"]) {
    stream.addEventListener(kind, (event) => {
      tell({ kind, data: JSON.parse(event.data), id: event.lastEventId });
    });
  }
  for (const kind of ["gap", "reset"]) {
    stream.addEventListener(kind, (event) => {
      tell({ kind: "all", id: event.lastEventId || undefined });
    });
  }
  stream.addEventListener("error", () => {
    const refused = !opened && stream.readyState === EventSource.CLOSED;
    stream.close();
    if (refused) ask();
    else retry();
  });
}

// No stream for this browser: ask from time to time, and for the stream again once a minute.
function ask() {
  say("asking");
  tell({ kind: "all" });
  let times = 0;
  poll = setInterval(() => {
    times += 1;
    if (times % 12 === 0) connect();
    else tell({ kind: "all" });
  }, pollEvery);
}

function retry() {
  again += 1;
  let left = Math.min(waitMax, 1000 * 2 ** again) / 1000;
  clearInterval(timer);
  say("lost", left);
  timer = setInterval(() => {
    left -= 1;
    if (left > 0) return say("lost", left);
    clearInterval(timer);
    connect();
  }, 1000);
}

function disconnect() {
  clearInterval(timer);
  clearInterval(poll);
  stream?.close();
  stream = null;
}

// Reads for all tabs of the browser once no other tab does.
function begin() {
  if (release !== null || waiting !== null) return;
  if (navigator.locks === undefined || channel === null) {
    release = disconnect;
    connect();
    return;
  }
  waiting = new AbortController();
  const read = () => new Promise((resolve) => {
    waiting = null;
    release = () => {
      disconnect();
      resolve();
    };
    connect();
  });
  navigator.locks.request("onbeat-live", { signal: waiting.signal }, read).catch(() => {});
}

function end() {
  waiting?.abort();
  waiting = null;
  release?.();
  release = null;
}

function toggle() {
  paused = !paused;
  sessionStorage.setItem("onbeat-paused", paused ? "yes" : "no");
  show(condition);
  if (!paused) refreshAll();
}

let hiding = 0;
function onVisibility() {
  clearTimeout(hiding);
  if (document.hidden) hiding = setTimeout(end, hiddenFor);
  else {
    begin();
    refreshAll();
  }
}

if (sections.length > 0) {
  // It has its room at once, and says something once it knows.
  state.textContent = state.dataset.live;
  if (paused) show("live");
  state.addEventListener("click", toggle);
  let before = "";
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input,select,textarea,dialog")) return;
    if (event.key === "l" && before !== "g") toggle();
    before = event.key;
  });
  channel?.addEventListener("message", ({ data }) => handle(data));
  document.addEventListener("visibilitychange", onVisibility);
  channel?.postMessage({ kind: "hello" });
  if (!document.hidden) begin();
}
