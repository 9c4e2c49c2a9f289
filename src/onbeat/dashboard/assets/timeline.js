// The timeline: now moves on, buckets and marks are told in words, and days follow keys and drags.
const ground = document.querySelector(".ground");
const first = Number(ground?.dataset.first);
const last = Number(ground?.dataset.last);
const opened = Date.now();
const label = document.querySelector(".axis .now");

// The clock of the page is the server's: only what has passed since is this machine's.
const line = ground?.querySelector(".now") ?? null;
const beginning = line === null ? null : Number(ground.dataset.now);

// In the zone of the page, which may be another than the browser's.
function clock(at, parts) {
  return new Intl.DateTimeFormat("en-GB", { timeZone: ground.dataset.zone, ...parts }).format(new Date(Math.round(at / 1000) * 1000));
}

function moveNow() {
  if (beginning === null) return;
  const now = beginning + (Date.now() - opened);
  if (now >= last) return location.reload();
  const share = `${((now - first) / (last - first)) * 100}%`;
  line.setAttribute("x1", share);
  line.setAttribute("x2", share);
  label?.setAttribute("x", share);
  if (label) label.textContent = `${clock(now, { hour: "2-digit", minute: "2-digit" })} now`;
  const future = ground.querySelector(".future");
  future.setAttribute("x", share);
  future.setAttribute("width", `${((last - now) / (last - first)) * 100}%`);
}
setInterval(moveNow, 1000);

const tip = document.createElement("div");
tip.className = "tip";
tip.setAttribute("role", "status");
tip.hidden = true;
document.body.append(tip);

function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  tip.style.left = `${Math.min(x + scrollX, document.documentElement.clientWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${y + scrollY + 8}px`;
}

const hideTip = () => (tip.hidden = true);

const shareAt = (seconds) => (100000 * Number(seconds)) / (last - first);

// To the microsecond: a bucket ends where now was.
function instant(seconds) {
  const at = Math.round(first * 1000) + Math.round(Number(seconds) * 1e6);
  const text = new Date(Math.floor(at / 1000)).toISOString().slice(0, 19);
  const rest = at % 1e6;
  return rest === 0 ? `${text}Z` : `${text}.${String(rest).padStart(6, "0")}Z`;
}

function bucketsOf(track) {
  return track.dataset.buckets.split(";").filter(Boolean).map((text) => {
    const [since, until, ...words] = text.split(",");
    return { since, until, from: shareAt(since), to: shareAt(until), words: words.join(",") };
  });
}

// The link of a lane of counts leads to the jobs of one bucket.
function aim(track, bucket) {
  const many = track.querySelector(".many");
  const target = new URL(many.getAttribute("href"), location.href);
  target.searchParams.set("since", instant(bucket.since));
  target.searchParams.set("until", instant(bucket.until));
  many.setAttribute("href", target.pathname + target.search);
}

const timeAt = (share) => clock(first + (share / 100) * (last - first), { weekday: "short", hour: "2-digit", minute: "2-digit" });

const said = (bucket) => `${timeAt(bucket.from)} to ${timeAt(bucket.to)}: ${bucket.words}`;

function point(event) {
  const track = event.target.closest?.(".track[data-buckets]");
  if (!track) return event.target.closest?.(".mark") ? undefined : hideTip();
  const box = track.getBoundingClientRect();
  const share = ((event.clientX - box.left) / box.width) * 100;
  const found = bucketsOf(track).find((one) => one.from <= share && share < one.to);
  if (found === undefined) return hideTip();
  aim(track, found);
  showTip(said(found), event.clientX, box.bottom);
}
document.addEventListener("pointermove", point);
document.addEventListener("pointerdown", point);

// What pointing tells, focus tells too; arrow keys go from bucket to bucket.
let place = -1;
document.addEventListener("focusin", (event) => {
  hideTip();
  place = -1;
  const mark = event.target.closest(".mark, .many");
  if (mark === null) return;
  const box = mark.getBoundingClientRect();
  const title = mark.querySelector("title")?.textContent ?? mark.closest(".track").getAttribute("aria-label");
  showTip(title, box.left, box.bottom);
});

function step(many, by) {
  const track = many.closest(".track");
  const buckets = bucketsOf(track);
  if (buckets.length === 0) return;
  place = Math.min(Math.max(place + by, 0), buckets.length - 1);
  const box = track.getBoundingClientRect();
  aim(track, buckets[place]);
  showTip(said(buckets[place]), box.left + (buckets[place].from / 100) * box.width, box.bottom);
}

const follow = (key) => document.querySelector(`[data-key="${key}"]`)?.click();

function zoom(by) {
  const spans = [...document.querySelectorAll(".segments a")];
  const at = spans.findIndex((one) => one.getAttribute("aria-current") !== null);
  spans[at + by]?.click();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input,select,textarea,dialog")) return;
  if (event.key === "Escape") hideTip();
  const many = event.target.closest(".many");
  if (many !== null && (event.key === "ArrowLeft" || event.key === "ArrowRight")) {
    event.preventDefault();
    step(many, event.key === "ArrowRight" ? 1 : -1);
  } else if (["[", "]", "0"].includes(event.key)) follow(event.key);
  else if (event.key === "+") zoom(-1);
  else if (event.key === "-") zoom(1);
});

// A drag or a swipe of a quarter of the width leads to the day before or after, as the buttons do.
let dragged = null;
let wasDragged = false;
const lanes = document.querySelector(".timeline .lanes");
lanes?.addEventListener("pointerdown", (event) => (dragged = { x: event.clientX, y: event.clientY }));
document.addEventListener("pointercancel", () => (dragged = null));
document.addEventListener("pointerup", (event) => {
  if (dragged === null) return;
  const across = event.clientX - dragged.x;
  const isAcross = Math.abs(across) > 2 * Math.abs(event.clientY - dragged.y);
  dragged = null;
  if (!isAcross || Math.abs(across) <= lanes.clientWidth / 4) return;
  // The click that follows is of the drag, not of the link under it.
  wasDragged = true;
  setTimeout(() => {
    wasDragged = false;
    follow(across > 0 ? "[" : "]");
  });
});
lanes?.addEventListener("click", (event) => wasDragged && event.preventDefault(), true);
lanes?.addEventListener("dragstart", (event) => event.preventDefault());
