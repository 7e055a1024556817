// A command of the terminal, with a button that copies it.

import { t } from "./language.js";
import { element, say } from "./text.js";

// Milliseconds for which the button says that the command was copied.
const SAID = 1500;

/** A word of a command as a shell takes it. A node's agent names its cards, and a name may hold any printable characters. */
export function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** The element of a command. */
export function command(text) {
  const root = element("span", "command");
  const code = element("code", "", text);
  const button = element("button", "plain copy", t("copy"));
  button.type = "button";
  button.setAttribute("aria-label", t("copy-what", { what: text }));
  button.addEventListener("click", async (event) => {
    event.stopPropagation();
    say(button, (await copied(code)) ? t("copied") : t("copy-by-hand"));
    setTimeout(() => say(button, t("copy")), SAID);
  });
  root.append(code, button);
  return root;
}

/** Copy the text of an element; without the right to, which a page without TLS has not, only select it. */
async function copied(code) {
  try {
    await navigator.clipboard.writeText(code.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(code);
    return false;
  }
}
