// What is picked in a list beside the search is written into its line. Without script the server does it.
const WORD = /(?:[a-z_]+:)?(?:"[^"]*"|[^\s"]+)/g;
const quoted = (text) => (/\s/.test(text) ? `"${text.replaceAll('"', " ").trim()}"` : text);

document.addEventListener("change", (event) => {
  const name = event.target.dataset.pick;
  if (name === undefined) return;
  const line = event.target.form.elements.q;
  const isOther = (word) => !word.startsWith(`${name}:`) && (name !== "task" || /^"|:/.test(word));
  const words = (line.value.match(WORD) ?? []).filter(isOther);
  const text = event.target.value;
  line.value = [...words, ...(text === "" ? [] : [`${name}:${quoted(text)}`])].join(" ");
});
