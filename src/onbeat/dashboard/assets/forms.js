// Forms with a preview that follows typing. The server renders it, so it is the same without script.
const pause = 250;
const form = document.querySelector("form[data-preview], form[data-groups]");

function showGroups() {
  for (const group of form.querySelectorAll("[data-when]")) {
    const choice = form.elements[group.dataset.when];
    group.hidden = choice !== undefined && choice.value !== group.dataset.is;
  }
}

// The answer to what was typed last wins; earlier requests are given up.
let newest = 0;
let running = null;

function preview() {
  newest += 1;
  const number = newest;
  running?.abort();
  running = new XMLHttpRequest();
  const request = running;
  request.open("POST", form.action);
  request.responseType = "document";
  request.setRequestHeader("Content-Type", "application/x-www-form-urlencoded");
  request.onload = () => {
    if (number === newest) show(request.response);
  };
  const fields = new URLSearchParams(new FormData(form));
  fields.set("intent", "preview");
  request.send(fields);
}

// Inputs stay as they are: only the preview and the faults under the fields change.
function show(page) {
  const next = page?.getElementById("preview");
  if (next === null || next === undefined) return;
  const shown = document.getElementById("preview");
  const held = shown.contains(document.activeElement) ? document.activeElement.value : null;
  shown.replaceChildren(...[...next.childNodes].map((node) => document.importNode(node, true)));
  shown.dataset.number = String(newest);
  if (held !== null) shown.querySelector(`button[value="${CSS.escape(held)}"]`)?.focus();
  for (const caret of form.querySelectorAll("[data-caret]")) caret.textContent = page.getElementById(caret.id)?.textContent ?? "";
  for (const fault of form.querySelectorAll("[data-fault]")) {
    const found = page.getElementById(fault.id);
    fault.textContent = found?.textContent ?? "";
    const field = document.getElementById(`field-${fault.dataset.fault}`);
    if (fault.textContent === "") field?.removeAttribute("aria-invalid");
    else field?.setAttribute("aria-invalid", "true");
  }
}

if (form !== null) {
  let timer = 0;
  form.addEventListener("input", () => {
    showGroups();
    if (form.dataset.preview === undefined) return;
    clearTimeout(timer);
    timer = setTimeout(preview, pause);
  });
  showGroups();
}

// Limits of queues: what was typed is given up by Escape.
document.addEventListener("keydown", (event) => {
  const input = event.target.closest?.("[data-limits] input");
  if (event.key !== "Escape" || input === null || input === undefined) return;
  input.form.reset();
  input.closest("details").open = false;
  input.closest("details").querySelector("summary").focus();
});
