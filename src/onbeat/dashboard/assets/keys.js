// Single keys, outside of inputs only; the page of keys switches them off.
const OFF = "onbeat-keys-off";
const isOff = () => localStorage.getItem(OFF) !== null;

const rows = () => [...document.querySelectorAll("main tbody tr")];
let before = "";

function move(step) {
  const all = rows();
  if (all.length === 0) return;
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[Math.max(0, Math.min(all.length - 1, at + step))] ?? all[0];
  const target = next.querySelector("a");
  target?.focus();
  next.scrollIntoView({ block: "nearest" });
}

const boxOfRow = () => document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]");

function press(selector) {
  const button = document.querySelector(selector);
  if (button === null || button.disabled) return false;
  button.click();
  return true;
}

const ACTS = {
  j: () => move(1),
  k: () => move(-1),
  x: () => boxOfRow()?.click(),
  X: () => press("[data-select-all]"),
  r: () => press("main [data-key=r]"),
  c: () => press("main [data-key=c]"),
  "?": () => location.assign("/help"),
  "/": () => document.querySelector("main [data-search], .head input[type=search]")?.focus(),
};

document.addEventListener("keydown", (event) => {
  const inside = event.target.closest("input:not([type=checkbox]),select,textarea,dialog");
  if (isOff() || event.ctrlKey || event.metaKey || event.altKey || inside) return;
  const pages = JSON.parse(document.querySelector(".nav").dataset.keys);
  const act = ACTS[event.key];
  if (before === "g" && pages[event.key] !== undefined) location.assign(pages[event.key]);
  else if (act !== undefined) {
    event.preventDefault();
    act();
  }
  before = event.key;
});

const toggle = document.querySelector("[data-single-keys]");
if (toggle !== null) {
  const words = [toggle.textContent, toggle.dataset.singleKeys];
  const show = () => (toggle.textContent = words[isOff() ? 1 : 0]);
  toggle.addEventListener("click", () => {
    if (isOff()) localStorage.removeItem(OFF);
    else localStorage.setItem(OFF, "1");
    show();
  });
  show();
}
