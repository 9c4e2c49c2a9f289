// Brings a section up to date with a newer text of it, without moving what somebody uses.
const policy = window.trustedTypes?.createPolicy("onbeat", { createHTML: (text) => text }) ?? { createHTML: (text) => text };

// The first element of a text that our own server rendered.
export function parse(text) {
  return new DOMParser().parseFromString(policy.createHTML(text), "text/html").body.firstElementChild;
}

const rows = new Set(["TR", "LI"]);
const fields = new Set(["INPUT", "SELECT", "TEXTAREA"]);
// What people change themselves.
const theirs = new Set(["open", "value", "checked", "selected", "disabled"]);

// What a row or an element is known by from one text to the next.
function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  return node.id || node.dataset.key || (rows.has(node.tagName) ? node.querySelector("a[href]")?.getAttribute("href") : "") || "";
}

function isSame(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

function isSelected(node) {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(node, true);
}

function isInUse(element) {
  if (fields.has(element.tagName)) {
    const changed = element.tagName === "SELECT" ? [...element.options].some((one) => one.selected !== one.defaultSelected)
      : element.type === "checkbox" || element.type === "radio" ? element.checked !== element.defaultChecked
      : element.value !== element.defaultValue;
    return changed || element === document.activeElement;
  }
  // A button must do what it said when the pointer came to it.
  return (element.tagName === "BUTTON" || element.tagName === "A") && (element === document.activeElement || element.matches(":hover"));
}

function morphAttributes(old, fresh) {
  const isField = fields.has(old.tagName) || old.tagName === "DETAILS" || old.tagName === "OPTION";
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !(isField && theirs.has(name))) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !(isField && theirs.has(name) && name !== "value")) old.setAttribute(name, value);
  }
}

// Changes `old` into `fresh`. Where `held`, no element comes, goes or moves: what waits is counted.
export function morph(old, fresh, held) {
  const waits = { fresh: 0, other: 0 };
  change(old, fresh, held, waits);
  return waits;
}

function change(old, fresh, held, waits) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== fresh.data && !isSelected(old)) old.data = fresh.data;
    return;
  }
  const inUse = isInUse(old);
  // A box that somebody has checked stays so, and yet tells what its row has become.
  if (!inUse || old.type === "checkbox") morphAttributes(old, fresh);
  if (inUse) return;
  changeChildren(old, fresh, held, waits);
}

function changeChildren(old, fresh, held, waits) {
  const left = [...old.childNodes];
  const matched = [...fresh.childNodes].map((node) => {
    const at = left.findIndex((one) => isSame(one, node));
    return [node, at < 0 ? null : left.splice(at, 1)[0]];
  });
  if (held) {
    for (const [node, known] of matched) {
      if (known !== null) change(known, node, held, waits);
      else if (rows.has(node.nodeName)) waits.fresh += 1;
      else if (node.nodeType === Node.ELEMENT_NODE) waits.other += 1;
    }
    waits.other += left.filter((node) => node.nodeType === Node.ELEMENT_NODE).length;
    return;
  }
  for (const node of left) node.remove();
  let place = old.firstChild;
  for (const [node, known] of matched) {
    if (known === null) old.insertBefore(document.importNode(node, true), place);
    else {
      if (known === place) place = place.nextSibling;
      else old.insertBefore(known, place);
      change(known, node, held, waits);
    }
  }
}
