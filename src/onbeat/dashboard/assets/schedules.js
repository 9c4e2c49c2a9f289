// Pauses or resumes the selected schedules, one after the other: counted first, then told.
import { callApi, confirmed, say, sayAfterwards } from "./main.js";

const boxes = () => [...document.querySelectorAll("input[data-schedule]")];
// What is paused can be resumed; all others, also finished ones, can be paused.
const verbOf = (box) => (box.dataset.schedule === "paused" ? "resume" : "pause");
const chosen = (verb) => boxes().filter((box) => box.checked && verbOf(box) === verb);
const many = (count) => `${count} schedule${count === 1 ? "" : "s"}`;

// A button is there while it can do something, and says how much.
function name() {
  for (const button of document.querySelectorAll("[data-all-selected]")) {
    const count = chosen(button.dataset.allSelected).length;
    if (button.disabled !== (count === 0)) button.disabled = count === 0;
    const text = count === 0 ? button.dataset.word : button.dataset.some.replace("{}", many(count));
    if (button.textContent !== text) button.textContent = text;
  }
  const all = document.querySelector("[data-select-all]");
  if (all !== null) all.checked = boxes().length > 0 && boxes().every((box) => box.checked);
}

document.addEventListener("change", (event) => {
  if (event.target.dataset.selectAll !== undefined) {
    for (const box of boxes()) box.checked = event.target.checked;
  }
  name();
});

async function act(button) {
  const ids = chosen(button.dataset.allSelected).map((box) => box.value);
  const question = button.dataset.question.replace("{}", many(ids.length));
  if (!(await confirmed(question, button.textContent))) return;
  button.disabled = true;
  let done = 0;
  try {
    for (const id of ids) {
      await callApi("POST", `/api/schedules/${encodeURIComponent(id)}/${button.dataset.allSelected}`, "{}");
      done += 1;
    }
    sayAfterwards(`${button.dataset.done} ${many(done)}`);
    location.reload();
  } catch (error) {
    say(`${button.dataset.done} ${many(done)} of ${ids.length}. Then: ${error.message}`, "fail");
    name();
  }
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-all-selected]");
  if (button !== null) act(button);
});

// Rows that came by themselves have boxes too, and what came anew has the buttons of no selection.
new MutationObserver(name).observe(document.querySelector("main"), {
  childList: true, subtree: true, characterData: true, attributeFilter: ["disabled", "data-schedule"],
});
name();
