// What a person may do about a card or a Job: the commands, to copy, and where the page may make changes, buttons that do
// the same.

import { command } from "./command.js";
import { t } from "./language.js";
import { element, say, sentence } from "./text.js";

let make = null;

/** Let buttons make changes: `change(wanted)` resolves with what was done, or with why it was refused. */
export function allow(change) {
  make = change;
}

/** The element with the commands of these actions: the keys of their labels, their lines, and the changes that they are. */
export function actions(wanted) {
  const root = element("details", "actions");
  root.append(element("summary", "", t("actions")));
  const said = element("p", "soft");
  said.setAttribute("role", "status");
  for (const [label, line, change] of wanted) {
    const row = element("div", "action");
    if (make) row.append(button(t(label), change, said));
    row.append(command(line));
    root.append(row);
  }
  root.append(said);
  return root;
}

/** A button that asks once more before it makes a change. */
function button(label, change, said) {
  const root = element("button", "plain", label);
  root.type = "button";
  let sure = false;
  root.addEventListener("blur", () => {
    sure = false;
    say(root, label);
  });
  root.addEventListener("click", async () => {
    if (!sure) {
      sure = true;
      say(root, t("confirm", { what: label }));
      return;
    }
    root.disabled = true;
    say(said, t("asking"));
    say(said, sentence(await make(change).catch((error) => error.message)));
    root.disabled = false;
    sure = false;
    say(root, label);
  });
  return root;
}
