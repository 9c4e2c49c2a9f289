// A cross over all plots of the page at once, moved by the pointer or by the arrow keys.
const plots = () => [...document.querySelectorAll("[data-plot]")];
const texts = (plot) => JSON.parse(plot.dataset.texts);

let place = null;

function show(share) {
  for (const plot of plots()) {
    const words = texts(plot);
    const here = share === null ? null : Math.min(words.length - 1, Math.max(0, Math.floor(share * words.length)));
    const cross = plot.querySelector(".cross");
    const drawing = plot.querySelector(".drawing");
    cross.setAttribute("visibility", here === null ? "hidden" : "visible");
    plot.querySelector(".readout").textContent = here === null ? "" : words[here];
    if (here === null) continue;
    const x = `${(100 * (here + 0.5)) / words.length}%`;
    cross.setAttribute("x1", x);
    cross.setAttribute("x2", x);
    drawing.setAttribute("aria-valuenow", String(here));
    drawing.setAttribute("aria-valuetext", words[here]);
  }
  place = share;
}

// Without this script a plot is a picture; with it, it is a slider over its steps.
function prepare(drawing) {
  const last = texts(drawing.closest("[data-plot]")).length - 1;
  drawing.tabIndex = 0;
  drawing.setAttribute("role", "slider");
  drawing.setAttribute("aria-label", drawing.querySelector("svg").getAttribute("aria-label"));
  drawing.setAttribute("aria-valuemin", "0");
  drawing.setAttribute("aria-valuemax", String(last));
  drawing.setAttribute("aria-valuenow", String(last));
}

function moved(event, drawing) {
  const count = texts(drawing.closest("[data-plot]")).length;
  const here = place === null ? count - 1 : Math.floor(place * count);
  const next = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: count - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  show((Math.min(count - 1, Math.max(0, next)) + 0.5) / count);
}

document.addEventListener("pointermove", (event) => {
  const drawing = event.target.closest?.("[data-plot] .drawing");
  if (drawing === null || drawing === undefined) {
    if (place !== null && document.activeElement?.closest(".drawing") === null) show(null);
    return;
  }
  const box = drawing.getBoundingClientRect();
  show((event.clientX - box.left) / box.width);
});
document.addEventListener("keydown", (event) => {
  const drawing = event.target.closest?.("[data-plot] .drawing");
  if (drawing !== null && drawing !== undefined) event.key === "Escape" ? show(null) : moved(event, drawing);
});
document.addEventListener("focusin", (event) => {
  const drawing = event.target.closest?.("[data-plot] .drawing");
  if (drawing !== null && drawing !== undefined && place === null) show(1);
});
document.addEventListener("focusout", () => show(null));
for (const plot of plots()) prepare(plot.querySelector(".drawing"));
