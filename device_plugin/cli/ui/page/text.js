// How values are written. Everything that comes from the cluster is text: it is set as textContent, never as markup.

import { CHINESE, digits } from "./language.js";

export { digits };

const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;
const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];

/** The text with characters that show nothing, or that turn the direction of others, replaced. */
export function shown(text) {
  return String(text ?? "").replace(HIDDEN, "\uFFFD");
}

/** An element with a class and a text; the text is kept apart from the direction of what is around it. */
export function element(tag, name = "", text = null) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== null) made.textContent = shown(text);
  return made;
}

/** An element that holds a name which somebody chose. */
export function named(tag, name, text) {
  const made = element(tag, name);
  made.append(element("bdi", "", text));
  return made;
}

/** Set a text if it is another one: most changes leave most texts as they are. */
export function say(node, text) {
  const wanted = shown(text);
  if (node.textContent !== wanted) node.textContent = wanted;
}

/** MiB in the largest unit that leaves few digits: `4 GiB`, `11.5 GiB`, `512 MiB`. */
export function memory(mib) {
  if (mib >= 1048576) return `${round(mib / 1048576)} TiB`;
  if (mib >= 1024) return `${round(mib / 1024)} GiB`;
  return `${mib} MiB`;
}

function round(value) {
  return digits(value >= 100 ? Math.round(value) : Math.round(value * 10) / 10);
}

/** The time since `text` (as Kubernetes writes times) as kubectl shows ages: `5m`, `3h12m`. */
export function age(text) {
  const began = typeof text === "number" ? text * 1000 : Date.parse(text);
  return Number.isFinite(began) && began > 0 ? span((Date.now() - began) / 1000) : "";
}

/** An element that says how long ago a time was, after some words; `ages` brings it up to date. */
export function aged(tag, name, since, words = "") {
  const made = element(tag, `${name} aged`, age(since) && `${words}${age(since)}`);
  made.age = { since, words };
  return made;
}

/** Bring all ages of the page up to date. */
export function ages() {
  for (const node of document.querySelectorAll(".aged")) {
    const { since, words } = node.age;
    say(node, age(since) && `${words}${age(since)}`);
  }
}

export function span(seconds) {
  let left = Math.max(0, Math.floor(seconds));
  const parts = [];
  for (const [unit, size] of UNITS) {
    if (left >= size && parts.length < 2) {
      parts.push(`${Math.floor(left / size)}${unit}`);
      left %= size;
    } else if (parts.length) break;
  }
  return parts.join("") || "0s";
}

/** Runs of ids as people write them: `0-14, 20`. */
export function ranges(runs) {
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
}

/** The text as a sentence. */
export function sentence(text) {
  if (!text) return "";
  const end = CHINESE && /[^\p{ASCII}]$/u.test(text) ? "。" : ".";
  return `${text[0].toUpperCase()}${text.slice(1)}${/[.!?。！？]$/.test(text) ? "" : end}`;
}

/** Negative if one comes before the other, 0 if they are equal. */
export function compared(one, other) {
  return one < other ? -1 : one > other ? 1 : 0;
}
