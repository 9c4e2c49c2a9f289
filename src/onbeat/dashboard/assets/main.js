// What pages do beyond reading: buttons that call the API, the theme, and the zone.
import { cookie, isFirstVisit, remember } from "./cookies.js";
import "./plots.js";

const root = document.documentElement;

// The server renders times in the zone of the cookie, so a first visit is rendered again.
const zone = cookie("onbeat-zone");
if (isFirstVisit && zone !== "" && zone !== root.dataset.zone) location.reload();

// `undo` is the path of the call that takes back what was done.
export function say(text, kind = "", undo = undefined) {
  const toast = document.createElement("p");
  toast.className = `toast ${kind}`;
  toast.textContent = text;
  if (undo !== undefined) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = "Undo";
    Object.assign(button.dataset, { call: "POST", path: undo, done: "Taken back" });
    toast.append(" ", button);
  }
  document.querySelector(".toasts").append(toast);
  setTimeout(() => toast.remove(), undo === undefined ? 8000 : 20000);
}

// Said on the page that comes next.
export function sayAfterwards(text, undo) {
  sessionStorage.setItem("onbeat-said", JSON.stringify({ text, undo }));
}

// Calls the API as the session's key; the header tells that a page of ours does it.
export async function callApi(method, path, body) {
  const headers = { "Content-Type": "application/json" };
  const session = document.querySelector('meta[name="onbeat-view"]');
  if (session !== null) headers["Onbeat-View"] = session.content;
  const answer = await fetch(path, { method, headers, body, credentials: "same-origin" });
  const text = await answer.text();
  const json = text === "" ? null : JSON.parse(text);
  if (!answer.ok) throw new Error(json?.error?.message ?? answer.statusText);
  return json;
}

export function confirmed(question, verb) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("p").textContent = question;
  dialog.querySelector("button.first").textContent = verb;
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

async function act(button) {
  const { call, path, body, question, done, leads, undo } = button.dataset;
  if (question !== undefined && !(await confirmed(question, button.textContent.trim()))) return;
  button.disabled = true;
  try {
    await callApi(call, path, body ?? "{}");
    sayAfterwards(done ?? "Done", undo);
    if (leads === undefined) location.reload();
    else location.assign(leads);
  } catch (error) {
    button.disabled = false;
    say(error.message, "fail");
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button === null) return;
  if (button.dataset.call !== undefined) act(button);
  if (button.dataset.theme !== undefined) {
    remember("onbeat-theme", button.dataset.theme);
    location.reload();
  }
});

const said = sessionStorage.getItem("onbeat-said");
if (said !== null) {
  sessionStorage.removeItem("onbeat-said");
  const { text, undo } = JSON.parse(said);
  say(text, "", undo);
}
