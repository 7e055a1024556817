// The language of the page: the one that somebody chose here, else the browser's first that the page has.

import { TEXTS } from "./texts.js";

const KEY = "language";
const CODES = ["en", "zh"];
// The languages as HTML and people name them.
const TAGS = ["en", "zh-CN"];
const NAMES = ["English", "中文"];
const PLACEHOLDER = /\{(\w+)(?::([^|}]*)\|([^}]*))?\}/g;

const kept = () => {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
};
const wanted = [kept(), ...navigator.languages.map((each) => each.slice(0, 2).toLowerCase())];
const index = Math.max(0, CODES.indexOf(wanted.find((each) => CODES.includes(each))));

/** True if the page's sentences end as Chinese ones do. */
export const CHINESE = CODES[index] === "zh";

/** The text of a key, with values in place of its placeholders. */
export function t(key, values = {}) {
  return TEXTS[key][index].replace(PLACEHOLDER, (_, name, one, many) => {
    const value = values[name];
    const text = typeof value === "number" ? digits(value) : value;
    return one === undefined ? text : `${text} ${value === 1 ? one : many}`;
  });
}

/** The text of a key that is made of a word of the server's; the word itself where the page has no text for it. */
export function known(prefix, word) {
  return Object.hasOwn(TEXTS, `${prefix}${word}`) ? t(`${prefix}${word}`) : word;
}

/** A number with a comma between each three digits. The browser's own way takes 50 ms the first time. */
export function digits(value) {
  const [whole, part] = String(value).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return part ? `${grouped}.${part}` : grouped;
}

/** Fill the texts of the document, and the choice of the language. */
export function translate(choice) {
  document.documentElement.lang = TAGS[index];
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const [name, attribute] of [["tLabel", "aria-label"], ["tHint", "placeholder"]]) {
    const marked = document.querySelectorAll(name === "tLabel" ? "[data-t-label]" : "[data-t-hint]");
    for (const node of marked) node.setAttribute(attribute, t(node.dataset[name]));
  }
  CODES.forEach((code, i) => {
    const option = document.createElement("option");
    option.value = code;
    option.lang = TAGS[i];
    option.textContent = NAMES[i];
    choice.append(option);
  });
  choice.value = CODES[index];
  choice.addEventListener("change", () => {
    try {
      localStorage.setItem(KEY, choice.value);
    } catch {
      // Without storage the language of the browser stays.
    }
    location.reload();
  });
}
